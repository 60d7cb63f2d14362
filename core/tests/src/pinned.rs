// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Something that the policy points to: it stays where it is.

use std::ops::Deref;

pub struct Pinned<T>(*mut T);

impl<T> Pinned<T> {
    pub fn new(value: T) -> Self {
        Pinned(Box::into_raw(Box::new(value)))
    }

    pub fn at(&self) -> *mut T {
        self.0
    }
}

impl<T> Drop for Pinned<T> {
    fn drop(&mut self) {
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl<T> Deref for Pinned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        unsafe { &*self.0 }
    }
}
