// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the numbers of a run do not show: where its model was compared with no kernel, and what it does not have.

use super::configuration::{Base, Configuration};
use crate::{
    models::Algorithm,
    setup::{Action, ActionKind, Program, Setup, Step, Task},
};

impl Configuration {
    /// What a reader of this scenario's run has to know of its model, in sentences. docs/scenarios.md says what was
    /// compared.
    pub fn limits(&self, setup: &Setup) -> Vec<String> {
        let used = [
            (several_cpus(setup), "several CPUs"),
            (has_groups(setup), "tasks in cgroups"),
            (has_nice(setup), "nice values"),
            (has_slices(setup), "slices that tasks ask for"),
        ];
        let names: Vec<&str> = used.iter().filter(|it| it.0).map(|it| it.1).collect();
        let is_used = |name: &str| names.contains(&name);
        let mut limits = Vec::new();
        let mut say = |text: String| limits.push(text);
        match self.base {
            Base::Coop | Base::Fair => {
                if is_used("several CPUs") {
                    say(
                        "the model of the kernel was compared with kernels on one CPU only"
                            .to_owned(),
                    );
                }
                if is_used("slices that tasks ask for") {
                    say("Consort does not look at the slices that tasks ask for".to_owned());
                }
            }
            Base::Eevdf if !names.is_empty() => {
                let names = names.join(", ");
                say(format!(
                    "the model of EEVDF was compared with no kernel for: {names}"
                ));
            }
            Base::Eevdf => {}
            Base::RoundRobin | Base::RateControlled(_) => {
                let name = match self.base {
                    Base::RateControlled(Algorithm::Rc) => "RC",
                    Base::RateControlled(Algorithm::Frc) => "FRC",
                    _ => "SCHED_RR",
                };
                if is_used("several CPUs") {
                    say(format!(
                        "the model of {name} was compared with nothing on several CPUs"
                    ));
                }
                let mut ignored = names.clone();
                ignored.retain(|name| *name != "several CPUs");
                if !matches!(self.base, Base::RoundRobin) {
                    // A weight is a part of what nobody has reserved.
                    ignored.retain(|name| *name != "nice values");
                }
                if !ignored.is_empty() {
                    let ignored = ignored.join(", ");
                    say(format!("the model of {name} does not look at: {ignored}"));
                }
            }
        }
        if matches!(self.base, Base::Eevdf | Base::RoundRobin) && setup.rates.is_some() {
            say(
                "this scheduler has no reservations: those of the scenario mean nothing here"
                    .to_owned(),
            );
        }
        if !matches!(self.base, Base::Coop | Base::Fair) && has_quotas(setup) {
            say(
                "this scheduler keeps no quotas: those of the scenario's cgroups mean nothing here"
                    .to_owned(),
            );
        }
        limits
    }
}

fn has_quotas(setup: &Setup) -> bool {
    let comes = |action: &Action| matches!(action.what, ActionKind::CgroupMax { .. });
    setup.cgroups.iter().any(|group| group.max.is_some()) || setup.actions.iter().any(comes)
}

fn several_cpus(setup: &Setup) -> bool {
    setup.machine.cpus() > 1
}

fn has_groups(setup: &Setup) -> bool {
    any(
        setup,
        |task| task.cgroup != 0,
        |step| matches!(step, Step::Cgroup(_)),
    )
}

fn has_nice(setup: &Setup) -> bool {
    any(
        setup,
        |task| task.nice != 0,
        |step| matches!(step, Step::Nice(_)),
    )
}

fn has_slices(setup: &Setup) -> bool {
    any(
        setup,
        |task| task.slice_ns.is_some(),
        |step| matches!(step, Step::Slice(_)),
    )
}

/// Whether some task is so, or does so.
fn any(setup: &Setup, is_it: impl Fn(&Task) -> bool, does_it: fn(&Step) -> bool) -> bool {
    fn walk(steps: &[Step], does_it: fn(&Step) -> bool) -> bool {
        steps.iter().any(|step| match step {
            Step::Loop { steps, .. } => walk(steps, does_it),
            step => does_it(step),
        })
    }
    setup.tasks.iter().any(|task| {
        is_it(task)
            || match &task.program {
                Program::Steps(steps) => walk(steps, does_it),
                _ => false,
            }
    })
}
