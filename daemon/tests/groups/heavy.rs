// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes of thousands of threads: what looking at them costs is counted in files of theirs that the daemon opens.

use std::{
    fs,
    os::unix::fs::chown,
    path::PathBuf,
    time::{Duration, Instant},
};

use consort_daemon::{limits::Limits, status::Status};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};

use crate::world::{World, OTHER_UID, UID, USER};

const THREADS: i32 = 3000;
const BY_RULE: &str = "[group.a]\nmembers = [{ name = \"x\", rule = { thread = \"show\" } }]";

/// Counts how often files in some folders are opened. The kernel counts the same one twice in a row as one.
struct Opened {
    events: Inotify,
    folders: Vec<WatchDescriptor>,
}

impl Opened {
    fn in_folders(folders: impl Iterator<Item = PathBuf>) -> Opened {
        let events = Inotify::init(InitFlags::IN_NONBLOCK).unwrap();
        let watch = |folder: PathBuf| events.add_watch(&folder, AddWatchFlags::IN_OPEN).unwrap();
        Opened {
            folders: folders.map(watch).collect(),
            events,
        }
    }

    /// By folder.
    fn counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.folders.len()];
        while let Ok(events) = self.events.read_events() {
            for event in events {
                let folder = self.folders.iter().position(|folder| *folder == event.wd);
                counts[folder.unwrap()] += 1;
            }
        }
        counts
    }
}

/// The user's first process has so many threads, as far as anybody looks at them.
fn heavy() -> World {
    // Time enough for all ticks of a test, on a machine that has none to spare.
    let limits = Limits {
        cpu_per_s: Duration::from_secs(60),
        ..Limits::default()
    };
    let world = World::with_limits(World::new().killed(), limits);
    let tasks = world.folder.0.join(format!("{USER}/task"));
    let stat = fs::read(tasks.join(format!("{USER}/stat"))).unwrap();
    for tid in 10_001..10_000 + THREADS {
        let task = tasks.join(tid.to_string());
        fs::create_dir(&task).unwrap();
        fs::write(task.join("stat"), &stat).unwrap();
    }
    world
}

fn launch(world: &mut World, count: u32) {
    let text = format!("[group.a]\nmembers = [{{ name = \"x\", count = {count} }}]");
    world.apply(USER, "a", &text).unwrap();
    let peer = world.peer(USER);
    world.service.name_process(&peer, "x").unwrap();
}

/// A member that has its threads is not a reason to look at others.
#[test]
fn threads_that_nobody_has_room_for_are_not_looked_at() {
    let mut world = heavy();
    launch(&mut world, 2);
    world.tick();
    let bound = world.bound("x");
    assert_eq!(bound.len(), 2);
    let tasks = world.folder.0.join(format!("{USER}/task"));
    let others = (10_001..10_000 + THREADS).filter(|tid| !bound.contains(tid));
    let some = others.step_by(30).map(|tid| tasks.join(tid.to_string()));
    let opened = Opened::in_folders(some.chain([tasks.clone()]));
    world.tick();
    assert_eq!(opened.counts().iter().sum::<usize>(), 0);
}

/// However many threads it has, that a process is the same is looked at once for all that are found.
#[test]
fn when_a_process_began_is_read_once_a_look() {
    let mut world = heavy();
    let tasks = world.folder.0.join(format!("{USER}/task"));
    let all = [USER].into_iter().chain(10_001..10_000 + THREADS);
    let opened = Opened::in_folders(all.map(|tid| tasks.join(tid.to_string())));
    launch(&mut world, 256);
    let counts = opened.counts();
    let threads: usize = counts[1..].iter().sum();
    assert!(threads >= 30 && (1..20).contains(&counts[0]), "{counts:?}");
}

/// A rule asks for the last of all threads: each look is at some of them at least, however busy the machine.
#[test]
fn a_look_goes_on_where_the_last_one_stopped() {
    let mut world = heavy();
    let last = 10_000 + THREADS;
    world.thread((USER, last), UID, ("/usr/bin/player", "show"));
    world.apply(USER, "a", BY_RULE).unwrap();
    for _ in 0..THREADS {
        if !world.bound("x").is_empty() {
            break;
        }
        world.service.tick(Instant::now());
    }
    assert_eq!(world.bound("x"), [last]);
}

/// A look ends in time, and the next one goes on where that one stopped: all threads are found in the end.
#[test]
fn all_threads_are_found_some_at_a_time() {
    let mut world = heavy();
    launch(&mut world, 1024);
    let bound = |world: &World| -> usize {
        let record = world.host.record();
        let groups = record.groups.values();
        groups.map(|group| group.threads.len()).sum()
    };
    let at_once = bound(&world);
    let mut counts = vec![at_once];
    for _ in 0..100 {
        world.service.tick(Instant::now());
        counts.push(bound(&world));
    }
    assert!(at_once <= 512);
    let mut gained = counts.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(gained.all(|gained| gained <= 512));
    assert_eq!(counts.last(), Some(&1024));
}

/// Nobody is looked at for a user who owes time of the daemon's.
#[test]
fn whoever_owes_gets_no_names() {
    let mut world = heavy();
    let peer = world.peer(USER);
    world.service.name_process(&peer, "x").unwrap();
    let thread = consort_kernel::Thread {
        tid: USER,
        start: 5,
    };
    let owed = Duration::from_secs(36_000);
    world.service.pay(UID, thread, owed, Instant::now());
    let text = "[group.a]\nmembers = [\"x\"]";
    world.apply(USER, "a", text).unwrap();
    world.tick();
    assert_eq!(world.bound("x"), [0; 0]);
}

/// Whoever starts many processes makes nobody else pay for more than a glance at each.
#[test]
fn files_of_strangers_processes_are_not_read() {
    let mut world = World::new();
    world.thread((500, 500), OTHER_UID, ("/usr/bin/player", "show"));
    let process = world.folder.0.join("500");
    chown(&process, Some(OTHER_UID), None).unwrap();
    let task = process.join("task/500");
    let opened = Opened::in_folders([process, task].into_iter());
    world.apply(USER, "a", BY_RULE).unwrap();
    world.tick();
    assert_eq!(opened.counts(), [0, 0]);
    // Of a process that nobody may look into the folder does not tell whose it is.
    world.thread((600, 600), UID, ("/usr/bin/player", "show"));
    chown(world.folder.0.join("600"), Some(0), None).unwrap();
    world.tick();
    assert_eq!(world.bound("x"), [600]);
}

/// Looking at processes, however many strangers have, keeps no message of the one who has rules waiting: rules wait.
#[test]
fn messages_do_not_wait_for_what_rules_cost() {
    let limits = Limits {
        cpu_per_s: Duration::from_nanos(1),
        ..Limits::default()
    };
    let mut world = World::with_limits(World::new().killed(), limits);
    let (peer, now) = (world.peer(USER), Instant::now());
    world.service.connect(7, peer, now).unwrap();
    world.apply(USER, "a", BY_RULE).unwrap();
    assert_eq!(world.service.waits_for(7, now), None);
    world.thread((500, 500), UID, ("/usr/bin/player", "show"));
    world.tick();
    assert_eq!(world.bound("x"), [0; 0]);
    let users = Status::of(&world.service, None).unwrap().users;
    let told = users.iter().find(|user| user.uid == UID).unwrap().told;
    assert!(told.cpu_us > 0);
}
