// SPDX-License-Identifier: MIT OR Apache-2.0
//! What others may do to a domain: join by the thousand, come as other users, overwrite all of its memory.

mod common;

use common::{file, runtime, work, Directory, Seat, IS_CHOSEN, TERMS};
use consort_userlevel::{inspect, random, Lost, Meeting, BYTES, SEATS};
use std::fs;
use std::os::unix::fs::{chown, symlink, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

#[test]
fn a_domain_is_full_at_its_last_seat_and_has_room_again_when_one_leaves() {
    let directory = Directory::new();
    let mut seats: Vec<Seat> = (0..SEATS).map(|_| Seat::take(&directory.0)).collect();
    assert!(Seat::try_to_take(&directory.0).is_none(), "{SEATS} are in");
    assert_eq!(seats[0].poll(), Ok(()), "the others have said nothing yet");
    seats.swap_remove(SEATS / 2).leave();
    seats.push(Seat::take(&directory.0));
    assert!(Seat::try_to_take(&directory.0).is_none());
    for _ in 0..2000 {
        seats.swap_remove(7).leave();
        seats.push(Seat::take(&directory.0));
    }
    seats.into_iter().for_each(Seat::leave);
    assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 0);
}

#[test]
fn members_go_on_while_others_join_and_leave_by_the_thousand() {
    let directory = Directory::new();
    let (over, polls, joins) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let seat = Seat::take(&directory.0);
            while !over.load(Relaxed) {
                seat.poll().unwrap();
                work();
                polls.fetch_add(1, Relaxed);
            }
            seat.leave();
        });
        std::thread::scope(|crowd| {
            for _ in 0..4 {
                crowd.spawn(|| join_and_leave(&directory.0, 500, &joins));
            }
        });
        over.store(true, Relaxed);
    });
    assert_eq!(joins.load(Relaxed), 2000);
    assert!(polls.load(Relaxed) > 20, "{polls:?} polls");
    assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 0);
}

fn join_and_leave(directory: &Path, times: u32, joins: &AtomicU64) {
    for _ in 0..times {
        let begun = Instant::now();
        // The memory may cease to be a domain's just now, as its last member leaves.
        while Seat::try_to_take(directory).map(Seat::leave).is_none() {
            assert!(begun.elapsed() < Duration::from_secs(20), "nobody can join");
        }
        joins.fetch_add(1, Relaxed);
    }
}

#[test]
fn memory_that_is_overwritten_whole_is_left_and_made_anew() {
    let directory = Directory::new();
    let patterns: [fn(usize) -> u8; 4] = [|_| 0, |_| 0xff, |_| random() as u8, |at| at as u8];
    for pattern in patterns {
        let seats = [Seat::take(&directory.0), Seat::take(&directory.0)];
        let bytes = std::ptr::from_ref(seats[0].meeting.table().header())
            .cast::<u8>()
            .cast_mut();
        for at in 0..BYTES {
            // SAFETY: the memory is as long as that, and of atomics, which others write to as well.
            unsafe { bytes.add(at).write_volatile(pattern(at)) };
        }
        for seat in &seats {
            assert_eq!(seat.poll(), Err(Lost));
        }
        let again = Seat::take(&directory.0);
        assert_eq!(again.poll(), Ok(()));
        assert!(!seats[0].meeting.is_current(), "newcomers are elsewhere");
        again.leave();
    }
}

const GROUP: u32 = 60_000;

/// Runs `what` in a child process of that user. False: it said so, or did not come to its end.
fn as_user(user: u32, group: u32, directory: &Path, what: impl Fn(&Path) -> bool) -> libc::pid_t {
    // SAFETY: the child calls what is tested, in its only thread, and ends.
    match unsafe { libc::fork() } {
        0 => {
            let became = unsafe {
                libc::setgroups(0, std::ptr::null()) == 0
                    && libc::setgid(group) == 0
                    && libc::setuid(user) == 0
            };
            IS_CHOSEN.store(true, Relaxed);
            let is_well = became && what(directory);
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(!is_well)) }
        }
        child => child,
    }
}

fn ended_well(child: libc::pid_t) -> bool {
    let mut status = -1;
    // SAFETY: our child; the pointer is valid.
    unsafe { libc::waitpid(child, &mut status, 0) == child && status == 0 }
}

/// Only root can be other users.
fn is_root() -> bool {
    // SAFETY: plain look-up.
    unsafe { libc::geteuid() == 0 }
}

/// A member that polls until turns have been given to others.
fn cooperate(directory: &Path) -> bool {
    let begun = Instant::now();
    let mut seat = None;
    let mut is_done = false;
    while !is_done && begun.elapsed() < Duration::from_secs(20) {
        seat = seat.or_else(|| Seat::try_to_take(directory));
        match &seat {
            Some(own) if own.poll() == Ok(()) && own.meeting.is_current() => {
                let domain = inspect::domains(directory).pop();
                is_done = domain.is_some_and(|it| it.handovers >= 100);
                work();
            }
            _ => seat = None,
        }
    }
    seat.into_iter().for_each(Seat::leave);
    is_done
}

#[test]
fn users_of_a_group_cooperate_and_others_are_turned_away() {
    if !is_root() {
        return;
    }
    let directory = Directory::new();
    chown(&directory.0, None, Some(GROUP)).unwrap();
    fs::set_permissions(&directory.0, fs::Permissions::from_mode(0o2770)).unwrap();
    let members = [GROUP + 1, GROUP + 2].map(|user| as_user(user, GROUP, &directory.0, cooperate));
    let turned_away = |path: &Path| Meeting::attend(&runtime(path), "studio", TERMS).is_err();
    assert!(ended_well(as_user(
        GROUP + 3,
        GROUP + 3,
        &directory.0,
        turned_away
    )));
    assert!(members.map(ended_well) == [true, true]);
    assert_eq!(
        fs::read_dir(&directory.0).unwrap().count(),
        0,
        "the last one removes"
    );
}

#[test]
fn another_user_s_file_and_memory_are_replaced() {
    if !is_root() {
        return;
    }
    let (directory, other) = (Directory::new(), Directory::new());
    let path = file(&directory.0);
    let theirs = Seat::take(&other.0);
    let line = fs::read(file(&other.0)).unwrap();
    // Somebody else's file that names sound memory.
    fs::write(&path, &line).unwrap();
    chown(&path, Some(GROUP + 1), None).unwrap();
    let seat = Seat::take(&directory.0);
    assert_ne!(seat.meeting.token(), theirs.meeting.token());
    seat.leave();
    // In a directory for a group, too: the memory is not its maker's.
    fs::set_permissions(&directory.0, fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(&path, &line).unwrap();
    chown(&path, Some(GROUP + 1), None).unwrap();
    let is_refused = |path: &Path| {
        let seat = Seat::try_to_take(path);
        let is_own = seat
            .as_ref()
            .is_some_and(|seat| !seat.meeting.table().is_sound(0));
        seat.into_iter().for_each(Seat::leave);
        is_own
    };
    assert!(ended_well(as_user(
        GROUP + 2,
        GROUP,
        &directory.0,
        is_refused
    )));
    assert_eq!(
        inspect::domains(&other.0)[0].members.len(),
        1,
        "nobody came to them"
    );
    theirs.leave();
}

#[test]
fn a_link_in_place_of_the_file_is_not_followed() {
    let (directory, other) = (Directory::new(), Directory::new());
    let theirs = Seat::take(&other.0);
    symlink(file(&other.0), file(&directory.0)).unwrap();
    let seat = Seat::take(&directory.0);
    assert_ne!(seat.meeting.token(), theirs.meeting.token());
    seat.leave();
    theirs.leave();
}
