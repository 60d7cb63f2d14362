// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the library has to say that is no error.

use std::io::Write;
use std::sync::{Arc, PoisonError, RwLock};

/// Told each warning, in the thread that it concerns.
pub type Listener = Box<dyn Fn(&str) + Send + Sync>;

static LISTENER: RwLock<Option<Arc<Listener>>> = RwLock::new(None);

/// Says who hears the library's warnings: that a member only spins, or that a loop's member was demoted, each once. `None`:
/// they go to standard error, as at first.
pub fn on_warning(listener: Option<Listener>) {
    let mut current = LISTENER.write().unwrap_or_else(PoisonError::into_inner);
    *current = listener.map(Arc::new);
}

#[cold]
pub(crate) fn warn(text: &str) {
    let listener = LISTENER.read().unwrap_or_else(PoisonError::into_inner);
    // It may want to say who is next.
    let listener = listener.clone();
    match listener {
        Some(listener) => listener(text),
        // Not eprintln, which panics when nobody reads.
        None => drop(writeln!(std::io::stderr(), "libconsort: warning: {text}")),
    }
}
