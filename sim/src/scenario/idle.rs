// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a scenario says and can have no effect: worth a note, since whoever wrote it meant something.

use std::collections::BTreeSet;

use crate::setup::{Program, Setup, Step};

/// A note for each such thing; of several instances of a task, one.
pub fn without_effect(setup: &Setup) -> Vec<String> {
    let mut notes = BTreeSet::new();
    for task in &setup.tasks {
        let name = crate::report::group_name(&task.name);
        if task
            .start_ns
            .is_some_and(|at_ns| at_ns >= setup.duration_ns)
        {
            notes.insert(format!("{name} begins after the end"));
        }
        if let Program::Steps(steps) = &task.program {
            let mut look = Look {
                name,
                held: BTreeSet::new(),
                notes: &mut notes,
            };
            look.at(steps);
            if has(steps, &|step| matches!(step, Step::Poll { .. }))
                && !has(steps, &|step| matches!(step, Step::Join(_)))
            {
                notes.insert(format!(
                    "{name} polls and joins no domain: its polls only wait, nobody hears of them"
                ));
            }
        }
    }
    for action in &setup.actions {
        if action.at_ns >= setup.duration_ns {
            notes.insert(format!(
                "what is to happen at {} s does not: the run ends at {} s",
                action.at_ns as f64 / 1e9,
                setup.duration_ns as f64 / 1e9
            ));
        }
    }
    notes.into_iter().collect()
}

/// Whether one of the steps, or of those in their loops, is meant.
fn has(steps: &[Step], is_meant: &dyn Fn(&Step) -> bool) -> bool {
    steps.iter().any(|step| match step {
        Step::Loop { steps, .. } => has(steps, is_meant),
        step => is_meant(step),
    })
}

/// One task's steps, in their order.
struct Look<'a> {
    name: &'a str,
    held: BTreeSet<u32>,
    notes: &'a mut BTreeSet<String>,
}

impl Look<'_> {
    fn at(&mut self, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Lock(lock) | Step::LockFor { lock, .. } if !self.held.insert(*lock) => {
                    self.notes.insert(format!(
                        "{} takes a lock that it holds already, which has no effect",
                        self.name
                    ));
                }
                Step::Unlock(lock) => {
                    self.held.remove(lock);
                }
                Step::Loop { steps, .. } => self.at(steps),
                _ => {}
            }
        }
    }
}
