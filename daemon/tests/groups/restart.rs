// SPDX-License-Identifier: MIT OR Apache-2.0
//! The daemon is killed, anywhere: what was acknowledged is in force, and nothing else.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    panic::{catch_unwind, AssertUnwindSafe},
    thread,
};

use consort_daemon::groups::{
    plan::Plan,
    show::{GroupPage, What},
};
use consort_groups::frames::Interval;
use nix::errno::Errno;

use crate::world::{World, FILM, OTHER, OTHER_UID, ROOT, UID, USER};

/// What a script of requests comes to, if it is not killed before.
type Script = [fn(&mut World); 7];

const SCRIPT: Script = [
    |world| {
        let peer = world.peer(USER);
        world.service.name_process(&peer, "read").unwrap();
    },
    |world| drop(world.apply(USER, "film", FILM).unwrap()),
    |world| {
        drop(
            world
                .apply(OTHER, "film", &FILM.replace("0.3", "0.2"))
                .unwrap(),
        )
    },
    |world| {
        let other = FILM
            .replace("rate = 0.3", "rate = 0.15")
            .replace("\"scale\",", "\"sharpen\",");
        drop(world.apply(USER, "film", &other).unwrap());
    },
    |world| {
        let text = "[group.all]\nclass = \"guaranteed\"\nrate = 0.1\nmembers = [\"a\", \"b\"]";
        drop(world.apply(ROOT, "all", text).unwrap());
    },
    |world| drop(world.delete(OTHER, "film").unwrap()),
    |world| drop(world.apply(USER, "film", FILM).unwrap()),
];

/// Killed at each call to the scheduler: the next daemon has what was acknowledged, or that and the request that was being
/// done.
#[test]
fn killed_anywhere_all_of_a_file_or_nothing_is_in_force() {
    for dies_after in 0.. {
        let mut world = World::new();
        world.host.record().dies_after = Some(dies_after);
        let mut states = vec![world.state()];
        let mut was_killed = false;
        for step in SCRIPT {
            let done = catch_unwind(AssertUnwindSafe(|| step(&mut world)));
            was_killed = done.is_err();
            if was_killed {
                break;
            }
            states.push(world.state());
        }
        let done = states.len() - 1;
        let restored = World::beside(world.killed()).state();
        if restored != *states.last().unwrap() {
            let mut world = World::new();
            SCRIPT[..=done].iter().for_each(|step| step(&mut world));
            assert_eq!(restored, world.state(), "killed after {dies_after} calls");
        }
        if !was_killed {
            assert_eq!(done, SCRIPT.len());
            assert!(dies_after > 20, "the script does something: {dies_after}");
            return;
        }
    }
}

#[test]
fn a_restarted_daemon_finds_threads_again() {
    let mut world = World::new();
    world.thread((500, 501), UID, ("/usr/bin/player", "show"));
    let file = "[group.a]\nmembers = [{ name = \"show\", rule = { thread = \"show\" } }, \"tool\"]";
    world.apply(USER, "a", file).unwrap();
    let peer = world.peer(USER);
    world.service.name_process(&peer, "tool").unwrap();
    let (shown, tools) = (world.bound("show"), world.bound("tool"));
    assert_eq!((&shown[..], &tools[..]), (&[501][..], &[USER][..]));
    let world = World::beside(world.killed());
    assert_eq!((world.bound("show"), world.bound("tool")), (shown, tools));
    // A process that has ended meanwhile, or whose number is another one's, has no name.
    let world = World::beside(world.killed());
    let folder = world.folder.0.clone();
    crate::common::write_thread(&folder, USER, &[USER], UID, 6);
    world.end_process(500);
    let world = World::beside(world.killed());
    assert_eq!((world.bound("show"), world.bound("tool")), (vec![], vec![]));
    assert_eq!(kept(&world), [format!("{UID}.a.toml")]);
}

/// What does not fit any more is left alone, and the rest holds.
#[test]
fn a_file_that_cannot_be_restored_keeps_no_other() {
    let mut world = World::new();
    let file = |name: &str| format!("[group.{name}]\nmembers = [\"{name}\"]");
    world.apply(USER, "a", &file("a")).unwrap();
    world.apply(USER, "b", &file("b")).unwrap();
    world.apply(USER, "c", &file("c")).unwrap();
    let store = world.store();
    let wrong = "[group.b]\nfunction = \"\\u001b[2J\"";
    fs::write(store.join(format!("{UID}.b.toml")), wrong).unwrap();
    // A name that another file has.
    fs::write(store.join(format!("{UID}.c.toml")), file("a")).unwrap();
    let world = World::beside(world.killed());
    assert_eq!(members(&world), ["a"]);
    let all = ["a.toml", "b.unrestored", "c.unrestored"];
    assert_eq!(kept(&world), all.map(|name| format!("{UID}.{name}")));
    // Its user is told of both, and why.
    let told = aside(&world, UID);
    assert_eq!(told.len(), 2);
    let is_said = told[0].starts_with("b: ") && told[0].contains("no decision function");
    assert!(is_said && !told[0].contains('\u{1b}'), "{}", told[0]);
    let is_said = told[1].starts_with("c: ") && told[1].contains("member of group a");
    assert!(is_said, "{}", told[1]);
    assert!(aside(&world, OTHER_UID).is_empty());
}

/// The scheduler has no memory for a moment. Its plan is there with the file again.
#[test]
fn a_file_that_cannot_be_restored_is_tried_again_by_the_next_daemon() {
    let mut world = World::new();
    world.apply(USER, "film", FILM).unwrap();
    let (peer, plan) = (world.peer(USER), plan());
    world
        .service
        .set_plan(&peer, "show", Some(plan.clone()), true)
        .unwrap();
    let (before, files) = (world.state(), kept(&world));
    for _ in 0..2 {
        world = World::without_memory(world.killed(), "create_group");
        assert_eq!(world.state(), (vec![], vec![]));
        // Others' files, and what the user itself does meanwhile, cost nothing of it.
        world.host.record().refuse.clear();
        world
            .apply(USER, "more", "[group.more]\nmembers = [\"more\"]")
            .unwrap();
        world.delete(USER, "more").unwrap();
    }
    let world = World::beside(world.killed());
    assert_eq!((world.state(), kept(&world)), (before, files));
    let record = world.host.record();
    let mut plans = record
        .groups
        .values()
        .flat_map(|group| group.plans.values());
    assert_eq!(
        plans.next().map(|(intervals, _)| intervals.len()),
        Some(plan.intervals.len())
    );
}

/// What was acknowledged since then comes first.
#[test]
fn a_file_that_comes_back_takes_nothing_from_others() {
    let mut world = World::new();
    let file = |rate: &str, name: &str| {
        format!("[group.{name}]\nclass = \"guaranteed\"\nrate = {rate}\nmembers = [\"{name}\"]")
    };
    world.apply(USER, "a", &file("0.4", "a")).unwrap();
    let mut world = World::without_memory(world.killed(), "create_group");
    world.host.record().refuse.clear();
    world.apply(OTHER, "b", &file("0.4", "b")).unwrap();
    let mut world = World::beside(world.killed());
    assert_eq!(members(&world), ["b"]);
    // Its user has it gone, or has another one in its place.
    assert_eq!(world.delete(OTHER, "a"), Err(Errno::ENOENT));
    world.delete(USER, "a").unwrap();
    assert_eq!(world.delete(USER, "a"), Err(Errno::ENOENT));
    assert_eq!(kept(&world), [format!("{OTHER_UID}.b.toml")]);
}

/// Files that nobody sees count for their user all the same.
#[test]
fn what_is_not_in_force_counts_for_its_user() {
    let long = "#".repeat(90 << 10);
    let text = |name: &str| format!("[group.{name}]\nmembers = [\"{name}\"]\n{long}");
    let mut world = World::new();
    for number in 0..10 {
        let name = format!("a{number}");
        world.apply(USER, &name, &text(&name)).unwrap();
    }
    let mut world = World::without_memory(world.killed(), "create_group");
    world.host.record().refuse.clear();
    let refused = (0..10).find_map(|number| {
        let name = format!("b{number}");
        world.apply(USER, &name, &text(&name)).err()
    });
    assert_eq!(refused.map(|(errno, _)| errno), Some(Errno::EDQUOT));
    // One in its own place is no more than that one.
    world.apply(USER, "a0", &text("a0")).unwrap();
    assert_eq!(
        kept(&world)
            .iter()
            .filter(|name| name.contains(".a0."))
            .count(),
        1
    );
}

/// Whoever is told that nothing was changed finds nothing changed with the next daemon either. A daemon may be out of
/// descriptors when it wants to open the folder, to write a name through; here it may not read it.
#[test]
fn what_was_refused_is_not_in_force_with_the_next_daemon() {
    // As a user who is nobody special, for this thread alone.
    let tested = thread::spawn(|| {
        // SAFETY: plain system calls; not the C library's, which are for all threads.
        let is_plain = unsafe {
            libc::geteuid() != 0 || libc::syscall(libc::SYS_setresuid, 65_533, 65_533, 65_533) == 0
        };
        assert!(is_plain);
        let mut world = World::new();
        let file = |name: &str| format!("[group.{name}]\nmembers = [\"{name}\"]");
        world.apply(USER, "a", &file("a")).unwrap();
        let before = world.state();
        let allow = |world: &World, mode| {
            fs::set_permissions(world.store(), fs::Permissions::from_mode(mode)).unwrap();
        };
        allow(&world, 0o333);
        let applied = world
            .apply(USER, "b", &file("b"))
            .map_err(|(errno, _)| errno);
        let deleted = world.delete(USER, "a");
        allow(&world, 0o700);
        assert_eq!((applied, deleted), (Err(Errno::EIO), Err(Errno::EIO)));
        assert_eq!(world.state(), before);
        assert_eq!(World::beside(world.killed()).state(), before);
    });
    tested.join().unwrap();
}

fn plan() -> Plan {
    let interval = Interval {
        start_ns: 0,
        end_ns: 1_000_000,
    };
    Plan {
        intervals: vec![interval],
        repeat_ns: 0,
    }
}

/// Files of a user's that are not in force, and why.
fn aside(world: &World, uid: u32) -> Vec<String> {
    let rows = GroupPage::of(&world.service, Some(uid), None).rows;
    let aside = rows.into_iter().filter_map(|row| match row.what {
        What::Aside(row) => Some(format!("{}: {}", row.name, row.why)),
        _ => None,
    });
    aside.collect()
}

/// Of all groups in force.
fn members(world: &World) -> Vec<String> {
    let told = world.told().into_iter();
    told.flat_map(|told| told.members).collect()
}

/// What the store has for daemons to come, but for notes of the groups that the scheduler has now.
fn kept(world: &World) -> Vec<String> {
    let entries = fs::read_dir(world.store()).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.ends_with(".group"))
        .collect();
    names.sort();
    names
}
