// SPDX-License-Identifier: MIT OR Apache-2.0
//! A state variable that several threads of a program set: the level of a queue, which its producer publishes and its
//! consumer changes as well.

use crate::layout::VARIABLES;
use crate::link::Place;
use crate::member::State;
use crate::{fork_guard, Announced, Error};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A thread's state variable for all threads of its program; made by [`Announced::share_state`]. Setting it is a lock that
/// nobody holds for long, and no system call. It outlives the thread, whose variable is then nobody's.
#[derive(Clone)]
pub struct SharedState(Arc<Shared>);

pub(crate) struct Shared {
    index: usize,
    /// As [`fork_guard`] knows the process that shares it.
    process: (&'static AtomicU64, u64),
    now: Mutex<Now>,
}

#[derive(Default)]
struct Now {
    value: i64,
    /// Where the thread publishes; `None`: it is on its own.
    place: Option<Place>,
}

impl Now {
    fn publish(&self, index: usize) {
        let place = self.place.as_ref().filter(|place| place.page.is_mapped());
        let variables = place.and_then(|place| place.page.variables(place.slot));
        if let Some(variables) = variables {
            variables.state[index].store(self.value, Ordering::Release);
        }
    }
}

impl Shared {
    /// None in a forked child: a thread that it does not have may have held the lock.
    fn lock(&self) -> Option<MutexGuard<'_, Now>> {
        let (word, process) = self.process;
        let is_here = word.load(Ordering::Relaxed) == process;
        is_here.then(|| self.now.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl SharedState {
    /// Publishes a value. Not for signal handlers: they may have interrupted a thread that holds the lock.
    pub fn set(&self, value: i64) {
        if let Some(mut now) = self.0.lock() {
            now.value = value;
            now.publish(self.0.index);
        }
    }

    /// What was published last; 0 in a forked child.
    pub fn get(&self) -> i64 {
        self.0.lock().map_or(0, |now| now.value)
    }
}

impl Announced {
    /// A state variable, by its place in the group file, that other threads of this program may set as well. From then on it
    /// is set through that handle only. A forked child's are of no effect.
    ///
    /// # Errors
    /// [`Error::VariableRange`]; [`Error::Forked`].
    pub fn share_state(&self, index: usize) -> Result<SharedState, Error> {
        self.member().state().share_variable(index)
    }
}

impl State {
    pub fn share_variable(&self, index: usize) -> Result<SharedState, Error> {
        let value = self.variable(index)?;
        let _inside = self.go_inside().ok_or(Error::Interrupted)?;
        let mut all = self.shared.borrow_mut();
        if let Some(shared) = all.iter().find(|shared| shared.index == index) {
            return Ok(SharedState(Arc::clone(shared)));
        }
        let place = self.place_now();
        let shared = Arc::new(Shared {
            index,
            process: (fork_guard::word()?, fork_guard::number()?),
            now: Mutex::new(Now { value, place }),
        });
        all.push(Arc::clone(&shared));
        Ok(SharedState(shared))
    }

    /// The values of shared variables, in place of what the thread itself has said.
    pub(crate) fn overlay_shared(&self, state: &mut [i64; VARIABLES]) {
        for shared in self.shared.borrow().iter() {
            if let Some(now) = shared.lock() {
                state[shared.index] = now.value;
            }
        }
    }

    /// Shared variables are published there from now on.
    pub(crate) fn move_shared(&self, place: Option<&Place>) {
        for shared in self.shared.borrow().iter() {
            if let Some(mut now) = shared.lock() {
                now.place = place.cloned();
                now.publish(shared.index);
            }
        }
    }
}
