// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whose shares are judged together: which of its members runs is a domain's affair, unless all are alike.

use crate::setup::{any_step, DomainIndex, Program, Setup, Step, Task, TaskIndex};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// `enum consort_order`: members have the same CPU time, whatever they ask for.
const ORDER_SERVICE: u32 = 2;

/// The domains that a program may join.
pub fn domains_of(program: &Program) -> BTreeSet<DomainIndex> {
    match program {
        Program::Steps(steps) => {
            let found = RefCell::new(BTreeSet::new());
            any_step(steps, &|step| {
                if let Step::Join(domain) = step {
                    found.borrow_mut().insert(*domain);
                }
                false
            });
            found.into_inner()
        }
        Program::Player(player) => player.domain.into_iter().collect(),
        Program::MuteLiar { domain }
        | Program::PoliteLiar { domain, .. }
        | Program::Garbage { domain, .. }
        | Program::Script { domain, .. } => BTreeSet::from([*domain]),
        Program::Hog => BTreeSet::new(),
    }
}

/// Tasks whose shares are added up before they are judged. A task that joins several domains is on its own.
pub fn units(setup: &Setup) -> Vec<Vec<TaskIndex>> {
    let mut units = Vec::new();
    let mut members: BTreeMap<(DomainIndex, usize), Vec<TaskIndex>> = BTreeMap::new();
    for (index, task) in setup.tasks.iter().enumerate() {
        let domains = domains_of(&task.program);
        match domains.first() {
            Some(domain) if domains.len() == 1 => {
                members
                    .entry((*domain, task.cgroup))
                    .or_default()
                    .push(index);
            }
            _ => units.push(vec![index]),
        }
    }
    for ((domain, _), members) in members {
        let first = &setup.tasks[members[0]];
        let are_equal = setup.domains[domain].order == ORDER_SERVICE
            || members
                .iter()
                .all(|index| are_alike(first, &setup.tasks[*index]));
        match are_equal {
            true => units.extend(members.into_iter().map(|index| vec![index])),
            false => units.push(members),
        }
    }
    units.sort();
    units
}

fn are_alike(one: &Task, other: &Task) -> bool {
    let same =
        (one.nice, &one.affinity, one.start_ns) == (other.nice, &other.affinity, other.start_ns);
    // Films differ, so progress does.
    same && !matches!(one.program, Program::Player(_))
        && shape(&one.program) == shape(&other.program)
}

/// A program with the same numbers for all timers: each instance may have its own.
fn shape(program: &Program) -> Program {
    fn walk(steps: &mut [Step]) {
        for step in steps {
            match step {
                Step::Timer { timer, .. } => *timer = 0,
                Step::Poll {
                    due: crate::setup::Due::Timer { timer, .. },
                    ..
                } => *timer = 0,
                Step::Loop { steps, .. } => walk(steps),
                _ => {}
            }
        }
    }
    let mut program = program.clone();
    if let Program::Steps(steps) = &mut program {
        walk(steps);
    }
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units_of(tasks: &str) -> Vec<Vec<TaskIndex>> {
        let text = format!(
            r#"{{"domains": {{"d": {{}}, "s": {{"order": "service"}}}}, "tasks": {{{tasks}}}}}"#
        );
        units(&crate::scenario::parse("u.json", &text).unwrap().setup)
    }

    #[test]
    fn members_that_differ_are_one() {
        let due = |ms: u32| {
            format!(
                r#"{{"phases": {{"a": {{"join": "d"}}, "b": {{"loop": -1, "run": 500, "poll": "{ms}ms"}}}}}}"#
            )
        };
        let (five, six) = (due(5), due(6));
        assert_eq!(
            units_of(&format!(r#""h": {{"hog": true}}, "a": {five}, "b": {six}"#)),
            [vec![0], vec![1, 2]]
        );
        assert_eq!(
            units_of(&format!(r#""a": {five}, "b": {five}"#)),
            [[0], [1]]
        );
        let in_group = six.replacen('{', r#"{"taskgroup": "/g", "#, 1);
        assert_eq!(
            units_of(&format!(r#""a": {five}, "b": {in_group}"#)),
            [[0], [1]]
        );
    }

    #[test]
    fn players_are_one_but_where_service_counts() {
        let players =
            |domain: &str| format!(r#""p": {{"player": {{"domain": "{domain}"}}, "instance": 2}}"#);
        assert_eq!(units_of(&players("d")), [[0, 1]]);
        assert_eq!(units_of(&players("s")), [[0], [1]]);
    }
}
