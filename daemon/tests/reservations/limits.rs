// SPDX-License-Identifier: MIT OR Apache-2.0
//! What users may reserve who are in Unix groups.

use std::{
    fs,
    time::{Duration, Instant},
};

use consort_daemon::{
    admission::UserLimits,
    config::Division,
    division::ReservationPage,
    rate::Rate,
    reservations::{Ask, AskedRate},
    targets::Named,
};
use nix::errno::Errno;

use crate::world::{World, PERIOD_NS, UID, USER};

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

/// A user may have a rate of 0.1 in sum, one that is in `GROUP` of 0.4.
const GROUP: u32 = 44;

fn group_may_more(division: &mut Division) {
    division.limits = UserLimits {
        rate: Rate(100_000),
        reservations: 2,
    };
    let limits = UserLimits {
        rate: Rate(400_000),
        reservations: 9,
    };
    division.group_limits.insert(GROUP, limits);
}

/// Where these processes of the user are in it.
fn with_members(members: &[i32]) -> World {
    let world = World::new();
    for pid in members {
        let status = world.folder.0.join(format!("{pid}/status"));
        let text = fs::read_to_string(&status).unwrap();
        fs::write(
            &status,
            format!("{text}Gid:\t9\t9\t9\t9\nGroups:\t{GROUP}\n"),
        )
        .unwrap();
    }
    World::beside_with(world.killed(), group_may_more)
}

#[test]
fn who_is_in_a_group_with_limits_can_lend_to_who_has_nothing() {
    let mut world = with_members(&[USER, USER + 1]);
    world.reserve(USER, 0, "guaranteed", 0.3).unwrap();
    let peer = world.peer(USER);
    world.service.lend(&peer, 0, USER + 1, 0.1).unwrap();
    assert_eq!(world.admitted()[&(USER + 1)].1, 100_000);
    // A user that is not in it has what everybody has, which is used up.
    let refused = world.service.lend(&peer, 0, USER + 2, 0.1).unwrap_err();
    assert_eq!(refused.errno, Errno::EDQUOT);
    assert_eq!(world.admitted(), world.in_force());
}

/// The program that has asked has gone meanwhile, as a command has, and the daemon is another one.
#[test]
fn an_automatic_rate_of_a_cgroup_follows_within_the_limits_of_who_has_asked() {
    let mut world = with_members(&[USER]);
    let cgroup = world.cgroup("films");
    std::os::unix::fs::chown(&cgroup, Some(UID), None).unwrap();
    let ask = Ask {
        named: Named::Cgroup("films".to_owned()),
        class: "guaranteed".to_owned(),
        rate: AskedRate::Auto {
            least: 0.2,
            most: 0.4,
        },
        period_ns: PERIOD_NS,
    };
    let peer = world.peer(USER);
    world.service.reserve(&peer, &ask).unwrap();
    fs::remove_dir_all(world.folder.0.join(USER.to_string())).unwrap();
    let (mut now, mut used_us) = (Instant::now(), 0);
    let mut run = |world: &mut World, demand_us: u64| {
        for _ in 0..30 {
            used_us += demand_us;
            fs::write(cgroup.join("cpu.stat"), format!("usage_usec {used_us}\n")).unwrap();
            now += Duration::from_secs(1);
            world.service.tick(now);
        }
        ReservationPage::of(&world.service, None, None).reservations[0].asked
    };
    assert_eq!(run(&mut world, 900_000), 0.4);
    let mut world = World::beside_with(world.killed(), group_may_more);
    assert_eq!(run(&mut world, 0), 0.2);
    assert_eq!(run(&mut world, 900_000), 0.4);
}
