// SPDX-License-Identifier: MIT OR Apache-2.0
//! The daemon is killed, anywhere: what is admitted is what is in force.

use std::{
    fs,
    panic::{catch_unwind, AssertUnwindSafe},
    time::Duration,
};

use consort_daemon::{
    config::Division, division::DivisionStatus, limits::Limits, peer::Processes, service::Service,
};
use nix::time::{clock_gettime, ClockId};

use crate::{
    common::{write_thread, FakeHost, Folder},
    world::{World, ROOT, UID, USER},
};

/// What a script of requests comes to, if it is not killed before.
type Script = [fn(&mut World); 11];

const SCRIPT: Script = [
    |world| drop(world.reserve(USER, 0, "guaranteed", 0.2)),
    |world| drop(world.reserve(ROOT, USER + 1, "adaptive", 0.3)),
    |world| drop(world.reserve(USER, USER, "guaranteed", 0.25)),
    |world| drop(world.set_guaranteed(400_000)),
    |world| drop(world.reserve(ROOT, USER + 1, "guaranteed", 0.1)),
    |world| drop(world.reserve(ROOT, USER + 2, "guaranteed", 0.9)),
    |world| assert!(world.release(USER).is_ok()),
    |world| drop(world.reserve(ROOT, 0, "guaranteed", 0.3)),
    |world| world.lend(ROOT, USER + 5, 0.2).unwrap(),
    |world| world.lend(USER + 5, USER + 1, 0.1).unwrap(),
    |world| world.take_back(ROOT, USER + 5, Some(0.15)).unwrap(),
];

/// The daemon is killed at each of its calls to the scheduler, which goes with it. The next one has what was acknowledged,
/// or that and the request that was being done; and the scheduler was told just that.
#[test]
fn killed_anywhere_admitted_is_what_is_in_force() {
    killed_anywhere(|world| World::beside(world.killed()));
}

/// The same where the scheduler goes on, and has what the last request had come to.
#[test]
fn killed_anywhere_a_scheduler_that_goes_on_has_what_is_admitted() {
    killed_anywhere(World::taken_over);
}

fn killed_anywhere(next: fn(World) -> World) {
    for dies_after in 0.. {
        let mut world = World::new();
        world.host.record().dies_after = Some(dies_after);
        let mut states = vec![(world.admitted(), world.capacity(0))];
        let mut was_killed = false;
        for step in SCRIPT {
            let done = catch_unwind(AssertUnwindSafe(|| step(&mut world)));
            was_killed = done.is_err();
            if was_killed {
                break;
            }
            states.push((world.admitted(), world.capacity(0)));
        }
        let done = states.len() - 1;
        let after = next(world);
        let restored = (after.admitted(), after.capacity(0));
        assert_eq!(
            after.in_force(),
            restored.0,
            "killed after {dies_after} calls"
        );
        let expected = states.last().unwrap();
        if restored != *expected {
            let mut world = World::new();
            SCRIPT[..=done].iter().for_each(|step| step(&mut world));
            assert_eq!(
                restored,
                (world.admitted(), world.capacity(0)),
                "killed after {dies_after} calls"
            );
        }
        if !was_killed {
            assert_eq!(done, SCRIPT.len());
            assert!(dies_after > 10, "the script does something");
            return;
        }
    }
}

/// The journal is cut anywhere: what is restored is in force, and fits.
#[test]
fn a_journal_cut_anywhere_is_taken_up() {
    let mut world = World::new();
    SCRIPT.iter().for_each(|step| step(&mut world));
    let bytes = fs::read(world.journal()).unwrap();
    let mut folder = world.killed();
    for cut in (0..=bytes.len()).step_by(9) {
        fs::write(folder.0.join("consort.journal"), &bytes[..cut]).unwrap();
        let world = World::beside(folder);
        assert_eq!(world.in_force(), world.admitted(), "cut at {cut}");
        folder = world.killed();
    }
}

#[test]
fn who_ended_meanwhile_is_not_restored_and_who_is_somebody_else_neither() {
    let mut world = World::new();
    for pid in [USER, USER + 1, USER + 2] {
        world.reserve(ROOT, pid, "guaranteed", 0.1).unwrap();
    }
    let folder = world.killed();
    fs::remove_dir_all(folder.0.join(USER.to_string())).unwrap();
    write_thread(&folder.0, USER + 1, &[USER + 1], UID, 6);
    let world = World::beside(folder);
    assert_eq!(world.admitted().into_keys().collect::<Vec<_>>(), [USER + 2]);
    // What could not be restored is not in the journal any more.
    let journal = fs::read_to_string(world.journal()).unwrap();
    assert_eq!(journal.lines().count(), 1 + 1, "{journal}");
}

/// A division made at run time holds as long as the operator's file says the same as then.
#[test]
fn a_new_file_wins_over_what_was_set_at_run_time() {
    let mut world = World::new();
    world.set_guaranteed(300_000).unwrap();
    let folder = world.killed();
    let world = World::beside(folder);
    assert_eq!(world.capacity(0), 0.3);
    let mut service = Service::new(
        Box::new(FakeHost::default()),
        Processes::at(&world.folder.0),
        Limits::default(),
    );
    let mut division = Division::by_default(1);
    division.classes = division.classes.without(1);
    service
        .open_reservations(division, &world.journal())
        .unwrap();
    assert_eq!(DivisionStatus::of(&service).classes[0].capacity, 0.5);
}

/// A full file system, or one that is read-only, is no reason to leave the machine without its scheduler.
#[test]
fn a_journal_that_cannot_be_used_keeps_nobody_from_being_served() {
    let folder = Folder::new();
    std::fs::create_dir(folder.0.join("consort.journal")).unwrap();
    write_thread(&folder.0, ROOT, &[ROOT], 0, 5);
    let mut world = World::beside(folder);
    world.reserve(ROOT, ROOT, "guaranteed", 0.1).unwrap();
    assert_eq!(world.admitted(), world.in_force());
}

/// What version 1 wrote.
#[test]
fn a_journal_of_the_version_before_is_taken_up() {
    let folder = Folder::new();
    let target = |pid: i32| format!(r#"{{"process":{{"pid":{pid},"start":5}}}}"#);
    let reserve = |number: i32, pid: i32| {
        format!(
            r#"{{"op":"reserve","number":{number},"uid":0,"class":"guaranteed","rate":100000,"auto":null,"period_ns":30000000,"target":{}}}"#,
            target(pid)
        )
    };
    let lines = [
        reserve(1, ROOT),
        reserve(2, USER),
        r#"{"op":"credits","credits":{"list":[{"from":1,"to":2,"rate":40000}]}}"#.to_owned(),
        String::new(),
    ];
    std::fs::write(folder.0.join("consort.journal"), lines.join("\n")).unwrap();
    for pid in [ROOT, USER] {
        write_thread(&folder.0, pid, &[pid], 0, 5);
    }
    let world = World::beside(folder);
    assert_eq!(world.admitted()[&ROOT].1, 60_000);
    assert_eq!(world.admitted()[&USER].1, 140_000);
    assert_eq!(world.admitted(), world.in_force());
}

/// One reservation of this number, and a world that takes it up.
fn with_number(number: u32) -> World {
    let folder = Folder::new();
    let line = format!(
        r#"{{"op":"reserve","number":{number},"uid":0,"class":"guaranteed","rate":100000,"period_ns":30000000,"target":{{"process":{{"pid":{USER},"start":5}}}}}}"#
    );
    fs::write(folder.0.join("consort.journal"), line + "\n").unwrap();
    for pid in [ROOT, USER] {
        write_thread(&folder.0, pid, &[pid], 0, 5);
    }
    World::beside(folder)
}

/// Found by fuzz/hours: number 0 was in force, and in no list.
#[test]
fn a_number_that_no_reservation_has_is_not_restored() {
    let mut world = with_number(0);
    assert!(world.admitted().is_empty() && world.in_force().is_empty());
    assert_eq!(world.reserve(ROOT, ROOT, "guaranteed", 0.1), Ok(1));
}

/// After the greatest number the least follow that nobody has.
#[test]
fn reservations_have_numbers_and_are_restored_however_many_there_were() {
    for (number, next) in [
        (1, 2),
        (u32::MAX / 2, u32::MAX / 2 + 1),
        (u32::MAX - 1, u32::MAX),
        (u32::MAX, 1),
    ] {
        let mut world = with_number(number);
        assert_eq!(world.admitted().len(), 1, "{number}");
        assert_eq!(world.reserve(ROOT, ROOT, "guaranteed", 0.1), Ok(next));
        let before = world.admitted();
        let world = World::beside(world.killed());
        assert_eq!(
            (world.admitted(), world.in_force()),
            (before.clone(), before)
        );
    }
}

/// The parents of processes are read once, however many reservations there are.
#[test]
fn many_reservations_among_many_processes_are_restored_with_one_look_at_them() {
    let mut world = World::new();
    for pid in 10_000..10_016 {
        write_thread(&world.folder.0, pid, &[pid], 0, 5);
        world.reserve(ROOT, pid, "adaptive", 0.02).unwrap();
    }
    let folder = world.killed();
    let stat = fs::read(folder.0.join(format!("{ROOT}/stat"))).unwrap();
    for pid in 20_000..21_500 {
        let first = folder.0.join(format!("{pid}/task/{pid}"));
        fs::create_dir_all(&first).unwrap();
        fs::write(first.join("stat"), &stat).unwrap();
    }
    // CPU time: whatever else this machine does.
    let cpu_time = || -> Duration {
        let clock = ClockId::CLOCK_THREAD_CPUTIME_ID;
        clock_gettime(clock).unwrap().into()
    };
    let began = cpu_time();
    Processes::at(&folder.0).families();
    let one_look = cpu_time() - began;
    let began = cpu_time();
    let world = World::beside(folder);
    let restart = cpu_time() - began;
    assert_eq!(world.admitted().len(), 16);
    assert!(
        restart < one_look * 8,
        "{restart:?}, one look takes {one_look:?}"
    );
}

/// What is adopted is what was reserved: children that the process had before have no part in it, theirs neither.
#[test]
fn children_from_before_are_not_adopted() {
    let mut world = World::new();
    let child = |world: &World, pid: i32, parent: i32, start: u64| {
        write_thread(&world.folder.0, pid, &[pid], UID, start);
        let stat = world.folder.0.join(format!("{pid}/stat"));
        let text = fs::read_to_string(&stat).unwrap();
        let text = text.replace(" S 0 ", &format!(" S {parent} "));
        fs::write(stat, text).unwrap();
    };
    let later = u64::from(u32::MAX);
    child(&world, 4001, USER, 5);
    world.reserve(USER, USER, "guaranteed", 0.1).unwrap();
    child(&world, 4002, USER, later);
    child(&world, 4003, 4002, later + 1);
    child(&world, 4004, 4001, later);
    let threads = |world: &World| {
        let record = world.host.record();
        let held = record.reservations.values().next().unwrap();
        held.threads.iter().copied().collect::<Vec<_>>()
    };
    assert_eq!(threads(&world), [USER]);
    // Another rate does not make those of before its own, and neither does another restart.
    world.reserve(USER, USER, "guaranteed", 0.2).unwrap();
    for _ in 0..2 {
        world = World::beside(world.killed());
        assert_eq!(threads(&world), [USER, 4002, 4003]);
    }
}

/// A daemon that starts while a real-time class has a thread finds its reservation; the thread has it when it is back.
#[test]
fn who_is_in_another_class_meanwhile_is_not_forgotten() {
    let mut world = World::new();
    world.reserve(ROOT, USER, "guaranteed", 0.1).unwrap();
    let admitted = world.admitted();
    let stat = world.folder.0.join(format!("{USER}/stat"));
    let ordinary = fs::read_to_string(&stat).unwrap();
    let zeros = "0 ".repeat(14);
    let raised = ordinary.replacen(&format!("S {zeros}0 "), &format!("S {zeros}-2 "), 1);
    assert_ne!(raised, ordinary);
    fs::write(&stat, raised).unwrap();
    let host = FakeHost::default();
    host.record()
        .refuse
        .insert("add_to_reservation", libc::ESRCH);
    let mut world = World::beside_host(host, world.killed());
    let threads = |world: &World| {
        let record = world.host.record();
        let held = record.reservations.values().next();
        held.map(|held| held.threads.len())
    };
    let mut now = std::time::Instant::now();
    for _ in 0..3 {
        now += Duration::from_secs(1);
        world.service.tick(now);
        assert_eq!(
            (world.admitted(), threads(&world)),
            (admitted.clone(), Some(0))
        );
    }
    world.host.record().refuse.clear();
    fs::write(&stat, ordinary).unwrap();
    world.service.tick(now + Duration::from_secs(1));
    assert_eq!((world.admitted(), threads(&world)), (admitted, Some(1)));
    // A process in that state has ended.
    world
        .host
        .record()
        .reservations
        .values_mut()
        .for_each(|held| held.threads.clear());
    world.service.tick(now + Duration::from_secs(2));
    assert!(world.admitted().is_empty());
}
