// SPDX-License-Identifier: MIT OR Apache-2.0
//! Of which runs the ideal is known.

use crate::setup::{any_step, ActionKind, Policy, Program, Setup, Step};

/// Whether weights, masks and CPUs stay, nobody is treated apart (liars, reservations, holders of locks that inherit), and
/// nothing breaks: then the ideal is known at each instant.
pub fn is_defined(setup: &Setup) -> bool {
    let faults = &setup.faults;
    let breaks = faults.allocation + faults.lookup + faults.timer_late + faults.pause > 0.0;
    let acts = |kind: &ActionKind| !matches!(kind, ActionKind::Kill { .. } | ActionKind::Dump);
    let changes = |step: &Step| {
        matches!(
            step,
            Step::Nice(_)
                | Step::Policy(_)
                | Step::Affinity(_)
                | Step::MigrateDisable
                | Step::Cgroup(_)
                | Step::Rates(_)
        )
    };
    let stays = |program: &Program| match program {
        Program::Steps(steps) => !any_step(steps, &changes),
        Program::Hog | Program::Player(_) => true,
        _ => false,
    };
    setup.rates.is_none()
        && setup.pi_locks.is_empty()
        && !breaks
        && !setup.actions.iter().any(|action| acts(&action.what))
        && setup
            .tasks
            .iter()
            .all(|task| task.policy == Policy::Normal && stays(&task.program))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario;

    #[test]
    fn the_ideal_is_not_known_where_somebody_changes_it() {
        let defined = |text: &str| is_defined(&scenario::parse("t.json", text).unwrap().setup);
        assert!(defined(
            r#"{"tasks": {"a": {"hog": true}, "b": {"run": 1, "sleep": 1}}}"#
        ));
        assert!(!defined(
            r#"{"tasks": {"a": {"hog": true}}, "faults": {"pause": 0.1}}"#
        ));
        assert!(!defined(
            r#"{"tasks": {"a": {"mute_liar": "d"}}, "domains": {"d": {}}}"#
        ));
        assert!(!defined(
            r#"{"tasks": {"a": {"run": 1, "sleep": 1, "reserve": {"class": "guaranteed", "rate": 0.1}}}}"#
        ));
        let phases = r#"{"tasks": {"a": {"phases": {"x": {"run": 1, "cpus": [0]}}}}}"#;
        assert!(!defined(phases));
    }
}
