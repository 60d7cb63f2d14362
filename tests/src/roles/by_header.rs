// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that know Consort by consort.h alone.

use std::ffi::c_void;
use std::os::fd::{AsRawFd, OwnedFd};

use consort::now_ns;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use super::{argument, header::*};
use crate::suite::board::{Board, Field};

const MS: u64 = 1_000_000;
const US: u64 = 1_000;

/// The value of `NAME=VALUE` among the arguments; 0 if it is not there.
fn named(arguments: &[&str], name: &str) -> Result<u64, String> {
    let value = |word: &str| {
        let (its, value) = word.split_once('=')?;
        (its == name).then(|| value.to_owned())
    };
    match arguments.iter().find_map(|word| value(word)) {
        None => Ok(0),
        Some(text) => text
            .parse()
            .map_err(|_| format!("{name} is {text:?}, expected a number")),
    }
}

fn options(arguments: &[&str]) -> Result<Options, String> {
    Ok(Options {
        event_ns: named(arguments, "event_us")? * US,
        order: named(arguments, "order")? as u32,
        flags: named(arguments, "flags")? as u32,
    })
}

/// Uses so much CPU time, however long that takes.
fn use_cpu_ns(ns: u64) {
    let used_ns = || {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the kernel writes the time.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
        time.tv_sec as u64 * 1000 * MS + time.tv_nsec as u64
    };
    let until_ns = used_ns() + ns;
    while used_ns() < until_ns {
        std::hint::spin_loop();
    }
}

fn show(board: &Board, others: &Others) {
    const DEMOTED: u32 = 2;
    board.add(Field::Polls, 1);
    board.set(Field::Standing, u64::from(others.standing) + 1);
    if others.standing == DEMOTED {
        board.add(Field::Demotions, 1);
    }
}

/// `speaker DOMAIN [order=] [flags=] [event_us=] run_us= [due_ms=] priority= [key=]`: has best-effort work without end; after
/// each `run_us` of CPU time it polls, and is due `due_ms` later, or never. Extra is the priority that the others had last.
/// Command 1: it leaves, and works on.
pub fn speaker(board: &Board, arguments: &[&str]) -> Result<(), String> {
    let member = join(&argument::<String>(arguments, 0)?, &options(arguments)?)?;
    let run_ns = named(arguments, "run_us")? * US;
    let ahead_ns = named(arguments, "due_ms")? * MS;
    let (priority, key) = (named(arguments, "priority")?, named(arguments, "key")?);
    let wants = priority as u32 != PRIORITY_NONE;
    let mut others = Others::default();
    // A member that is less important than others may not return from its first poll for long.
    board.set(Field::Ready, 1);
    while board.get(Field::Command) == 0 {
        use_cpu_ns(run_ns);
        let next = Next {
            due_ns: if ahead_ns == 0 {
                NEVER
            } else {
                now_ns() + ahead_ns
            },
            key: if wants { key } else { 0 },
            priority: priority as u32,
            best_effort: u32::from(wants),
        };
        // SAFETY: the member is this thread's, the rest is valid for the calls.
        unsafe {
            done("poll", consort_poll(member, &next, &mut others))?;
            show(board, &others);
            done("others", consort_others(member, &mut others))?;
        }
        board.set(Field::Extra, u64::from(others.priority));
    }
    // SAFETY: the member is this thread's, and not used any more.
    done("leave", unsafe { consort_leave(member) })?;
    board.set(Field::Done, 1);
    loop {
        use_cpu_ns(run_ns);
    }
}

/// How a `punctual` waits until it is due.
enum Way {
    Sleeps,
    Polls(*mut c_void),
    PollsAt(*mut c_void),
    PollsWithEpoll(*mut c_void, OwnedFd),
}

impl Way {
    fn of(arguments: &[&str], domain: &str, way: &str) -> Result<Way, String> {
        let member = || join(domain, &options(arguments)?);
        // SAFETY: the descriptor is new.
        let epoll = || unsafe { std::os::fd::FromRawFd::from_raw_fd(libc::epoll_create1(0)) };
        match way {
            "sleeps" => Ok(Way::Sleeps),
            "polls" => Ok(Way::Polls(member()?)),
            "polls-at" => Ok(Way::PollsAt(member()?)),
            "polls-with-epoll" => Ok(Way::PollsWithEpoll(member()?, epoll())),
            _ => Err(format!("there is no way {way:?} of waiting")),
        }
    }

    fn wait(&self, due_ns: u64) -> Result<Others, String> {
        let next = Next {
            due_ns,
            key: 0,
            priority: PRIORITY_NONE,
            best_effort: 0,
        };
        let mut others = Others::default();
        let mut ready = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: the member is this thread's, the rest is valid for the calls.
        let result = unsafe {
            match self {
                Way::Sleeps => return sleep_until(due_ns).map(|()| others),
                Way::Polls(member) => consort_poll(*member, &next, &mut others),
                Way::PollsAt(member) => consort_poll_at(*member, &next, now_ns(), &mut others),
                Way::PollsWithEpoll(member, epoll) => {
                    let fd = epoll.as_raw_fd();
                    consort_poll_epoll(*member, &next, fd, &mut ready, 1, &mut others)
                }
            }
        };
        done("poll", result)?;
        Ok(others)
    }
}

fn sleep_until(due_ns: u64) -> Result<(), String> {
    let until = libc::timespec {
        tv_sec: (due_ns / (1000 * MS)) as i64,
        tv_nsec: (due_ns % (1000 * MS)) as i64,
    };
    let flags = libc::TIMER_ABSTIME;
    // SAFETY: the time is valid; nothing is written.
    let result = unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, flags, &until, std::ptr::null_mut())
    };
    match result {
        0 => Ok(()),
        errno => Err(format!("cannot sleep: errno {errno}")),
    }
}

/// When a member is due, and what it does then.
struct Due<'a> {
    board: &'a Board,
    due_ns: u64,
    period_ns: u64,
    /// In turns.
    runs_ns: [u64; 2],
}

impl Due<'_> {
    fn of<'a>(board: &'a Board, arguments: &[&str]) -> Result<Due<'a>, String> {
        let period_ns = named(arguments, "period_ms")? * MS;
        let run_ns = named(arguments, "run_us")? * US;
        let other_ns = named(arguments, "other_run_us")? * US;
        Ok(Due {
            board,
            due_ns: now_ns().next_multiple_of(period_ns) + named(arguments, "phase_us")? * US,
            period_ns,
            runs_ns: [run_ns, if other_ns == 0 { run_ns } else { other_ns }],
        })
    }

    fn serve(&mut self) {
        let late_ns = now_ns().saturating_sub(self.due_ns);
        self.board.add(Field::Late, late_ns);
        self.board.add(Field::Served, 1);
        use_cpu_ns(self.runs_ns[self.board.get(Field::Served) as usize % 2]);
        self.board.set(Field::Ready, 1);
        self.due_ns += self.period_ns;
    }
}

/// `punctual DOMAIN sleeps|polls|polls-at|polls-with-epoll|loop [order=] [flags=] [event_us=] period_ms= run_us= [other_run_us=]
/// [phase_us=]`: an event every period, asleep between; without a domain if it `sleeps`.
pub fn punctual(board: &Board, arguments: &[&str]) -> Result<(), String> {
    let domain = argument::<String>(arguments, 0)?;
    let way = argument::<String>(arguments, 1)?;
    if way == "loop" {
        let member = join(&domain, &options(arguments)?)?;
        return punctual_loop(member, Due::of(board, arguments)?);
    }
    let way = Way::of(arguments, &domain, &way)?;
    let mut due = Due::of(board, arguments)?;
    loop {
        show(board, &way.wait(due.due_ns)?);
        due.serve();
    }
}

extern "C" fn on_due(of: *mut c_void, event: *mut Event, data: *mut c_void) {
    // SAFETY: what `punctual_loop` made the event with, which outlives it.
    let due = unsafe { &mut *data.cast::<Due>() };
    let mut others = Others::default();
    due.serve();
    // SAFETY: the loop runs, and the event is its own.
    let results = unsafe {
        [
            consort_loop_others(of, &mut others),
            consort_event_submit_due(of, event, due.due_ns),
        ]
    };
    show(due.board, &others);
    if results != [0, 0] {
        due.board.add(Field::Errors, 1);
    }
}

fn punctual_loop(member: *mut c_void, mut due: Due) -> Result<(), String> {
    let mut of = std::ptr::null_mut();
    let mut event = new_event(on_due, std::ptr::from_mut(&mut due).cast());
    // SAFETY: the member is this thread's, the event stays where it is.
    unsafe {
        done("loop", consort_loop_new(member, &mut of))?;
        let submitted = consort_event_submit_due(of, &mut event, due.due_ns);
        done("submit", submitted)?;
        done("run", consort_loop_run(of))?;
    }
    Ok(())
}

struct Busy<'a> {
    board: &'a Board,
    run_ns: u64,
    priority: u32,
    timer: TimerFd,
}

extern "C" fn on_best_effort(of: *mut c_void, event: *mut Event, data: *mut c_void) {
    // SAFETY: what `looper` made the event with, which outlives it.
    let busy = unsafe { &*data.cast::<Busy>() };
    use_cpu_ns(busy.run_ns);
    busy.board.add(Field::Work, 1);
    busy.board.set(Field::Ready, 1);
    // SAFETY: the loop runs, and the event is its own.
    let result = unsafe { consort_event_submit_best_effort(of, event, busy.priority, 0) };
    if result != 0 {
        busy.board.add(Field::Errors, 1);
    }
}

extern "C" fn on_ready(of: *mut c_void, event: *mut Event, data: *mut c_void) {
    // SAFETY: as above.
    let busy = unsafe { &*data.cast::<Busy>() };
    let _ = busy.timer.wait();
    busy.board.add(Field::Served, 1);
    let fd = std::os::fd::AsFd::as_fd(&busy.timer).as_raw_fd();
    // SAFETY: the loop runs, and the event is its own.
    let result = unsafe { consort_event_submit_fd(of, event, fd, libc::EPOLLIN as u32, 0, 0) };
    if result != 0 {
        busy.board.add(Field::Errors, 1);
    }
}

/// `looper DOMAIN run_us= priority= [interval_ms=]`: an event loop that always has a best-effort event, and a descriptor that
/// is ready every 5 ms.
pub fn looper(board: &Board, arguments: &[&str]) -> Result<(), String> {
    let failed = |errno: nix::Error| format!("no timer: {errno}");
    let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK).map_err(failed)?;
    let every = Expiration::Interval(std::time::Duration::from_millis(5).into());
    timer
        .set(every, TimerSetTimeFlags::empty())
        .map_err(failed)?;
    let busy = Busy {
        board,
        run_ns: named(arguments, "run_us")? * US,
        priority: named(arguments, "priority")? as u32,
        timer,
    };
    let interval_ns = named(arguments, "interval_ms")? * MS;
    let member = join(&argument::<String>(arguments, 0)?, &options(arguments)?)?;
    let data = std::ptr::from_ref(&busy).cast_mut().cast();
    let (mut best_effort, mut ready) = (new_event(on_best_effort, data), new_event(on_ready, data));
    let fd = std::os::fd::AsFd::as_fd(&busy.timer).as_raw_fd();
    let mut of = std::ptr::null_mut();
    // SAFETY: the member is this thread's, the events stay where they are.
    unsafe {
        done("loop", consort_loop_new(member, &mut of))?;
        if interval_ns > 0 {
            done("interval", consort_loop_set_fd_interval_ns(of, interval_ns))?;
        }
        let submitted = consort_event_submit_best_effort(of, &mut best_effort, busy.priority, 0);
        done("submit", submitted)?;
        let submitted = consort_event_submit_fd(of, &mut ready, fd, libc::EPOLLIN as u32, 0, 0);
        done("submit", submitted)?;
        done("run", consort_loop_run(of))?;
    }
    Ok(())
}

/// `patron PID`: always wants the CPU, and on command: 1 reserves 0.4, 2 lends 0.3 to that process, 3 takes 0.2 back,
/// 4 takes the rest back, 5 releases. Extra is the effective rate that it then has, in thousandths; 0: none.
pub fn patron(board: &Board, arguments: &[&str]) -> Result<(), String> {
    let to = argument::<i32>(arguments, 0)?;
    let mut last = 0;
    loop {
        use_cpu_ns(MS / 2);
        board.set(Field::Ready, 1);
        let command = board.get(Field::Command);
        if command == last {
            continue;
        }
        last = command;
        let mut usage = Usage::default();
        // SAFETY: the name and the figures are valid for the calls.
        unsafe {
            let result = match command {
                1 => consort_reserve(c"guaranteed".as_ptr(), 0.4, 30 * MS),
                2 => consort_lend(to, 0.3),
                3 => consort_recollect(to, 0.2),
                4 => consort_recollect(to, 0.0),
                _ => consort_release(),
            };
            done("request", result)?;
            let given = match consort_usage(&mut usage) {
                0 => usage.given * 1000.0,
                _ => 0.0,
            };
            board.set(Field::Extra, given.round() as u64);
        }
        board.set(Field::Done, command);
    }
}
