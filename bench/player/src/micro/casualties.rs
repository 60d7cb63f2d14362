// SPDX-License-Identifier: MIT OR Apache-2.0
//! Members of one domain, of which one after the other is killed or stopped at a random instant: how long do the others stand
//! still, and what stays behind?

use crate::clock::{now_ns, sleep_until_ns, NS_PER_MS, NS_PER_S};
use crate::cooperative::Membership;
use crate::error::Error;
use crate::processes::{spawn, Child};
use crate::work::burn_ns;
use clap::Args;
use consort::Next;
use consort_sim::random::Random;
use serde::Serialize;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Between a member's due events.
const PERIOD_NS: u64 = 42 * NS_PER_MS;
const EVENT_NS: u64 = NS_PER_MS;
/// Between one's return and the next casualty: the first, and up to the second more.
const GAP_NS: u64 = 15 * NS_PER_MS;
const GAP_JITTER_NS: u64 = 30 * NS_PER_MS;
/// How long a casualty is away.
const AWAY_NS: u64 = 80 * NS_PER_MS;
/// Seats of the dead are given back within seconds.
const REST_NS: u64 = 10 * NS_PER_S;
const WORST_COUNT: usize = 8;

#[derive(Args, Clone, Serialize)]
pub struct Options {
    #[arg(long, default_value_t = 12)]
    members: usize,
    /// How many are killed or stopped
    #[arg(long, default_value_t = 1000)]
    times: usize,
    /// Chooses whom, when, and how
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    membership: Membership,
}

#[derive(Serialize)]
pub struct Casualties {
    options: Options,
    killed: u64,
    stopped: u64,
    /// The longest times in which nobody had a turn, after each casualty; the longest first.
    stalls_ms: Vec<f64>,
    stall_ms_max: f64,
    /// Turns of all members.
    turns: u64,
    /// Seats that nobody has, files and shared memory, after all is over.
    leaks: u64,
}

/// What the members' processes share.
struct Board {
    /// When a member last had a turn.
    turn_at_ns: AtomicU64,
    /// The longest time between two turns since it was last set to 0.
    stall_ns: AtomicU64,
    turns: AtomicU64,
    is_over: AtomicBool,
}

impl Board {
    /// Zeroed memory that children share; it stays until the process ends.
    fn new() -> Result<&'static Board, Error> {
        // SAFETY: a fresh mapping; all bits zero is a valid board, and it is never unmapped.
        unsafe {
            let memory = libc::mmap(
                std::ptr::null_mut(),
                size_of::<Board>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            match memory == libc::MAP_FAILED {
                true => Err(Error::last_os("share memory with children")),
                false => Ok(&*memory.cast::<Board>()),
            }
        }
    }

    fn has_turn(&self) {
        let now_ns = now_ns();
        let before_ns = self.turn_at_ns.swap(now_ns, Relaxed);
        self.stall_ns
            .fetch_max(now_ns.saturating_sub(before_ns), Relaxed);
        self.turns.fetch_add(1, Relaxed);
    }
}

pub fn run(options: Options) -> Result<Casualties, Error> {
    if options.members < 2 {
        return Err(Error::Usage("--members must be at least 2".into()));
    }
    // The members are on one CPU, and so is the one that kills: at any instant of theirs.
    crate::processes::pin_to_cpu(crate::processes::first_cpu()?)?;
    std::env::set_var("CONSORT_HOST", "user");
    let before = left_behind()?;
    let board = Board::new()?;
    let start = |random: &mut Random| {
        let (membership, seed) = (options.membership.clone(), random.next_u64());
        spawn(move || live(&membership, seed, board))
    };
    let mut random = Random::new(options.seed);
    let mut members = (0..options.members)
        .map(|_| start(&mut random))
        .collect::<Result<Vec<_>, _>>()?;
    // All are in.
    sleep_until_ns(now_ns() + NS_PER_S);
    let (mut stalls_ns, mut killed) = (Vec::new(), 0);
    for _ in 0..options.times {
        sleep_until_ns(now_ns() + GAP_NS + random.next_u64() % GAP_JITTER_NS);
        let member = &mut members[random.next_u64() as usize % options.members];
        let is_kill = random.next_u64().is_multiple_of(2);
        board.stall_ns.store(0, Relaxed);
        signal(
            member.pid,
            if is_kill {
                libc::SIGKILL
            } else {
                libc::SIGSTOP
            },
        )?;
        sleep_until_ns(now_ns() + AWAY_NS);
        // One that still goes on counts, too.
        let going_on_ns = now_ns().saturating_sub(board.turn_at_ns.load(Relaxed));
        stalls_ns.push(board.stall_ns.load(Relaxed).max(going_on_ns));
        if is_kill {
            std::mem::replace(member, start(&mut random)?).reap();
            killed += 1;
        } else {
            signal(member.pid, libc::SIGCONT)?;
        }
    }
    let leaks = end(members, board, &options, &before)?;
    stalls_ns.sort_unstable_by_key(|&ns| std::cmp::Reverse(ns));
    stalls_ns.truncate(WORST_COUNT);
    let stalls_ms: Vec<f64> = stalls_ns
        .iter()
        .map(|&ns| ns as f64 / NS_PER_MS as f64)
        .collect();
    Ok(Casualties {
        killed,
        stopped: options.times as u64 - killed,
        stall_ms_max: stalls_ms.first().copied().unwrap_or(0.0),
        stalls_ms,
        turns: board.turns.load(Relaxed),
        leaks,
        options,
    })
}

/// Works whenever it has a turn, and has a due event now and then.
fn live(membership: &Membership, seed: u64, board: &Board) -> Result<(), Error> {
    crate::clock::no_timer_slack();
    let mut random = Random::new(seed);
    let member = membership.join(EVENT_NS)?;
    let mut due_ns = now_ns() + random.next_u64() % PERIOD_NS;
    while !board.is_over.load(Relaxed) {
        let next = Next {
            due_ns,
            best_effort: Some((0, random.next_u64() % 1000)),
        };
        member.poll(next).map_err(Error::Cooperation)?;
        board.has_turn();
        while due_ns <= now_ns() {
            due_ns += PERIOD_NS;
        }
        burn_ns(random.next_u64() % EVENT_NS);
    }
    member.leave().map_err(Error::Cooperation)
}

fn signal(pid: libc::pid_t, signal: libc::c_int) -> Result<(), Error> {
    // SAFETY: a child of ours that was not waited for.
    match unsafe { libc::kill(pid, signal) } {
        0 => Ok(()),
        _ => Err(Error::last_os("send a signal to a member")),
    }
}

/// Lets the dead be forgotten and the living leave; returns what stays behind.
fn end(
    members: Vec<Child<()>>,
    board: &Board,
    options: &Options,
    before: &Left,
) -> Result<u64, Error> {
    sleep_until_ns(now_ns() + REST_NS);
    let domains = consort_userlevel::inspect::domains(consort_userlevel::Runtime::of_user().path());
    let domain = domains
        .iter()
        .find(|it| it.name == options.membership.domain);
    let seats = domain.map_or(0, |it| it.members.len());
    board.is_over.store(true, Relaxed);
    for member in members {
        member.wait()?;
    }
    let after = left_behind()?;
    let dead = seats.abs_diff(options.members) as u64;
    Ok(dead
        + after.files.saturating_sub(before.files)
        + after.segments.saturating_sub(before.segments))
}

/// What domains at user level are made of, on this machine.
struct Left {
    files: u64,
    segments: u64,
}

fn left_behind() -> Result<Left, Error> {
    let runtime = consort_userlevel::Runtime::of_user();
    let segments = Path::new("/proc/sysvipc/shm");
    let text = std::fs::read_to_string(segments)
        .map_err(|source| Error::io(format!("read {}", segments.display()), source))?;
    Ok(Left {
        files: std::fs::read_dir(runtime.path()).map_or(0, |files| files.count() as u64),
        segments: text.lines().count() as u64,
    })
}
