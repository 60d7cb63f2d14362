// SPDX-License-Identifier: MIT OR Apache-2.0
//! What users may reserve who are in Unix groups.

use std::fs;

use consort_daemon::{admission::UserLimits, rate::Rate};
use nix::errno::Errno;

use crate::world::{World, USER};

/// The limits of a Unix group are those of the processes that are in it, where they are more generous.
#[test]
fn groups_have_limits() {
    let world = World::new();
    let (member, group) = (USER + 1, 44);
    let status = world.folder.0.join(format!("{member}/status"));
    let text = fs::read_to_string(&status).unwrap();
    fs::write(
        &status,
        format!("{text}Gid:\t9\t9\t9\t9\nGroups:\t7 {group}\n"),
    )
    .unwrap();
    let limits = UserLimits {
        rate: Rate(600_000),
        reservations: 1,
    };
    let mut world = World::beside_with(world.killed(), |division| {
        division.group_limits.insert(group, limits);
    });
    // Others of the same user have what everybody has: 0.5.
    let refused = world.reserve(USER, 0, "adaptive", 0.42).map(drop);
    assert_eq!(refused, Ok(()));
    let refused = world.reserve(USER, 0, "guaranteed", 0.51).unwrap_err();
    assert_eq!(refused.0, Errno::ENOSPC);
    let refused = world
        .reserve(USER, USER + 2, "guaranteed", 0.1)
        .unwrap_err();
    assert!(refused.1.contains("rates of 0.5 in sum"), "{}", refused.1);
    world.reserve(member, 0, "guaranteed", 0.18).unwrap();
    let refused = world.reserve(member, 0, "guaranteed", 0.19).unwrap_err();
    assert!(refused.1.contains("rates of 0.6 in sum"), "{}", refused.1);
}

/// Any user may start a program whose file gives it another group.
#[test]
fn a_group_that_a_program_gives_has_no_limits() {
    let world = World::new();
    let status = world.folder.0.join(format!("{USER}/status"));
    let text = fs::read_to_string(&status).unwrap();
    fs::write(&status, format!("{text}Gid:\t9\t44\t44\t44\nGroups:\t7\n")).unwrap();
    let limits = UserLimits {
        rate: Rate(0),
        reservations: 2,
    };
    let mut world = World::beside_with(world.killed(), |division| {
        division.limits = limits;
        for (group, rate) in [(44, 300_000), (7, 200_000), (9, 100_000)] {
            let rate = Rate(rate);
            division
                .group_limits
                .insert(group, UserLimits { rate, ..limits });
        }
    });
    let refused = world.reserve(USER, 0, "guaranteed", 0.25).unwrap_err();
    assert!(refused.1.contains("rates of 0.2 in sum"), "{}", refused.1);
    world.reserve(USER, 0, "guaranteed", 0.2).unwrap();
}
