// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plans: checked against the group's rate, kept with the member's name, moved.

use consort_daemon::groups::{
    plan::{Move, Plan},
    show::{Doing, What},
};
use consort_groups::frames::Interval;
use consort_kernel::NEVER_NS;
use nix::errno::Errno;

use crate::world::{World, FILM, OTHER, ROOT, USER};

const MS: u64 = 1_000_000;

/// So many intervals, one every 30 ms.
fn plan(count: u64, length_ns: u64) -> Plan {
    let intervals = (0..count).map(|number| Interval {
        start_ns: number * 30 * MS,
        end_ns: number * 30 * MS + length_ns,
    });
    Plan {
        intervals: intervals.collect(),
        repeat_ns: 0,
    }
}

fn load(world: &mut World, asker: i32, member: &str, plan: Option<Plan>) -> Result<(), Errno> {
    let peer = world.peer(asker);
    let loaded = world.service.set_plan(&peer, member, plan, false);
    loaded.map_err(|refusal| refusal.errno)
}

/// Intervals that the scheduler was told, by the members' roles.
fn loaded(world: &World) -> Vec<(u32, usize)> {
    let record = world.host.record();
    let plans = record.groups.values().flat_map(|group| &group.plans);
    plans
        .map(|(role, (intervals, _))| (*role, intervals.len()))
        .collect()
}

#[test]
fn a_plan_is_checked_against_the_rate_that_pays_for_it() {
    let mut world = World::new();
    world.apply(USER, "film", FILM).unwrap();
    // 0.3 of which another group has 0.1: 6 ms of 30.
    assert_eq!(
        load(&mut world, USER, "show", Some(plan(10, 6 * MS))),
        Ok(())
    );
    let peer = world.peer(USER);
    let refusal = world
        .service
        .set_plan(&peer, "show", Some(plan(10, 7 * MS)), false)
        .unwrap_err();
    assert_eq!(refusal.errno, Errno::EDQUOT);
    assert!(
        refusal
            .text
            .contains("frame 1 needs 7ms of 30ms, and the rate has 6ms left"),
        "{}",
        refusal.text
    );
    world
        .service
        .set_plan(&peer, "show", Some(plan(3, 7 * MS)), true)
        .unwrap();
    assert_eq!(loaded(&world), [(2, 3)]);
    assert_eq!(
        load(&mut world, USER, "nobody", Some(plan(1, MS))),
        Err(Errno::ENOENT)
    );
    assert_eq!(
        load(&mut world, OTHER, "show", Some(plan(1, MS))),
        Err(Errno::ENOENT)
    );
    for wrong in [
        plan(0, MS),
        plan(1, 1),
        plan(2, 31 * MS),
        Plan {
            repeat_ns: MS,
            ..plan(2, 2 * MS)
        },
        plan(20_000, MS),
    ] {
        assert_eq!(
            load(&mut world, USER, "show", Some(wrong)),
            Err(Errno::EINVAL)
        );
    }
    assert_eq!(loaded(&world), [(2, 3)]);
    assert_eq!(load(&mut world, USER, "show", None), Ok(()));
    assert_eq!(loaded(&world), []);
}

#[test]
fn who_says_itself_when_it_is_due_has_no_plan() {
    let mut world = World::new();
    let text = "[group.talk]\nfunction = \"coop\"\nmembers = [\"speaker\"]";
    world.apply(USER, "talk", text).unwrap();
    assert_eq!(
        load(&mut world, USER, "speaker", Some(plan(1, MS))),
        Err(Errno::EINVAL)
    );
}

/// A plan stays with its member: when the group is made anew, and when the daemon is.
#[test]
fn a_plan_stays_with_its_member() {
    let mut world = World::new();
    world.apply(USER, "film", FILM).unwrap();
    load(&mut world, USER, "show", Some(plan(5, MS))).unwrap();
    let fewer = FILM.replace("\"scale\",", "");
    world.apply(USER, "film", &fewer).unwrap();
    assert_eq!(loaded(&world), [(1, 5)]);
    let mut world = World::beside(world.killed());
    assert_eq!(loaded(&world), [(1, 5)]);
    // A member that goes takes its plan along.
    let without = fewer.replace(", { name = \"show\", interval = \"4ms\" }", ", \"shown\"");
    let without = without.replace(" { name = \"show\", interval = \"4ms\" }", " \"shown\"");
    world.apply(USER, "film", &without).unwrap();
    world.apply(USER, "film", FILM).unwrap();
    assert_eq!(loaded(&world), []);
    let world = World::beside(world.killed());
    assert_eq!(loaded(&world), []);
}

#[test]
fn one_user_has_so_many_intervals() {
    let mut world = World::new();
    let members: Vec<String> = (0..5).map(|number| format!("\"m{number}\"")).collect();
    let text = format!(
        "[group.a]\nfunction = \"plan\"\nmembers = [{}]",
        members.join(", ")
    );
    world.apply(ROOT, "a", &text).unwrap();
    for number in 0..4 {
        let member = format!("m{number}");
        assert_eq!(
            load(&mut world, ROOT, &member, Some(plan(16_384, MS))),
            Ok(())
        );
    }
    assert_eq!(
        load(&mut world, ROOT, "m4", Some(plan(1, MS))),
        Err(Errno::EDQUOT)
    );
    assert_eq!(load(&mut world, ROOT, "m3", Some(plan(16_000, MS))), Ok(()));
    assert_eq!(load(&mut world, ROOT, "m4", Some(plan(300, MS))), Ok(()));
}

#[test]
fn plans_begin_stand_still_and_go_on() {
    let mut world = World::new();
    world.apply(USER, "film", FILM).unwrap();
    let peer = world.peer(USER);
    let to = |world: &mut World, to: Move| {
        let moved = world.service.move_plans(&peer, "read", to);
        moved.map_err(|refusal| refusal.errno)
    };
    assert_eq!(
        to(&mut world, Move::Trigger),
        Err(Errno::EINVAL),
        "no member has a plan"
    );
    load(&mut world, USER, "show", Some(plan(5, MS))).unwrap();
    let begun = |world: &World| {
        let record = world.host.record();
        let mut groups = record.groups.values();
        groups.find_map(|group| group.begun).unwrap().0
    };
    to(&mut world, Move::Trigger).unwrap();
    let first_ns = begun(&world);
    assert_ne!(first_ns, NEVER_NS);
    to(&mut world, Move::Pause).unwrap();
    assert_eq!(begun(&world), NEVER_NS);
    to(&mut world, Move::Pause).unwrap();
    to(&mut world, Move::Resume).unwrap();
    // It has stood still for no time that matters.
    let again_ns = begun(&world);
    assert!(again_ns >= first_ns && again_ns - first_ns < 10_000 * MS);
    to(&mut world, Move::Resume).unwrap();
    assert_eq!(begun(&world), again_ns);
    to(&mut world, Move::Seek(5_000 * MS)).unwrap();
    assert!(begun(&world) < again_ns);
    to(&mut world, Move::Pause).unwrap();
    to(&mut world, Move::Seek(0)).unwrap();
    assert_eq!(begun(&world), NEVER_NS);
    to(&mut world, Move::Resume).unwrap();
    assert!(begun(&world) >= again_ns);
}

/// A file that is refused once its groups have been made anew stops no plan.
#[test]
fn plans_go_on_where_they_were_when_a_file_is_turned_back() {
    let mut world = World::new();
    world.apply(USER, "film", FILM).unwrap();
    load(&mut world, USER, "show", Some(plan(5, MS))).unwrap();
    let peer = world.peer(USER);
    let go = |world: &mut World, to: Move| world.service.move_plans(&peer, "show", to).unwrap();
    let begun = |world: &World| {
        let record = world.host.record();
        let mut groups = record.groups.values();
        groups.find_map(|group| group.begun).map(|begun| begun.0)
    };
    // A folder is where the file would be made.
    let in_the_way = world.store().join("unfinished");
    let refused = |world: &mut World| {
        std::fs::create_dir(&in_the_way).unwrap();
        let fewer = FILM.replace("\"scale\",", "");
        let (errno, _) = world.apply(USER, "film", &fewer).unwrap_err();
        assert_eq!(errno, Errno::EIO);
        std::fs::remove_dir(&in_the_way).unwrap();
    };
    go(&mut world, Move::Trigger);
    go(&mut world, Move::Seek(100_000 * MS));
    let began = begun(&world);
    refused(&mut world);
    assert_eq!(begun(&world), began);
    go(&mut world, Move::Pause);
    refused(&mut world);
    go(&mut world, Move::Resume);
    let (first_ns, again_ns) = (began.unwrap(), begun(&world).unwrap());
    assert!(again_ns >= first_ns && again_ns - first_ns < 10_000 * MS);
}

/// What nobody runs for is said.
#[test]
fn why_nobody_runs_is_said() {
    let mut world = World::new();
    world.apply(USER, "film", FILM).unwrap();
    let doing = |world: &World, group: &str| {
        let rows = world.rows(None).into_iter();
        let mut groups = rows.filter_map(|row| match row {
            What::Group(row) => Some(row),
            _ => None,
        });
        groups.find(|row| row.name == group).unwrap().doing
    };
    assert_eq!(doing(&world, "film"), None);
    assert_eq!(doing(&world, "stages"), Some(Doing::Unbound));
    let peer = world.peer(USER);
    world.service.name_process(&peer, "read").unwrap();
    assert_eq!(doing(&world, "stages"), Some(Doing::Waits));
}

/// Two groups, or two members of one, that the same rate pays for: each alone would fit.
#[test]
fn plans_on_one_rate_share_it() {
    let mut world = World::new();
    world.apply(USER, "film", FILM).unwrap();
    load(&mut world, USER, "show", Some(plan(10, 4 * MS))).unwrap();
    let peer = world.peer(USER);
    let mut beside = |length_ns| {
        let plan = Some(plan(10, length_ns));
        let loaded = world.service.set_plan(&peer, "read", plan, false);
        loaded.map_err(|refusal| refusal.text)
    };
    let refused = beside(3 * MS).unwrap_err();
    assert!(refused.contains("the rate has 2ms left"), "{refused}");
    beside(2 * MS).unwrap();
    // Its own one is not counted twice.
    beside(2 * MS).unwrap();
    load(&mut world, USER, "show", None).unwrap();
    load(&mut world, USER, "read", Some(plan(10, 6 * MS))).unwrap();
}

/// The scheduler has no memory for the plan of the second of three threads: all three have the plan from before.
#[test]
fn all_threads_of_a_set_have_a_plan_or_none_has() {
    let mut world = World::new();
    let text = "[group.set]\nfunction = \"period\"\nmembers = [{ name = \"all\", period = \"30ms\", count = 3 }]";
    world.apply(USER, "set", text).unwrap();
    load(&mut world, USER, "all", Some(plan(2, MS))).unwrap();
    world.host.record().unplannable = Some(1);
    let refused = load(&mut world, USER, "all", Some(plan(5, MS)));
    assert_eq!(refused, Err(Errno::ENOMEM));
    assert_eq!(loaded(&world), [(0, 2), (1, 2), (2, 2)]);
    world.host.record().unplannable = None;
    load(&mut world, USER, "all", Some(plan(5, MS))).unwrap();
    assert_eq!(loaded(&world), [(0, 5), (1, 5), (2, 5)]);
}
