// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who has a name is bound, whichever comes first.

use std::fs;

use consort_daemon::groups::show::What;

use crate::{
    common::write_thread,
    world::{World, FILM, OTHER, OTHER_UID, ROOT, UID, USER},
};

const PLAYER: &str = "/usr/bin/player";

fn by_rule(rule: &str) -> String {
    format!("[group.a]\nmembers = [{{ name = \"found\", count = 2, rule = {{ {rule} }} }}]")
}

#[test]
fn rules_find_threads_that_are_there_and_that_come() {
    let mut world = World::new();
    world.thread((500, 501), UID, (PLAYER, "show"));
    world.thread((500, 502), UID, (PLAYER, "read"));
    world.thread((600, 600), OTHER_UID, (PLAYER, "show"));
    let rule = "executable = \"/usr/bin/player\", thread = \"show\"";
    world.apply(USER, "a", &by_rule(rule)).unwrap();
    assert_eq!(world.bound("found"), [501]);
    world.thread((700, 701), UID, (PLAYER, "show"));
    world.thread((800, 801), UID, (PLAYER, "show"));
    world.tick();
    // As many as the name may stand for; the others are nobody.
    let bound = world.bound("found");
    assert_eq!(bound.len(), 2);
    assert!(bound.contains(&501), "{bound:?}");
    // A thread that ends leaves its place to another one.
    world.end_process(500);
    world.tick();
    world.tick();
    assert_eq!(world.bound("found"), [701, 801]);
    world.delete(USER, "a").unwrap();
    assert!(world.rows(None).is_empty());
}

/// While the kernel lists a process' threads one may end, and another one get its number. Here a folder's name is read as that
/// of another one.
#[test]
fn a_thread_that_is_listed_twice_has_one_name() {
    let mut world = World::new();
    world.thread((500, 501), UID, (PLAYER, "show"));
    fs::create_dir(world.folder.0.join("500/task/0501")).unwrap();
    world
        .apply(USER, "a", &by_rule("thread = \"show\""))
        .unwrap();
    assert_eq!(world.bound("found"), [501]);
}

#[test]
fn every_part_of_a_rule_counts() {
    for (rule, fits) in [
        ("cgroup = \"user.slice\"", true),
        ("cgroup = \"user.slice/films/hd\"", false),
        ("executable = \"/usr/bin/player\"", true),
        ("executable = \"/usr/bin/other\"", false),
        ("thread = \"show\"", true),
        ("thread = \"sho\"", false),
        ("parent = \"boss\"", true),
        ("parent = \"show\"", false),
        ("user = \"70001\", thread = \"show\"", true),
    ] {
        let mut world = World::new();
        world.thread((500, 500), UID, (PLAYER, "show"));
        world.thread((400, 400), OTHER_UID, ("/bin/boss", "boss"));
        fs::write(world.folder.0.join("400/comm"), "boss\n").unwrap();
        let stat = world.folder.0.join("500/stat");
        let text = fs::read_to_string(&stat)
            .unwrap()
            .replace(" S 0 ", " S 400 ");
        fs::write(stat, text).unwrap();
        // Own processes: the one that asks has no program.
        world.apply(USER, "a", &by_rule(rule)).unwrap();
        let bound = world.bound("found");
        assert_eq!(bound.contains(&500), fits, "{rule}: {bound:?}");
    }
}

/// Root's files name others' threads, and nobody else's do.
#[test]
fn strangers_threads_are_roots_only() {
    let mut world = World::new();
    world.thread((600, 600), OTHER_UID, (PLAYER, "show"));
    world.thread((601, 601), UID, (PLAYER, "show"));
    world
        .apply(USER, "a", &by_rule("thread = \"show\""))
        .unwrap();
    assert_eq!(world.bound("found"), [601]);
    world.delete(USER, "a").unwrap();
    // Root's own are meant when it says nothing.
    world
        .apply(ROOT, "a", &by_rule("thread = \"show\""))
        .unwrap();
    assert_eq!(world.bound("found"), [0; 0]);
    world
        .apply(ROOT, "a", &by_rule("thread = \"show\", user = \"70002\""))
        .unwrap();
    assert_eq!(world.bound("found"), [600]);
    // A program that its user has started with more rights than its own is nobody's.
    world.thread((602, 602), OTHER_UID, (PLAYER, "show"));
    let status = world.folder.0.join("602/status");
    fs::write(status, "Tgid:\t602\nUid:\t70002\t0\t0\t0\n").unwrap();
    world.tick();
    assert_eq!(world.bound("found"), [600]);
}

/// A rule that says something else keeps whom it still fits.
#[test]
fn another_rule_keeps_whom_it_fits() {
    let mut world = World::new();
    world.thread((500, 501), UID, (PLAYER, "show"));
    world.thread((500, 502), UID, (PLAYER, "read"));
    world
        .apply(USER, "a", &by_rule("executable = \"/usr/bin/player\""))
        .unwrap();
    assert_eq!(world.bound("found"), [501, 502]);
    let joins = |world: &World| {
        world
            .host
            .record()
            .groups
            .keys()
            .copied()
            .collect::<Vec<_>>()
    };
    let before = joins(&world);
    world
        .apply(USER, "a", &by_rule("thread = \"read\""))
        .unwrap();
    assert_eq!(world.bound("found"), [502]);
    assert_eq!(joins(&world), before);
}

#[test]
fn a_process_that_was_started_with_a_name_has_it() {
    let mut world = World::new();
    let peer = world.peer(USER);
    world.service.name_process(&peer, "logs").unwrap();
    world.tick();
    assert!(world.rows(None).is_empty());
    world.apply(USER, "film", FILM).unwrap();
    assert_eq!(world.bound("logs"), [USER]);
    write_thread(&world.folder.0, USER, &[3100], UID, 7);
    world.tick();
    assert_eq!(world.bound("logs"), [USER, 3100]);
    // Another user's process of that name is another one.
    let peer = world.peer(OTHER);
    world.service.name_process(&peer, "show").unwrap();
    world.tick();
    assert_eq!(world.bound("show"), [0; 0]);
    world.end_process(USER);
    world.tick();
    world.tick();
    assert_eq!(world.bound("logs"), [0; 0]);
}

/// What the scheduler refuses now it may take later, and meanwhile its owner is told why.
#[test]
fn who_cannot_be_bound_yet_is_later() {
    let mut world = World::new();
    world.thread((500, 500), UID, (PLAYER, "show"));
    world.host.record().unbindable.insert(500);
    world
        .apply(USER, "a", &by_rule("thread = \"show\""))
        .unwrap();
    assert_eq!(world.bound("found"), [0; 0]);
    let refused = world.rows(None).into_iter().find_map(|row| match row {
        What::Thread(row) => row.refused,
        _ => None,
    });
    assert_eq!(refused.as_deref(), Some("it is not under the scheduler"));
    world.host.record().unbindable.clear();
    world.tick();
    assert_eq!(world.bound("found"), [500]);
}

#[test]
fn names_are_words() {
    let mut world = World::new();
    let peer = world.peer(USER);
    for name in ["", "a b", "a/b", "ä", &"x".repeat(64)] {
        assert!(world.service.name_process(&peer, name).is_err(), "{name}");
    }
}
