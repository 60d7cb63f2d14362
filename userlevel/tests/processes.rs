// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real processes, real futexes: members are killed, stopped, and lied to.

mod common;

use common::{file, runtime, work, Directory, Seat, MS, SHARE, TERMS};
use consort_userlevel::{
    inspect, random, Linux, Lost, Meeting, Member, Newcomer, Os, Terms, NEVER,
};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const DIRECTORY: &str = "TEST_MEMBERS_DIRECTORY";

/// What a child process of these tests does: a member until it is killed. Nothing, if it is none.
#[test]
fn child() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let mut seat = Seat::take(directory.as_ref());
    loop {
        if seat.poll() == Err(Lost) {
            seat = Seat::take(directory.as_ref());
        }
        // As the library does.
        let _ = seat.member.tend(seat.member.os().now_ns());
        work();
    }
}

/// Children that are killed in any case.
struct Children(Vec<Child>);

impl Children {
    fn start(directory: &Path, count: usize) -> Children {
        let program = std::env::current_exe().unwrap();
        let start = |_| {
            let mut command = Command::new(&program);
            command
                .args(["--exact", "child", "--nocapture"])
                .env(DIRECTORY, directory);
            command.stdout(std::process::Stdio::null()).spawn().unwrap()
        };
        Children((0..count).map(start).collect())
    }

    fn signal(&self, index: usize, signal: i32) {
        // SAFETY: a child of ours that was not waited for.
        unsafe { libc::kill(self.0[index].id() as i32, signal) };
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn report(directory: &Path) -> Option<inspect::DomainReport> {
    inspect::domains(directory).pop()
}

/// Looks until it is so.
fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "not within 20 s: {what}"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn handovers(directory: &Path) -> u64 {
    report(directory).map_or(0, |report| report.handovers)
}

fn members(directory: &Path) -> usize {
    report(directory).map_or(0, |report| report.members.len())
}

fn hand_over_more(directory: &Path) {
    let before = handovers(directory);
    eventually("turns are handed over", || {
        handovers(directory) > before + 20
    });
}

#[test]
fn one_member_at_a_time_has_a_turn_and_all_have_one() {
    let directory = Directory::new();
    let (running, most) = (AtomicU32::new(0), AtomicU32::new(0));
    let turns = [const { AtomicU64::new(0) }; 4];
    std::thread::scope(|scope| {
        for had in &turns {
            scope.spawn(|| {
                let seat = Seat::take(&directory.0);
                for _ in 0..200 {
                    seat.poll().unwrap();
                    most.fetch_max(running.fetch_add(1, Relaxed) + 1, Relaxed);
                    work();
                    had.fetch_add(1, Relaxed);
                    running.fetch_sub(1, Relaxed);
                }
                seat.leave();
            });
        }
    });
    // A member that the machine does not run for long loses its turn, and another one has it meanwhile.
    assert!(most.load(Relaxed) <= 2, "{most:?} at a time");
    assert!(turns.iter().all(|had| had.load(Relaxed) == 200));
    assert!(
        inspect::domains(&directory.0).is_empty(),
        "the last one removes"
    );
    assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 0);
}

#[test]
fn killed_members_are_forgotten_and_the_others_go_on() {
    let directory = Directory::new();
    let mut children = Children::start(&directory.0, 4);
    eventually("all are in", || members(&directory.0) == 4);
    for index in 0..3 {
        hand_over_more(&directory.0);
        children.0[index].kill().unwrap();
        children.0[index].wait().unwrap();
        eventually("it is forgotten", || members(&directory.0) <= 3 - index);
    }
    drop(children);
    assert!(
        report(&directory.0).is_none(),
        "the memory goes with its last user"
    );
    // The file that is left names nothing: the next one replaces it.
    let seat = Seat::take(&directory.0);
    assert_eq!(members(&directory.0), 1);
    seat.leave();
}

#[test]
fn a_stopped_member_is_skipped_and_let_in_again() {
    let directory = Directory::new();
    let children = Children::start(&directory.0, 3);
    eventually("all are in", || members(&directory.0) == 3);
    hand_over_more(&directory.0);
    children.signal(1, libc::SIGSTOP);
    eventually("it is skipped", || {
        report(&directory.0).is_some_and(|it| it.skipped > 0)
    });
    hand_over_more(&directory.0);
    children.signal(1, libc::SIGCONT);
    eventually("it is back", || {
        report(&directory.0).is_some_and(|it| it.readmitted > 0)
    });
    hand_over_more(&directory.0);
}

/// The thread that is the member: the first one of a test's program waits for it.
fn last_thread(child: &Child) -> libc::pid_t {
    let threads = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    let numbers = threads.map(|it| it.unwrap().file_name().to_str().unwrap().parse().unwrap());
    numbers.max().unwrap()
}

#[test]
fn a_traced_member_is_skipped_and_let_in_again() {
    let directory = Directory::new();
    let children = Children::start(&directory.0, 3);
    eventually("all are in", || members(&directory.0) == 3);
    hand_over_more(&directory.0);
    let thread = last_thread(&children.0[1]);
    let trace = |request| {
        let none = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: about a child of ours; these requests read and write no memory.
        unsafe { libc::ptrace(request, thread, none, none) }
    };
    if trace(libc::PTRACE_SEIZE) != 0 {
        // Not permitted here.
        return;
    }
    trace(libc::PTRACE_INTERRUPT);
    eventually("it is skipped", || {
        report(&directory.0).is_some_and(|it| it.skipped > 0)
    });
    hand_over_more(&directory.0);
    // SAFETY: our child, which stops now if it has not yet; its status is not wanted.
    unsafe { libc::waitpid(thread, std::ptr::null_mut(), libc::__WALL) };
    trace(libc::PTRACE_DETACH);
    eventually("it is back", || {
        report(&directory.0).is_some_and(|it| it.readmitted > 0)
    });
    hand_over_more(&directory.0);
}

#[test]
fn another_page_than_a_domain_s_is_refused_and_replaced() {
    let directory = Directory::new();
    let path = file(&directory.0);
    let target = directory.0.join("elsewhere");
    fs::write(&target, "consort 1 0 0000000000000001\n").unwrap();
    let long = "x".repeat(100_000);
    let texts = [
        "",
        "consort",
        "consort 1 0 0000000000000001\n",
        "consort 1 -1 5",
        "\0\0\0",
        &long,
    ];
    for text in texts {
        fs::write(&path, text).unwrap();
        let seat = Seat::take(&directory.0);
        assert_eq!(seat.poll(), Ok(()), "{text:.20}");
        assert!(seat.meeting.is_current());
        seat.leave();
        assert!(!path.exists());
    }
    symlink(&target, &path).unwrap();
    let seat = Seat::take(&directory.0);
    assert!(!path.symlink_metadata().unwrap().is_symlink());
    seat.leave();
    assert!(target.exists(), "what the link named is somebody else's");
}

#[test]
fn members_whose_file_is_replaced_move_or_put_it_back() {
    let directory = Directory::new();
    let path = file(&directory.0);
    let seat = Seat::take(&directory.0);
    fs::remove_file(&path).unwrap();
    assert!(seat.meeting.is_current(), "put back");
    assert_eq!(members(&directory.0), 1);
    fs::remove_file(&path).unwrap();
    let other = Seat::take(&directory.0);
    assert!(!seat.meeting.is_current(), "newcomers are elsewhere");
    seat.leave();
    assert!(path.exists(), "it is another domain's by now");
    other.leave();
}

#[test]
fn one_member_looks_for_a_daemon_for_all_until_it_has_found_one() {
    let directory = Directory::new();
    let seats = [Seat::take(&directory.0), Seat::take(&directory.0)];
    let now_ns = seats[0].member.os().now_ns();
    let looking = |after_ms: u64| {
        let looks = |seat: &&Seat| seat.member.is_to_look_for_daemon(now_ns + after_ms * MS);
        seats.iter().filter(looks).count()
    };
    assert_eq!([looking(0), looking(100), looking(251)], [1, 0, 1]);
    let third = Seat::take(&directory.0);
    assert!(!third.member.is_to_look_for_daemon(now_ns + 252 * MS));
    seats[0].member.announce_daemon();
    assert!(third.member.is_to_look_for_daemon(now_ns + 253 * MS));
    third.leave();
    assert_eq!(looking(3000), 2, "each looks for itself after a while");
    seats.into_iter().for_each(Seat::leave);
}

#[test]
fn a_domain_s_terms_are_its_first_member_s() {
    let directory = Directory::new();
    let seat = Seat::take(&directory.0);
    let other = Terms { order: 2, ..TERMS };
    let meeting = Meeting::attend(&runtime(&directory.0), "studio", other).unwrap();
    let newcomer = Newcomer {
        who: Linux::new().me(),
        owner: 5,
        share: SHARE,
    };
    let joined = Member::join(
        meeting.table(),
        Linux::new(),
        meeting.token(),
        other,
        &newcomer,
    );
    assert_eq!(
        joined.err(),
        Some(consort_userlevel::JoinError::Terms(TERMS))
    );
    seat.leave();
}

#[test]
fn a_directory_that_others_may_write_to_is_refused_unless_it_was_chosen() {
    let directory = Directory::new();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(&directory.0, mode).unwrap();
    assert!(Meeting::attend(&runtime(&directory.0), "studio", TERMS).is_err());
}

/// Whatever another member writes, those that poll neither crash nor hang.
#[test]
fn garbage_in_the_memory_harms_nobody() {
    let directory = Directory::new();
    let over = AtomicBool::new(false);
    let polls = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut seat = None;
                while !over.load(Relaxed) {
                    seat = seat.or_else(|| Seat::try_to_take(&directory.0));
                    if seat.as_ref().is_some_and(|seat| seat.poll() == Err(Lost)) {
                        seat = None;
                    }
                    polls.fetch_add(1, Relaxed);
                }
            });
        }
        let until = Instant::now() + Duration::from_millis(1500);
        while Instant::now() < until {
            scribble(&directory.0);
            std::thread::sleep(Duration::from_micros(500));
        }
        over.store(true, Relaxed);
    });
    assert!(polls.load(Relaxed) > 100, "{polls:?} polls");
}

fn scribble(directory: &Path) {
    let Ok(meeting) = Meeting::attend(&runtime(directory), "studio", TERMS) else {
        return;
    };
    let table = meeting.table();
    let values = [0, 1, 2, NEVER, NEVER - 1, 1 << 63, random(), random() % 16];
    for _ in 0..16 {
        let index = random() as usize % 4;
        // SAFETY: within the memory, as words that are atomics there.
        let words = unsafe {
            let seat = std::ptr::from_ref(table.seat(index)).cast::<AtomicU64>();
            std::slice::from_raw_parts(seat, 32)
        };
        words[random() as usize % 32].store(values[random() as usize % 8], Relaxed);
    }
    let header = table.header();
    match random() % 8 {
        0 => header.lock.store(random() as u32, Relaxed),
        1 => header.seats_used.store(random() as u32, Relaxed),
        2 => header.clock.store(random(), Relaxed),
        3 if random().is_multiple_of(8) => header.magic.store(0, Relaxed),
        4 => header.vmin.store(random(), Relaxed),
        _ => {}
    }
}
