// SPDX-License-Identifier: MIT OR Apache-2.0
//! Credits: lent, lent on, recollected, and returned by deaths.

use std::time::Instant;

use consort_daemon::{
    division::ReservationPage,
    lending::Back,
    peer::{Peer, Processes},
    wire::ANSWER_BYTES_MAX,
};
use nix::errno::Errno;

use crate::{
    common::write_thread,
    world::{World, ROOT, UID, USER},
};

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

/// What root has reserved for a user's process and its own; that user, and another one.
fn granted_by_root() -> (World, Peer, Peer) {
    let mut world = World::new();
    let other = USER + 100;
    write_thread(&world.folder.0, other, &[other], UID + 1, 5);
    world.reserve(ROOT, USER, "guaranteed", 0.3).unwrap();
    world.reserve(ROOT, ROOT, "guaranteed", 0.1).unwrap();
    let stranger = Processes::at(&world.folder.0).peer(other, UID + 1).unwrap();
    let user = world.peer(USER);
    (world, user, stranger)
}

#[test]
fn strangers_neither_take_credits_nor_are_given_a_class() {
    let (mut world, user, stranger) = granted_by_root();
    let other = stranger.pid;
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

/// A user that may lend of what root has reserved for its process may take that back, and no other user.
#[test]
fn what_was_lent_of_a_grant_of_roots_is_taken_back_by_who_lent_it() {
    let (mut world, user, stranger) = granted_by_root();
    world.service.lend(&user, USER, ROOT, 0.2).unwrap();
    let back = || Back {
        from: USER,
        to: ROOT,
        rate: None,
    };
    let refusal = world.service.take_back(&stranger, back()).unwrap_err();
    assert_eq!(refusal.errno, Errno::EPERM);
    world.service.take_back(&user, back()).unwrap();
    assert_eq!(world.admitted(), world.in_force());
    assert_eq!(world.admitted()[&USER].1, 300_000);
}

/// Each change costs its own line, and each pair is one of few: a user's many threads fill neither journal nor answers.
#[test]
fn a_web_of_credits_stays_small_in_the_journal_and_in_answers() {
    let mut world = World::new();
    let all: Vec<i32> = (USER + 100..USER + 164).collect();
    for pid in &all {
        write_thread(&world.folder.0, *pid, &[*pid], UID, 5);
        world.reserve(ROOT, *pid, "adaptive", 0.006).unwrap();
    }
    let mut refused = 0;
    for (number, from) in all.iter().enumerate() {
        for to in &all[number + 1..] {
            match world.lend(*from, *to, 0.0001) {
                Ok(()) => {}
                Err(errno) => {
                    assert!([Errno::EDQUOT, Errno::ENOSPC].contains(&errno), "{errno}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 0);
    let bytes = std::fs::metadata(world.journal()).unwrap().len();
    assert!(bytes < 200_000, "{bytes}");
    let (mut after, mut told) = (None, 0);
    loop {
        let page = ReservationPage::of(&world.service, None, after);
        let json = serde_json::to_vec(&page).unwrap();
        assert!(json.len() <= ANSWER_BYTES_MAX, "{}", json.len());
        told += page.reservations.len();
        after = page.reservations.last().map(|held| held.reservation);
        if !page.more {
            break;
        }
    }
    assert_eq!(told, all.len());
    let before = world.admitted();
    let world = World::beside(world.killed());
    assert_eq!(world.admitted(), before);
    assert_eq!(world.in_force(), before);
}
