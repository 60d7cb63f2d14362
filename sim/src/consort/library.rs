// SPDX-License-Identifier: MIT OR Apache-2.0
//! The compiled scheduler: the one of this repository, or another build of it that is loaded at run time, such as one
//! with a planted bug.

use crate::error::Error;
use crate::ffi::{self, sim_scheduler};
use std::ffi::{CStr, CString};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

/// Who may use the scheduler's variables.
static TURN: Mutex<()> = Mutex::new(());

/// The right to use the scheduler's variables, until it is dropped.
pub(crate) struct Turn {
    _guard: MutexGuard<'static, ()>,
}

impl Turn {
    pub fn take() -> Self {
        Self {
            // A run that panicked leaves nothing behind that the next one does not reset.
            _guard: TURN
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner),
        }
    }
}

/// Who may open a scheduler, which keeps a copy of its variables as they were loaded when it is opened first.
static OPENING: Mutex<()> = Mutex::new(());

/// Loaded once, and never unloaded.
#[derive(Clone, Copy)]
pub struct Library {
    scheduler: &'static sim_scheduler,
}

// SAFETY: only addresses, which are used by whoever has the turn.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    pub fn built_in() -> Self {
        // SAFETY: the scheduler of this program, whose function has the type that is declared for it.
        match unsafe { opened(ffi::sim_open) } {
            Some(library) => library,
            None => panic!("no memory for a copy of the scheduler's variables"),
        }
    }

    /// Loads a shared object that was built from sim/shim.
    ///
    /// # Errors
    /// What the dynamic linker says.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let failed = |why: String| Error::Load {
            path: path.display().to_string(),
            why,
        };
        let name = CString::new(path.as_os_str().as_encoded_bytes())
            .map_err(|error| failed(error.to_string()))?;
        // SAFETY: a valid string; the object's constructors do nothing.
        let object = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if object.is_null() {
            return Err(failed(linker_error()));
        }
        // SAFETY: a valid object and a valid string.
        let symbol = unsafe { libc::dlsym(object, c"sim_open".as_ptr()) };
        if symbol.is_null() {
            return Err(failed(linker_error()));
        }
        // SAFETY: this is the function's type in shim/host.h, from which the object was built.
        let open: unsafe extern "C" fn() -> *const sim_scheduler =
            unsafe { std::mem::transmute(symbol) };
        // SAFETY: the object stays loaded.
        unsafe { opened(open) }
            .ok_or_else(|| failed("no memory for a copy of its variables".to_owned()))
    }

    pub(super) fn scheduler(&self) -> &'static sim_scheduler {
        self.scheduler
    }
}

/// # Safety
/// `open` is a loaded scheduler's `sim_open`, and what it returns lives for ever.
unsafe fn opened(open: unsafe extern "C" fn() -> *const sim_scheduler) -> Option<Library> {
    let _alone = OPENING
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    // SAFETY: takes no arguments; nobody else opens it at the same time.
    let scheduler = unsafe { open().as_ref() }?;
    Some(Library { scheduler })
}

fn linker_error() -> String {
    // SAFETY: the string is valid until the next call of the linker.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() {
            "no reason was given".to_owned()
        } else {
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    }
}
