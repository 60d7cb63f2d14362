// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reservations through the service: what is admitted is what the scheduler was told, whatever is asked, whoever
//! asks, and wherever the daemon is killed.

mod common;

use std::{
    collections::BTreeMap,
    fs,
    panic::{catch_unwind, AssertUnwindSafe},
    path::PathBuf,
    time::{Duration, Instant},
};

use common::{gettid, join, write_thread, Daemon, FakeHost, Folder};
use consort_abi::{CONSORT_LEND, CONSORT_RECOLLECT, CONSORT_RELEASE, CONSORT_RESERVE};
use consort_daemon::{
    classes::{Class, Overbooking},
    config::Division,
    division::{CreditStatus, DivisionStatus, ReservationPage},
    lending::Back,
    limits::Limits,
    peer::{Peer, Processes},
    reservations::{Ask, AskedRate},
    service::Service,
    targets::Scope,
};
use nix::errno::Errno;

const ROOT: i32 = 3000;
const USER: i32 = 3001;
const UID: u32 = 70_001;
const PERIOD_NS: u64 = 30_000_000;

/// Processes on paper: one of root, ten of a user.
struct World {
    folder: Folder,
    host: FakeHost,
    service: Service,
}

impl World {
    fn new() -> World {
        let folder = Folder::new();
        write_thread(&folder.0, ROOT, &[ROOT], 0, 5);
        for pid in USER..USER + 10 {
            write_thread(&folder.0, pid, &[pid], UID, 5);
        }
        World::beside(folder)
    }

    /// A daemon that starts where another one may have been.
    fn beside(folder: Folder) -> World {
        let host = FakeHost::default();
        let mut world = World {
            service: Service::new(
                Box::new(host.clone()),
                Processes::at(&folder.0),
                Limits::default(),
            ),
            host,
            folder,
        };
        let division = Division::by_default(1);
        world
            .service
            .open_reservations(division, &world.journal())
            .unwrap();
        world
    }

    fn journal(&self) -> PathBuf {
        self.folder.0.join("consort.journal")
    }

    /// What is left when the daemon is killed.
    fn killed(self) -> Folder {
        self.folder
    }

    fn peer(&self, pid: i32) -> Peer {
        let uid = if pid == ROOT { 0 } else { UID };
        Processes::at(&self.folder.0).peer(pid, uid).unwrap()
    }

    fn reserve(
        &mut self,
        asker: i32,
        number: i32,
        class: &str,
        rate: f64,
    ) -> Result<u32, (Errno, String)> {
        let ask = Ask {
            number,
            scope: Scope::Any,
            class: class.to_owned(),
            rate: AskedRate::Fixed(rate),
            period_ns: PERIOD_NS,
        };
        let peer = self.peer(asker);
        let reserved = self.service.reserve(&peer, &ask);
        reserved.map_err(|refusal| (refusal.errno, refusal.text))
    }

    fn release(&mut self, number: i32) -> Result<u32, Errno> {
        let peer = self.peer(ROOT);
        let released = self.service.release(&peer, number, Scope::Any);
        released.map_err(|refusal| refusal.errno)
    }

    fn lend(&mut self, from: i32, to: i32, rate: f64) -> Result<(), Errno> {
        let peer = self.peer(ROOT);
        let lent = self.service.lend(&peer, from, to, rate);
        lent.map_err(|refusal| refusal.errno)
    }

    fn take_back(&mut self, from: i32, to: i32, rate: Option<f64>) -> Result<(), Errno> {
        let peer = self.peer(ROOT);
        let back = Back { from, to, rate };
        let taken = self.service.take_back(&peer, back);
        taken.map_err(|refusal| refusal.errno)
    }

    fn set_guaranteed(&mut self, capacity: u64) -> Result<(), (Errno, String)> {
        let class = Class {
            name: "guaranteed".to_owned(),
            capacity,
            overbooking: Overbooking::Part(0),
        };
        let set = self.service.set_class(class);
        set.map_err(|refusal| (refusal.errno, refusal.text))
    }

    /// By process: class and the nominal rate that it may use, credits counted, in millionths.
    fn admitted(&self) -> BTreeMap<i32, (String, u64)> {
        let page = ReservationPage::of(&self.service, None, None);
        let held = page.reservations.into_iter();
        held.map(|held| {
            let sum =
                |credits: &[CreditStatus]| credits.iter().map(|credit| credit.rate).sum::<f64>();
            let usable = held.asked + sum(&held.held) - sum(&held.lent);
            let rate = (usable * 1e6).round() as u64;
            (held.number, (held.class, rate))
        })
        .collect()
    }

    /// The same as the scheduler was told.
    fn in_force(&self) -> BTreeMap<i32, (String, u64)> {
        let names: Vec<String> = DivisionStatus::of(&self.service)
            .classes
            .into_iter()
            .map(|class| class.name)
            .collect();
        let record = self.host.record();
        let one = |promise: &common::Promise| {
            let rate = (f64::from(promise.rate) * 1e6 / f64::from(consort_kernel::RATE_ONE)).ceil();
            let first = *promise.threads.first().unwrap();
            (first, (names[promise.class as usize].clone(), rate as u64))
        };
        record.reservations.values().map(one).collect()
    }

    fn capacity(&self, class: usize) -> f64 {
        DivisionStatus::of(&self.service).classes[class].capacity
    }
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut world = World::new();
    world.reserve(USER, 0, "guaranteed", 0.3).unwrap();
    let before = (world.admitted(), fs::read(world.journal()).unwrap());
    let stranger = USER + 100;
    write_thread(&world.folder.0, stranger, &[stranger], UID + 1, 5);
    for (asker, number, class, rate, errno, part) in [
        (USER, 0, "guaranteed", 0.0, Errno::ERANGE, "0.0001 to 1"),
        (USER, 0, "guaranteed", -0.1, Errno::ERANGE, "out of range"),
        (USER, 0, "guaranteed", f64::NAN, Errno::ERANGE, "rate NaN"),
        (ROOT, 0, "guaranteed", 1.5, Errno::ERANGE, "out of range"),
        (ROOT, 0, "guaranteed", 0.6, Errno::ENOSPC, "0.2 are left"),
        (
            ROOT,
            0,
            "guaranteed",
            0.200001,
            Errno::ENOSPC,
            "0.2 are left",
        ),
        (
            ROOT,
            0,
            "golden",
            0.1,
            Errno::ENOENT,
            "guaranteed, adaptive",
        ),
        (
            ROOT,
            0,
            "flexible",
            0.1,
            Errno::ENOENT,
            "guaranteed, adaptive",
        ),
        (
            USER,
            USER + 1,
            "adaptive",
            0.3,
            Errno::EDQUOT,
            "at most 0.2 more",
        ),
        (
            USER,
            ROOT,
            "adaptive",
            0.1,
            Errno::EPERM,
            "belongs to user 0",
        ),
        (
            USER,
            stranger,
            "adaptive",
            0.1,
            Errno::EPERM,
            "belongs to user",
        ),
        (
            ROOT,
            9999,
            "adaptive",
            0.1,
            Errno::ESRCH,
            "no process or thread 9999",
        ),
        (
            ROOT,
            -1,
            "adaptive",
            0.1,
            Errno::EINVAL,
            "expected its number",
        ),
    ] {
        let refused = world.reserve(asker, number, class, rate).unwrap_err();
        assert_eq!(refused.0, errno, "{}", refused.1);
        assert!(refused.1.contains(part), "{}", refused.1);
    }
    for period_ns in [0, 999_999, 10_000_000_001, u64::MAX] {
        let ask = Ask {
            number: 0,
            scope: Scope::Any,
            class: "adaptive".to_owned(),
            rate: AskedRate::Fixed(0.1),
            period_ns,
        };
        let refusal = world.service.reserve(&world.peer(ROOT), &ask).unwrap_err();
        assert_eq!(refusal.errno, Errno::ERANGE);
        assert!(
            refusal.text.contains("expected 1ms to 10s"),
            "{}",
            refusal.text
        );
    }
    assert_eq!(world.release(USER + 1), Err(Errno::ENOENT));
    assert_eq!(
        (world.admitted(), fs::read(world.journal()).unwrap()),
        before
    );
    assert_eq!(world.in_force(), world.admitted());
}

#[test]
fn what_the_scheduler_or_the_disk_refuses_is_undone() {
    let mut world = World::new();
    world.reserve(ROOT, 0, "guaranteed", 0.3).unwrap();
    let before = world.admitted();
    for call in ["create_reservation", "add_to_reservation"] {
        world.host.record().refuse.insert(call, libc::EBUSY);
        let refused = world.reserve(USER, 0, "guaranteed", 0.1).unwrap_err();
        assert_eq!(refused.0, Errno::EBUSY, "{call}");
        world.host.record().refuse.clear();
        assert_eq!(
            (world.admitted(), world.in_force()),
            (before.clone(), before.clone())
        );
    }
    // All its threads have ended, or are not the scheduler's.
    world
        .host
        .record()
        .refuse
        .insert("add_to_reservation", libc::ESRCH);
    let refused = world.reserve(USER, 0, "guaranteed", 0.1).unwrap_err();
    assert!(
        refused.1.contains("not under the scheduler"),
        "{}",
        refused.1
    );
    world.host.record().refuse.clear();
    world
        .host
        .record()
        .refuse
        .insert("change_reservation", libc::EINVAL);
    world.reserve(ROOT, 0, "guaranteed", 0.1).unwrap_err();
    world.host.record().refuse.clear();
    assert_eq!(
        (world.admitted(), world.in_force()),
        (before.clone(), before)
    );
}

#[test]
fn a_change_is_one_request() {
    let mut world = World::new();
    let number = world.reserve(USER, 0, "guaranteed", 0.3).unwrap();
    assert_eq!(world.reserve(USER, 0, "guaranteed", 0.5), Ok(number));
    assert_eq!(world.reserve(ROOT, USER, "adaptive", 0.4), Ok(number));
    let expected = BTreeMap::from([(USER, ("adaptive".to_owned(), 400_000))]);
    assert_eq!(
        (world.admitted(), world.in_force()),
        (expected.clone(), expected)
    );
    assert_eq!(world.release(USER), Ok(number));
    assert_eq!(world.host.record().reservations.len(), 0);
    assert_ne!(world.reserve(USER, 0, "guaranteed", 0.3), Ok(number));
}

#[test]
fn the_dead_make_room() {
    let mut world = World::new();
    world.reserve(ROOT, USER, "guaranteed", 0.5).unwrap();
    world
        .reserve(ROOT, USER + 1, "guaranteed", 0.1)
        .unwrap_err();
    for promise in world.host.record().reservations.values_mut() {
        promise.threads.clear();
    }
    world.reserve(ROOT, USER + 1, "guaranteed", 0.1).unwrap();
    assert_eq!(world.admitted().into_keys().collect::<Vec<_>>(), [USER + 1]);
    for promise in world.host.record().reservations.values_mut() {
        promise.threads.clear();
    }
    world.service.tick(Instant::now());
    assert!(world.admitted().is_empty());
}

#[test]
fn classes_keep_what_they_promised() {
    let mut world = World::new();
    world.reserve(ROOT, USER, "guaranteed", 0.4).unwrap();
    let refused = world.set_guaranteed(300_000).unwrap_err();
    assert_eq!(refused.0, Errno::EBUSY);
    assert!(refused.1.contains("admitted rates of 0.4"), "{}", refused.1);
    assert_eq!(
        world.service.remove_class("guaranteed").unwrap_err().errno,
        Errno::EBUSY
    );
    let refused = world.set_guaranteed(760_000).unwrap_err();
    assert!(refused.1.contains("at most 0.74"), "{}", refused.1);
    world
        .host
        .record()
        .refuse
        .insert("set_classes", libc::ENOMEM);
    assert_eq!(world.set_guaranteed(450_000).unwrap_err().0, Errno::ENOMEM);
    world.host.record().refuse.clear();
    assert_eq!(world.capacity(0), 0.5);
    world.set_guaranteed(450_000).unwrap();
    world.service.remove_class("adaptive").unwrap();
    assert_eq!(world.capacity(0), 0.45);
    assert_eq!(
        world.reserve(ROOT, 0, "adaptive", 0.1).unwrap_err().0,
        Errno::ENOENT
    );
}

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

/// The daemon is killed at each of its calls to the scheduler. The next one has what was acknowledged, or that and the
/// request that was being done; and the scheduler was told just that.
#[test]
fn killed_anywhere_admitted_is_what_is_in_force() {
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
        let after = World::beside(world.killed());
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
    assert_eq!(journal.lines().count(), 1, "{journal}");
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

#[test]
fn use_is_told_by_windows() {
    let mut world = World::new();
    world.reserve(ROOT, USER, "guaranteed", 0.25).unwrap();
    let id = *world.host.record().reservations.keys().next().unwrap();
    let now = Instant::now();
    let before = now.checked_sub(Duration::from_secs(20)).unwrap();
    for tick in 0..=80u32 {
        world
            .host
            .record()
            .used_ns
            .insert(id, u64::from(tick) * 75_000_000);
        world
            .service
            .tick(before + tick * Duration::from_millis(250));
    }
    let held = ReservationPage::of(&world.service, None, None)
        .reservations
        .remove(0);
    for used in held.used {
        assert!((used.unwrap() - 0.3).abs() < 0.02, "{:?}", held.used);
    }
    assert_eq!((held.used_total_ns, held.given), (6_000_000_000, 0.5));
}

/// Over the socket, as the command asks.
#[test]
fn a_program_reserves_for_itself() {
    let daemon = Daemon::start();
    let program = daemon.hello();
    let ask =
        r#"{"command": "reserve", "class": "guaranteed", "rate": 0.25, "period_ns": 33000000}"#;
    let answer = program.control(ask).unwrap();
    assert_eq!(answer["reservation"], 1);
    let page = program.control(r#"{"command": "reservations"}"#).unwrap();
    let held = &page["reservations"][0];
    assert_eq!(held["number"], std::process::id());
    assert_eq!(
        (&held["asked"], &held["given"]),
        (&0.25.into(), &0.5.into())
    );
    let refused = program.ask(&join(gettid(), 0, "video"));
    assert_eq!(refused.error, libc::EBUSY);
    assert!(refused.text.contains("consort release"), "{}", refused.text);
    let classes = program.control(r#"{"command": "classes"}"#).unwrap();
    assert_eq!(classes["classes"][0]["asked"], 0.25);
    program.control(r#"{"command": "release"}"#).unwrap();
    assert_eq!(program.ask(&join(gettid(), 0, "video")).error, 0);
    let refused = program.control(ask).unwrap_err();
    assert!(
        refused.text.contains("member of a domain"),
        "{}",
        refused.text
    );
    let classes = program.control(r#"{"command": "classes"}"#).unwrap();
    assert_eq!(classes["classes"][0]["asked"], 0.0);
}

#[test]
fn only_the_operator_divides_the_machine() {
    let folder = Folder::new();
    let processes = Processes::at(&folder.0);
    let host = FakeHost::default();
    let mut service = Service::new(Box::new(host), processes.clone(), Limits::default());
    write_thread(&folder.0, USER, &[USER], UID, 5);
    let peer = processes.peer(USER, UID).unwrap();
    for text in [
        r#"{"command": "class_set", "name": "mine", "capacity": 0.2}"#,
        r#"{"command": "class_remove", "name": "adaptive"}"#,
    ] {
        let refusal = consort_daemon::control::answer(&mut service, &peer, text).unwrap_err();
        assert_eq!(refusal.errno, Errno::EPERM);
    }
    let listed = consort_daemon::control::answer(&mut service, &peer, r#"{"command": "classes"}"#);
    assert!(listed.is_ok());
}

#[test]
fn credits_follow_reservations() {
    let mut world = World::new();
    world.reserve(ROOT, ROOT, "guaranteed", 0.4).unwrap();
    world.reserve(ROOT, USER, "guaranteed", 0.1).unwrap();
    let rates = |world: &World| -> Vec<(i32, u64)> {
        assert_eq!(world.admitted(), world.in_force());
        let admitted = world.admitted().into_iter();
        admitted.map(|(number, (_, rate))| (number, rate)).collect()
    };
    world.lend(ROOT, USER, 0.3).unwrap();
    assert_eq!(rates(&world), [(ROOT, 100_000), (USER, 400_000)]);
    // A process without a reservation gets one, for as long as it is lent something.
    world.lend(USER, USER + 1, 0.2).unwrap();
    assert_eq!(
        rates(&world),
        [(ROOT, 100_000), (USER, 200_000), (USER + 1, 200_000)]
    );
    for (from, to, rate, errno) in [
        (ROOT, ROOT, 0.01, Errno::EINVAL),
        (USER + 1, ROOT, 0.01, Errno::EINVAL),
        (ROOT, USER, 0.1, Errno::ENOSPC),
        (USER + 2, ROOT, 0.1, Errno::ENOENT),
        (ROOT, 9999, 0.01, Errno::ESRCH),
        (ROOT, USER, 0.0, Errno::ERANGE),
    ] {
        assert_eq!(world.lend(from, to, rate), Err(errno), "{from} to {to}");
    }
    assert_eq!(world.take_back(USER, ROOT, None), Err(Errno::ENOENT));
    assert_eq!(world.take_back(ROOT, USER, Some(0.31)), Err(Errno::ENOSPC));
    // What is lent cannot be asked back by asking for less, nor moved to another class.
    assert_eq!(
        world.reserve(ROOT, ROOT, "guaranteed", 0.2).unwrap_err().0,
        Errno::EBUSY
    );
    assert_eq!(
        world.reserve(ROOT, ROOT, "adaptive", 0.4).unwrap_err().0,
        Errno::EBUSY
    );
    // Recollected down the chain: the second borrower has what is left.
    world.take_back(ROOT, USER, Some(0.25)).unwrap();
    assert_eq!(
        rates(&world),
        [(ROOT, 350_000), (USER, 100), (USER + 1, 149_900)]
    );
    let folder = world.killed();
    let mut world = World::beside(folder);
    assert_eq!(
        rates(&world),
        [(ROOT, 350_000), (USER, 100), (USER + 1, 149_900)]
    );
    // The owner ends: nobody holds anything of it.
    world.release(ROOT).unwrap();
    assert_eq!(rates(&world), [(USER, 100), (USER + 1, 99_900)]);
    world.take_back(USER, USER + 1, None).unwrap();
    assert_eq!(rates(&world), [(USER, 100_000)]);
    // The holder ends: it is the owner's again.
    world.lend(USER, USER + 1, 0.05).unwrap();
    for promise in world.host.record().reservations.values_mut() {
        promise.threads.remove(&(USER + 1));
    }
    world.service.tick(Instant::now());
    assert_eq!(rates(&world), [(USER, 100_000)]);
}

#[test]
fn strangers_neither_take_credits_nor_are_given_a_class() {
    let mut world = World::new();
    let other = USER + 100;
    write_thread(&world.folder.0, other, &[other], UID + 1, 5);
    world.reserve(ROOT, USER, "guaranteed", 0.3).unwrap();
    world.reserve(ROOT, ROOT, "guaranteed", 0.1).unwrap();
    let stranger = Processes::at(&world.folder.0).peer(other, UID + 1).unwrap();
    let user = world.peer(USER);
    let errno = |result: Result<(), consort_daemon::Refusal>| result.unwrap_err().errno;
    assert_eq!(
        errno(world.service.lend(&user, other, USER, 0.1)),
        Errno::EPERM
    );
    assert_eq!(
        errno(world.service.lend(&user, USER, other, 0.1)),
        Errno::EPERM
    );
    assert_eq!(
        errno(world.service.lend(&stranger, USER, other, 0.1)),
        Errno::EPERM
    );
}

/// As libconsort asks: by the fields of a request, without a page.
#[test]
fn a_library_reserves_for_its_program() {
    let daemon = Daemon::start();
    let program = daemon.connect();
    let ask = |kind, rate, flags, class: &str| {
        let mut request = join(0, 0, class);
        request.type_ = kind as u16;
        (request.order, request.flags, request.event_ns) = (rate, flags, PERIOD_NS);
        program.ask(&request)
    };
    let reply = ask(CONSORT_RESERVE, 250_000, 0, "guaranteed");
    assert_eq!((reply.error, reply.client), (0, 1), "{}", reply.text);
    let page = program.control(r#"{"command": "reservations"}"#).unwrap();
    assert_eq!(page["reservations"][0]["asked"], 0.25);
    assert_eq!(page["reservations"][0]["period_ns"], PERIOD_NS);
    for (kind, rate, flags, class, errno) in [
        (CONSORT_RESERVE, 0, 0, "guaranteed", libc::ERANGE),
        (CONSORT_RESERVE, 600_000, 0, "guaranteed", libc::ENOSPC),
        (CONSORT_RESERVE, 100_000, 2, "guaranteed", libc::EINVAL),
        (CONSORT_RESERVE, 100_000, 0, "", libc::ENOENT),
        (CONSORT_LEND, 100_000, 0, "", libc::EINVAL),
        (CONSORT_RECOLLECT, 0, 0, "", libc::ENOENT),
        (CONSORT_RELEASE, 0, 4, "", libc::EINVAL),
    ] {
        let reply = ask(kind, rate, flags, class);
        assert_eq!(reply.error, errno, "{kind}: {}", reply.text);
        assert!(!reply.text.is_empty());
    }
    assert_eq!(ask(CONSORT_RELEASE, 0, 0, "").error, 0);
    assert_eq!(ask(CONSORT_RELEASE, 0, 0, "").error, libc::ENOENT);
}

/// An automatic rate follows demand: up while it uses all that it is given, down when it uses less; within its limits,
/// and within what the class has.
#[test]
fn an_automatic_rate_follows_demand() {
    let mut world = World::new();
    let ask = |least, most| Ask {
        number: 0,
        scope: Scope::Any,
        class: "guaranteed".to_owned(),
        rate: AskedRate::Auto { least, most },
        period_ns: PERIOD_NS,
    };
    let peer = world.peer(USER);
    for (least, most) in [(0.2, 0.1), (0.0, 0.1), (0.1, f64::NAN)] {
        let refusal = world.service.reserve(&peer, &ask(least, most)).unwrap_err();
        assert_eq!(refusal.errno, Errno::ERANGE);
    }
    world.service.reserve(&peer, &ask(0.05, 0.4)).unwrap();
    world.reserve(ROOT, 0, "guaranteed", 0.25).unwrap();
    let id = *world.host.record().reservations.keys().next().unwrap();
    let mut now = Instant::now();
    let mut run = |world: &mut World, seconds: u32, demand: f64| -> f64 {
        for _ in 0..seconds {
            let given = ReservationPage::of(&world.service, None, None).reservations[0].given;
            let used_ns = (demand.min(given) * 1e9) as u64;
            *world.host.record().used_ns.entry(id).or_default() += used_ns;
            now += Duration::from_secs(1);
            world.service.tick(now);
            assert_eq!(world.admitted(), world.in_force());
        }
        ReservationPage::of(&world.service, None, None).reservations[0].asked
    };
    let asked = run(&mut world, 30, 0.9);
    // 0.25 are left in the class; the next step is not.
    assert!((0.16..=0.25).contains(&asked), "{asked}");
    world.release(ROOT).unwrap();
    assert_eq!(run(&mut world, 30, 0.9), 0.4);
    let asked = run(&mut world, 30, 0.2);
    assert!((0.2..0.25).contains(&asked), "{asked}");
    assert_eq!(run(&mut world, 30, 0.0), 0.05);
    let page = ReservationPage::of(&world.service, None, None);
    assert_eq!(page.reservations[0].auto, Some([0.05, 0.4]));
    let after = World::beside(world.killed());
    let page = ReservationPage::of(&after.service, None, None);
    assert_eq!(page.reservations[0].auto, Some([0.05, 0.4]));
}
