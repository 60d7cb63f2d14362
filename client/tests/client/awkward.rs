// SPDX-License-Identifier: MIT OR Apache-2.0
//! Members at user level whose programs do what programs do: sleep in loops of their own, handle signals, fork there, are bound to
//! other CPUs.

use crate::process::isolated;
use crate::user_level::{busy, choose, join, pin_to_one_cpu};
use consort::{Error, EventLoop, Member, Next, Standing, When};
use consort_userlevel::{Meeting, Runtime};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

const MS: u64 = 1_000_000;
/// As [`join`] has them.
const TERMS: consort_userlevel::Terms = consort_userlevel::Terms {
    event_ns: MS,
    order: 0,
};

isolated!(a_loop_inside_another_loop_has_no_turn_while_that_sleeps, {
    let folder = choose("user");
    pin_to_one_cpu();
    let mut events = EventLoop::for_member(join("studio")).unwrap();
    let (now, later) = (events.event(|_| {}), events.event(|_| {}));
    let due_ns = consort::now_ns() + 5000 * MS;
    events.submit(later, When::Due { due_ns }).unwrap();
    for key in 0..3 {
        events
            .submit(now, When::BestEffort { priority: 1, key })
            .unwrap();
        events.run_ready().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let other = join("studio");
                let _ = other.poll(busy()).unwrap();
            });
        });
    }
    let domains = consort_userlevel::inspect::domains(&folder);
    assert_eq!(domains[0].skipped, 0, "nobody waited for it in vain");
    drop(events);
    std::fs::remove_dir(folder).unwrap();
});

static MEMBER: AtomicPtr<Member> = AtomicPtr::new(std::ptr::null_mut());
static HANDLED: AtomicU32 = AtomicU32::new(0);
static REFUSED: AtomicU32 = AtomicU32::new(0);

/// The member's calls in a signal handler of its thread.
extern "C" fn poll_in_handler(_: i32) {
    // SAFETY: set before the first signal, and valid until after the last one.
    let member = unsafe { &*MEMBER.load(Relaxed) };
    HANDLED.fetch_add(1, Relaxed);
    let is_polled = member.poll(busy()).is_ok() && member.others().is_ok();
    REFUSED.fetch_add(u32::from(!is_polled), Relaxed);
}

fn handle(signal: i32, handler: extern "C" fn(i32)) {
    // SAFETY: the handler does what is tested.
    unsafe { libc::signal(signal, handler as *const () as usize) };
}

/// The calling thread, for signals.
fn own_number() -> libc::pid_t {
    // SAFETY: no arguments, never fails.
    unsafe { libc::gettid() }
}

/// Interrupts that thread of this process again and again until it is enough. Timers' signals come to any thread.
fn interrupt(thread: libc::pid_t, every: Duration, is_enough: impl Fn() -> bool) {
    while !is_enough() {
        std::thread::sleep(every);
        // SAFETY: a plain system call.
        unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), thread, libc::SIGUSR1) };
    }
}

/// Polls between chunks of work until it is over, and hears of no signals.
fn keep_polling(is_over: &AtomicBool) {
    // SAFETY: the set is filled before it is used.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
    }
    let member = join("studio");
    while !is_over.load(Relaxed) {
        member.poll(busy()).unwrap();
        work();
    }
}

fn work() {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_micros(100) {
        std::hint::spin_loop();
    }
}

isolated!(a_signal_handler_may_poll_whatever_it_interrupts, {
    let folder = choose("user");
    pin_to_one_cpu();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| keep_polling(&is_over));
        let member = join("studio");
        MEMBER.store((&raw const member).cast_mut(), Relaxed);
        handle(libc::SIGUSR1, poll_in_handler);
        let thread = own_number();
        let interrupts = scope.spawn(move || {
            let is_enough = || HANDLED.load(Relaxed) >= 300;
            interrupt(thread, Duration::from_micros(137), is_enough);
        });
        while !interrupts.is_finished() {
            member.poll(Next::due(consort::now_ns() + MS / 10)).unwrap();
        }
        is_over.store(true, Relaxed);
    });
    assert_eq!(REFUSED.load(Relaxed), 0, "of {HANDLED:?}");
    std::fs::remove_dir(folder).unwrap();
});

static CHILD: AtomicU32 = AtomicU32::new(0);

extern "C" fn fork_in_handler(_: i32) {
    if CHILD.load(Relaxed) == u32::MAX {
        // SAFETY: the child goes on, as handlers do: that is what is tested.
        CHILD.store(unsafe { libc::fork() } as u32, Relaxed);
    }
}

isolated!(a_child_that_a_handler_forked_in_a_poll_is_told_so, {
    let folder = choose("user");
    pin_to_one_cpu();
    let is_over = AtomicBool::new(false);
    CHILD.store(u32::MAX, Relaxed);
    handle(libc::SIGUSR1, fork_in_handler);
    let member = join("studio");
    std::thread::scope(|scope| {
        scope.spawn(|| keep_polling(&is_over));
        let thread = own_number();
        scope.spawn(move || {
            let has_forked = || CHILD.load(Relaxed) != u32::MAX;
            // While it sleeps, and does not just look: it does so every 80 ms.
            interrupt(thread, Duration::from_millis(120), has_forked);
        });
        let mut polled = Ok(());
        while polled.is_ok() && CHILD.load(Relaxed) == u32::MAX {
            let next = Next::due(consort::now_ns() + 1000 * MS);
            polled = member.poll(next).map(|_| ());
        }
        if CHILD.load(Relaxed) == 0 {
            let is_told = polled.is_err_and(|error| matches!(error, Error::Forked));
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(!is_told)) };
        }
        is_over.store(true, Relaxed);
    });
    let mut status = -1;
    // SAFETY: our child; the pointer is valid.
    unsafe { libc::waitpid(CHILD.load(Relaxed) as i32, &mut status, 0) };
    assert_eq!(status, 0, "wait status of the child");
    drop(member);
    std::fs::remove_dir(folder).unwrap();
});

isolated!(cpus_and_nice_value_count_as_they_are_now, {
    let folder = choose("user");
    let member = join("studio");
    let share = || {
        let runtime = Runtime::at(&folder);
        let meeting = Meeting::attend(&runtime, "studio", TERMS).unwrap();
        let (table, now_ns) = (meeting.table(), consort::now_ns());
        let (entry, place) = table.read(0, now_ns);
        (entry.weight, place.cpus.count_ones(), place.cpus_most)
    };
    pin_to_one_cpu();
    // SAFETY: a plain system call; from 19 on there is no more.
    let nice = unsafe { libc::nice(3) };
    // It looks while it polls, now and then.
    let mut now_ns = consort::now_ns();
    for _ in 0..3 {
        now_ns += 300 * MS;
        member.poll_at(busy(), now_ns).unwrap();
    }
    assert_eq!(share(), (consort_userlevel::weight_of_nice(nice), 1, 1));
    member.leave().unwrap();
    std::fs::remove_dir(folder).unwrap();
});

isolated!(
    a_member_whose_seat_was_taken_has_another_with_its_next_poll,
    {
        let folder = choose("user");
        let member = join("studio");
        let meeting = Meeting::attend(&Runtime::at(&folder), "studio", TERMS).unwrap();
        meeting.table().seat(0).owner.store(1, Relaxed);
        let now_ns = consort::now_ns();
        let poll = || member.poll_at(Next::due(now_ns), now_ns).unwrap();
        assert_eq!(poll().standing(), Standing::Outside, "it finds out");
        let others = poll();
        assert_eq!(others.standing(), Standing::Member);
        drop(member);
        std::fs::remove_dir_all(folder).unwrap();
    }
);
