// SPDX-License-Identifier: MIT OR Apache-2.0
//! Members that are short of something: stack, file descriptors, file sizes, system calls, rights.

mod common;

use common::{in_child, runtime, Directory, Seat, MS, TERMS};
use consort_userlevel::{
    inspect, Linux, Lost, Meeting, Os, Runtime, Table, AWAY, NEVER, RUNNING, SEATS, WAITING,
};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Makes members of those seats, which are of this process, ones of another process that has died in that state.
fn die(table: Table, indices: std::ops::Range<usize>, state: u32) {
    let mut process = std::process::Command::new("true").spawn().unwrap();
    let pid = process.id();
    process.wait().unwrap();
    for index in indices {
        let seat = table.seat(index);
        seat.pid.store(pid, Relaxed);
        seat.tid.store(pid, Relaxed);
        be_in(table, index, state);
    }
}

/// A member that is due for long, in that state.
fn be_in(table: Table, index: usize, state: u32) {
    let (seat, now_ns) = (table.seat(index), Linux::new().now_ns());
    seat.since_ns.store(now_ns - 2000 * MS, Relaxed);
    seat.due_ns.store(now_ns - MS, Relaxed);
    seat.state.store(state, Relaxed);
    seat.turn.fetch_add(u32::from(state == RUNNING), Relaxed);
}

#[test]
fn a_thousand_members_that_died_at_once_are_buried_on_a_small_stack() {
    let directory = Directory::new();
    let seats: Vec<Seat> = (1..SEATS).map(|_| Seat::take(&directory.0)).collect();
    let table = seats[0].meeting.table();
    die(table, 0..SEATS - 1, WAITING);
    let poll = || {
        let seat = Seat::take(&directory.0);
        let begun = Instant::now();
        assert_eq!(seat.poll(), Ok(()));
        assert!(begun.elapsed() < Duration::from_secs(5), "{begun:?}");
        assert_eq!(inspect::domains(&directory.0)[0].members.len(), 1);
        seat.leave();
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(128 << 10);
        thread.spawn_scoped(scope, poll).unwrap();
    });
}

#[test]
fn a_turn_that_is_left_to_a_dead_member_goes_on_to_one_that_lives() {
    let directory = Directory::new();
    let [leaver, dead, third] = [(); 3].map(|()| Seat::take(&directory.0));
    let table = dead.meeting.table();
    assert_eq!(leaver.poll(), Ok(()));
    die(table, 1..2, WAITING);
    be_in(table, 2, WAITING);
    table.seat(2).due_ns.store(NEVER, Relaxed);
    leaver.leave();
    assert!(third.member.is_running(), "at once");
    third.leave();
    let files = std::fs::read_dir(&directory.0).unwrap().count();
    assert_eq!(files, 0, "the last one removes");
}

#[test]
fn members_that_died_asleep_are_forgotten_and_newcomers_have_none_of_theirs() {
    let directory = Directory::new();
    let seats: Vec<Seat> = (0..5).map(|_| Seat::take(&directory.0)).collect();
    let (last, table) = (&seats[4], seats[4].meeting.table());
    die(table, 0..3, AWAY);
    die(table, 3..4, RUNNING);
    let now_ns = last.member.os().now_ns();
    (0..4).for_each(|second| last.member.tend(now_ns + second * 1000 * MS).unwrap());
    assert_eq!(inspect::domains(&directory.0)[0].members.len(), 1);
    for seat in [(); 4].map(|()| Seat::take(&directory.0)) {
        let own = table.seat(seat.member.index());
        assert_eq!(own.turn.load(Relaxed) & 1, 0, "no turn before it polls");
    }
}

fn limit(what: libc::__rlimit_resource_t, most: u64) {
    let limit = libc::rlimit {
        rlim_cur: most,
        rlim_max: most,
    };
    // SAFETY: the pointer is valid.
    assert_eq!(unsafe { libc::setrlimit(what, &limit) }, 0);
}

#[test]
fn whoever_may_write_no_file_is_on_its_own_or_joins_what_is_there() {
    let directory = Directory::new();
    let attends = || {
        in_child(|| {
            limit(libc::RLIMIT_FSIZE, 0);
            Meeting::attend(&runtime(&directory.0), "studio", TERMS).is_ok()
        })
    };
    assert_eq!(attends(), 1 << 8, "refused, and not killed by SIGXFSZ");
    let seat = Seat::take(&directory.0);
    assert_eq!(attends(), 0);
    seat.leave();
}

#[test]
fn whoever_may_open_no_file_stays_and_replaces_nothing() {
    let directory = Directory::new();
    let seat = Seat::take(&directory.0);
    let stays = in_child(|| {
        let own = Seat::take(&directory.0);
        limit(libc::RLIMIT_NOFILE, 0);
        let attends = Meeting::attend(&runtime(&directory.0), "studio", TERMS).is_ok();
        own.meeting.is_current() && !attends
    });
    assert_eq!(stays, 0);
    assert!(seat.meeting.is_current(), "it names the same memory");
    seat.leave();
}

/// From here on the kernel refuses futexes to the calling thread, as the filters of some sandboxes do.
fn refuse_futexes() {
    let step = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let mut steps = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            0,
            1,
            libc::SYS_futex as u32,
        ),
        step(
            libc::BPF_RET,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
        ),
        step(libc::BPF_RET, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: the filter is valid; both are about the calling thread.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &filter), 0);
    }
}

#[test]
fn whoever_may_not_wait_does_not_spin_instead() {
    let directory = Directory::new();
    let over = AtomicBool::new(false);
    let is_told = std::thread::scope(|scope| {
        let (over, directory) = (&over, &directory.0);
        scope.spawn(move || {
            let seat = Seat::take(directory);
            while !over.load(Relaxed) {
                assert_eq!(seat.poll(), Ok(()));
            }
        });
        let is_told = in_child(|| {
            let own = Seat::take(directory);
            let could_wait = own.member.os().can_wait();
            refuse_futexes();
            // The other one may be without a CPU for as long as other tests have them all.
            let began = Instant::now();
            let mut polls = std::iter::repeat_with(|| (own.poll(), began.elapsed()));
            let is_lost = polls
                .find(|(polled, after)| *polled == Err(Lost) || *after > Duration::from_secs(30))
                .is_some_and(|(polled, _)| polled == Err(Lost));
            could_wait && is_lost && !own.member.os().can_wait()
        });
        over.store(true, Relaxed);
        is_told
    });
    assert_eq!(is_told, 0);
}

fn policy() -> i32 {
    // SAFETY: a plain look-up.
    unsafe { libc::sched_getscheduler(0) }
}

#[test]
fn a_policy_that_was_chosen_after_joining_stays() {
    let directory = Directory::new();
    let seat = Seat::take(&directory.0);
    assert_eq!(seat.poll(), Ok(()));
    let poll = || {
        let own = Seat::take(&directory.0);
        // SAFETY: all bits zero is a valid parameter of this policy.
        let changed = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &std::mem::zeroed()) };
        assert_eq!(changed, 0);
        // It waits for the other one's turn.
        assert_eq!(own.poll(), Ok(()));
        assert_eq!(policy(), libc::SCHED_IDLE);
    };
    std::thread::scope(|scope| scope.spawn(poll).join().unwrap());
}

#[test]
fn a_working_directory_may_change_where_the_chosen_one_is_relative() {
    let directory = Directory::new();
    let stays = in_child(|| {
        std::env::set_current_dir(&directory.0).unwrap();
        std::fs::create_dir("here").unwrap();
        let chosen = Runtime::chosen("here".as_ref());
        let meeting = Meeting::attend(&chosen, "studio", TERMS).unwrap();
        std::env::set_current_dir("/").unwrap();
        meeting.is_current() && chosen.again() == chosen
    });
    assert_eq!(stays, 0);
}
