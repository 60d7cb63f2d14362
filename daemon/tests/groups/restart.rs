// SPDX-License-Identifier: MIT OR Apache-2.0
//! The daemon is killed, anywhere: what was acknowledged is in force, and nothing else.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    panic::{catch_unwind, AssertUnwindSafe},
    thread,
};

use nix::errno::Errno;

use crate::world::{World, FILM, OTHER, ROOT, UID, USER};

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

/// What does not fit any more is dropped, and the rest holds.
#[test]
fn a_file_that_cannot_be_restored_keeps_no_other() {
    let mut world = World::new();
    let file = |name: &str| format!("[group.{name}]\nmembers = [\"{name}\"]");
    world.apply(USER, "a", &file("a")).unwrap();
    world.apply(USER, "b", &file("b")).unwrap();
    world.apply(USER, "c", &file("c")).unwrap();
    let store = world.store();
    fs::write(store.join(format!("{UID}.b.toml")), "function = 3").unwrap();
    // A name that another file has.
    fs::write(store.join(format!("{UID}.c.toml")), file("a")).unwrap();
    let world = World::beside(world.killed());
    let members: Vec<_> = world
        .told()
        .into_iter()
        .flat_map(|told| told.members)
        .collect();
    assert_eq!(members, ["a"]);
    assert_eq!(kept(&world), [format!("{UID}.a.toml")]);
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
