// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What holds for a heap between two calls.

use crate::policy::*;

fn rank(l: *const heap_link) -> u32 {
    if l.is_null() {
        0
    } else {
        unsafe { (*l).rank }
    }
}

fn before(a: &heap_link, b: &heap_link) -> bool {
    unsafe { core_heap_key_before(a.major, a.minor, b.major, b.minor) != 0 }
}

/// Checks order, ranks, parents and the bound on the right spine; returns the links that are queued.
pub fn links(h: &heap) -> Vec<*mut heap_link> {
    let mut found = Vec::new();
    let mut left_to_see = vec![(h.top, std::ptr::null_mut())];

    while let Some((at, parent)) = left_to_see.pop() {
        if at.is_null() {
            continue;
        }
        let l = unsafe { &*at };
        assert_eq!(l.parent, parent, "a link does not point to its parent");
        assert_eq!(l.queued, 1, "a link in a heap is not marked as queued");
        assert!(
            rank(l.left) >= rank(l.right),
            "the longer spine is on the right"
        );
        assert_eq!(l.rank, rank(l.right) + 1, "a rank is wrong");
        assert!(
            parent.is_null() || !before(l, unsafe { &*parent }),
            "a link is above one before it"
        );
        found.push(at);
        left_to_see.push((l.left, at));
        left_to_see.push((l.right, at));
    }
    let bound = (found.len() as u64 + 1).ilog2();
    assert!(
        rank(h.top) <= bound,
        "{} links have a right spine of {}",
        found.len(),
        rank(h.top)
    );
    found
}
