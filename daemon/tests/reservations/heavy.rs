// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes of thousands of threads: whoever reserves for one keeps nobody waiting for long, and all of them get it.

use std::{
    fs,
    ops::Range,
    time::{Duration, Instant},
};

use consort_daemon::status::Status;

use crate::{
    common::FakeHost,
    world::{World, ROOT, UID, USER},
};

const THREADS: i32 = 2200;
/// Looked at for one request, or in one tick.
const AT_ONCE: usize = 1024;

/// The user's first process has so many threads.
fn heavy() -> World {
    let world = World::new();
    make_threads(&world, USER, 10_001..10_000 + THREADS);
    world
}

/// Threads as far as anybody looks at them.
fn make_threads(world: &World, pid: i32, tids: Range<i32>) {
    let tasks = world.folder.0.join(format!("{pid}/task"));
    let stat = fs::read(tasks.join(format!("{pid}/stat"))).unwrap();
    for tid in tids {
        let task = tasks.join(tid.to_string());
        fs::create_dir(&task).unwrap();
        fs::write(task.join("stat"), &stat).unwrap();
    }
}

/// How many threads have each reservation.
fn threads(world: &World) -> Vec<usize> {
    let record = world.host.record();
    let held = record.reservations.values();
    held.map(|held| held.threads.len()).collect()
}

/// Threads that get their reservation in each of many ticks.
fn ticks(world: &mut World) -> Vec<usize> {
    let now = Instant::now();
    let gained = (1..100).map(|number| {
        let before: usize = threads(world).iter().sum();
        world.service.tick(now + Duration::from_secs(60 * number));
        threads(world).iter().sum::<usize>() - before
    });
    gained.collect()
}

#[test]
fn a_request_looks_at_some_threads_and_ticks_at_the_others() {
    let mut world = heavy();
    world.reserve(ROOT, USER, "guaranteed", 0.1).unwrap();
    assert_eq!(threads(&world), [AT_ONCE]);
    assert!(ticks(&mut world).iter().all(|gained| *gained <= AT_ONCE));
    assert_eq!(threads(&world), [THREADS as usize]);
}

/// Threads that are not found yet may make others, which have no part in what is reserved.
#[test]
fn threads_that_come_meanwhile_are_found() {
    let mut world = heavy();
    world.reserve(ROOT, USER, "guaranteed", 0.1).unwrap();
    make_threads(&world, USER, 20_000..20_100);
    ticks(&mut world);
    assert_eq!(threads(&world), [THREADS as usize + 100]);
}

/// The kernel sums up all threads for the `stat` in a process' folder: one look at each of them would take the time of all.
#[test]
fn nobody_reads_what_the_kernel_sums_up() {
    let mut world = heavy();
    for entry in fs::read_dir(&world.folder.0).unwrap() {
        let sum = entry.unwrap().path().join("stat");
        if sum.symlink_metadata().is_ok() {
            fs::remove_file(sum).unwrap();
        }
    }
    world.reserve(ROOT, USER, "guaranteed", 0.1).unwrap();
    ticks(&mut world);
    assert_eq!(threads(&world), [THREADS as usize]);
    let mut world = World::beside(world.killed());
    ticks(&mut world);
    assert_eq!(threads(&world), [THREADS as usize]);
}

/// A thread of a real-time class is tried again in later ticks, and so are thousands, some in each.
#[test]
fn absent_threads_are_tried_again_in_turn() {
    let mut world = heavy();
    world.reserve(ROOT, USER, "guaranteed", 0.1).unwrap();
    let tids = (10_001..10_000 + THREADS).chain([USER]);
    for tid in tids {
        let stat = world.folder.0.join(format!("{USER}/task/{tid}/stat"));
        let zeros = "0 ".repeat(14);
        let said = fs::read_to_string(&stat).unwrap();
        fs::write(
            stat,
            said.replacen(&format!("S {zeros}0 "), &format!("S {zeros}-2 "), 1),
        )
        .unwrap();
    }
    let host = FakeHost::default();
    let refused = ("add_to_reservation", libc::ESRCH);
    host.record().refuse.extend([refused]);
    let mut world = World::beside_host(host, world.killed());
    assert_eq!(threads(&world), [0]);
    world.host.record().refuse.clear();
    assert!(ticks(&mut world).iter().all(|gained| *gained <= AT_ONCE));
    assert_eq!(threads(&world), [THREADS as usize]);
}

/// Whoever owes time of the daemon's waits for the threads that are left, and nobody pays for them in his place.
#[test]
fn whoever_owes_waits_for_the_rest() {
    let mut world = heavy();
    world.reserve(USER, USER, "guaranteed", 0.1).unwrap();
    let thread = consort_kernel::Thread {
        tid: USER,
        start: 5,
    };
    let now = Instant::now();
    world
        .service
        .pay(UID, thread, Duration::from_secs(3600), now);
    world.service.tick(now);
    assert_eq!(threads(&world), [AT_ONCE]);
    // An hour of a CPU at one percent.
    world.service.tick(now + Duration::from_secs(110 * 3600));
    assert!(threads(&world)[0] > AT_ONCE);
    let users = Status::of(&world.service, None).unwrap().users;
    assert!(users
        .iter()
        .all(|user| user.uid == UID || user.told.cpu_us == 0));
}

/// A daemon that is killed before it has come to all threads leaves them to the next one.
#[test]
fn the_next_daemon_goes_on_with_the_rest() {
    let mut world = heavy();
    world.reserve(ROOT, USER, "guaranteed", 0.1).unwrap();
    let mut world = world.taken_over();
    ticks(&mut world);
    assert_eq!(threads(&world), [THREADS as usize]);
}

/// Many reservations of one user are restored with so many looks in all, before anybody is served.
#[test]
fn a_daemon_that_starts_looks_at_some_threads_for_all_reservations() {
    let mut world = World::new();
    for pid in USER..USER + 10 {
        world.reserve(ROOT, pid, "adaptive", 0.02).unwrap();
        let first = 100_000 + (pid - USER) * 1800;
        make_threads(&world, pid, first..first + 1800);
    }
    let mut world = World::beside(world.killed());
    let at_once: usize = threads(&world).iter().sum();
    assert!(at_once <= 16 * AT_ONCE, "{at_once}");
    assert_eq!(threads(&world).len(), 10);
    ticks(&mut world);
    assert_eq!(threads(&world), [1801; 10]);
}
