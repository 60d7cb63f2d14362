// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that have names, and what they share with a decision function.

use crate::daemon::{domain_of, Daemon, Manner};
use crate::process::isolated;
use consort::{announce, Announced, Domain, Error, VARIABLES};
use consort_abi::*;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

isolated!(a_name_is_announced_and_taken_back, {
    let daemon = Daemon::start();
    let show = announce("show").unwrap();
    let announced = daemon.requests_of(CONSORT_ANNOUNCE);
    assert_eq!(announced.len(), 1);
    assert_eq!(domain_of(&announced[0]), "show");
    assert_eq!(announced[0].tid, unsafe { libc::gettid() });
    assert_eq!(show.why_alone(), None);
    // A thread is one thing.
    assert!(matches!(announce("other"), Err(Error::AlreadyMember)));
    assert!(matches!(
        Domain::named("d").join(),
        Err(Error::AlreadyMember)
    ));
    show.leave().unwrap();
    assert_eq!(daemon.requests_of(CONSORT_LEAVE).len(), 1);
    let again = announce("again").unwrap();
    drop(again);
    assert_eq!(daemon.requests_of(CONSORT_LEAVE).len(), 2);
    assert!(daemon.requests_of(CONSORT_JOIN).is_empty());
});

isolated!(state_is_published_and_control_is_read_without_the_daemon, {
    let daemon = Daemon::start();
    let show = announce("show").unwrap();
    let page = daemon.page(0);
    for (index, value) in [(0, 7), (1, -1), (2, i64::MIN), (3, i64::MAX)] {
        show.set_state(index, value).unwrap();
        assert_eq!(show.state(index).unwrap(), value);
    }
    assert_eq!(page.variables(0).state, [7, -1, i64::MIN, i64::MAX]);
    page.set_control(0, 2, 99);
    assert_eq!(show.control(2).unwrap(), 99);
    assert_eq!(show.control(0).unwrap(), 0);
    for index in [VARIABLES, usize::MAX] {
        assert!(matches!(
            show.set_state(index, 0),
            Err(Error::VariableRange { .. })
        ));
        assert!(matches!(
            show.control(index),
            Err(Error::VariableRange { .. })
        ));
    }
    // Odd while it submits; each submission is a new even number, also one whose beginning was not told.
    let submissions = || page.variables(0).submissions;
    show.begin_submission().unwrap();
    assert_eq!(submissions(), 1);
    show.begin_submission().unwrap();
    assert_eq!(submissions(), 1);
    show.end_submission().unwrap();
    assert_eq!(submissions(), 2);
    show.end_submission().unwrap();
    assert_eq!(submissions(), 4);
    show.done().unwrap();
    show.done().unwrap();
    show.trigger_plans().unwrap();
    show.look().unwrap();
    assert_eq!((page.variables(0).done, page.variables(0).triggers), (2, 1));
    // The daemon was asked for nothing more than the name.
    assert_eq!(daemon.requests().len(), 2);
});

isolated!(each_thread_has_variables_of_its_own, {
    let daemon = Daemon::start();
    let one = announce("one").unwrap();
    one.set_state(0, 1).unwrap();
    std::thread::spawn(|| {
        let two = announce("two").unwrap();
        two.set_state(0, 2).unwrap();
    })
    .join()
    .unwrap();
    let page = daemon.page(0);
    assert_eq!(
        (page.variables(0).state[0], page.variables(1).state[0]),
        (1, 2)
    );
    // The slot's next owner begins with what it says itself.
    std::thread::spawn(|| drop(announce("three").unwrap()))
        .join()
        .unwrap();
    assert_eq!(page.variables(1).state[0], 0);
});

isolated!(without_a_daemon_the_thread_is_on_its_own, {
    let show = announce("show").unwrap();
    show.set_state(0, 5).unwrap();
    show.begin_submission().unwrap();
    show.end_submission().unwrap();
    show.trigger_plans().unwrap();
    assert_eq!((show.state(0).unwrap(), show.control(0).unwrap()), (5, 0));
    // Nobody cooperates with it at user level.
    assert_eq!(show.member().others().unwrap().due_ns, consort::NEVER);
    assert_eq!(show.why_alone(), None);
});

isolated!(other_threads_set_what_is_shared, {
    let daemon = Daemon::start();
    let read = announce("read").unwrap();
    read.set_state(0, 3).unwrap();
    let level = read.share_state(0).unwrap();
    assert_eq!(level.get(), 3);
    assert!(read.share_state(VARIABLES).is_err());
    let others = level.clone();
    std::thread::spawn(move || others.set(4)).join().unwrap();
    assert_eq!(daemon.page(0).variables(0).state[0], 4);
    // The same one, however often it is asked for.
    read.share_state(0).unwrap().set(5);
    assert_eq!((level.get(), daemon.page(0).variables(0).state[0]), (5, 5));
    // It goes along when the daemon goes and comes.
    daemon.kill();
    level.set(6);
    let daemon = Daemon::start();
    tells_until(
        || !daemon.requests_of(CONSORT_ANNOUNCE).is_empty(),
        || read.done().unwrap(),
    );
    assert_eq!(daemon.page(0).variables(0).state[0], 6);
    // It may not have seen the answer yet.
    level.set(7);
    tells_until(
        || daemon.page(0).variables(0).state[0] == 7,
        || read.done().unwrap(),
    );
    level.set(8);
    assert_eq!(daemon.page(0).variables(0).state[0], 8);
    // Once the thread has left, the next one's variable is its own.
    drop(read);
    let next = announce("next").unwrap();
    level.set(9);
    assert_eq!(daemon.page(0).variables(0).state[0], 0);
    drop(next);
});

/// It announces itself again where a daemon has come, or come back, with what it has said.
fn tells_until(done: impl Fn() -> bool, tell: impl Fn()) {
    let until = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < until, "it never announced itself again");
        tell();
        std::thread::sleep(Duration::from_millis(5));
    }
}

isolated!(a_thread_finds_the_daemon_again_and_says_what_it_has_said, {
    let show = announce("show").unwrap();
    show.set_state(0, 5).unwrap();
    let daemon = Daemon::start();
    tells_until(
        || !daemon.requests_of(CONSORT_ANNOUNCE).is_empty(),
        || show.set_state(1, 6).unwrap(),
    );
    tells_until(
        || daemon.page(0).variables(0).done > 0,
        || show.done().unwrap(),
    );
    assert_eq!(daemon.page(0).variables(0).state[..2], [5, 6]);
    daemon.kill();
    let daemon = Daemon::start();
    tells_until(
        || !daemon.requests_of(CONSORT_ANNOUNCE).is_empty(),
        || show.done().unwrap(),
    );
    assert_eq!(daemon.page(0).variables(0).state[..2], [5, 6]);
    show.set_state(0, 8).unwrap();
    tells_until(
        || daemon.page(0).variables(0).state[0] == 8,
        || show.look().unwrap(),
    );
});

isolated!(a_daemon_that_knows_no_variables_is_no_reason_not_to_run, {
    let daemon = Daemon::with(Manner::NoVariables);
    let show = announce("show").unwrap();
    show.set_state(0, 5).unwrap();
    assert_eq!(show.state(0).unwrap(), 5);
    show.done().unwrap();
    assert_eq!(daemon.requests_of(CONSORT_ANNOUNCE).len(), 1);
});

isolated!(a_daemon_that_knows_no_names_is_no_reason_not_to_run, {
    let _daemon = Daemon::with(Manner::Refuse {
        request: CONSORT_ANNOUNCE,
        errno: libc::EOPNOTSUPP,
    });
    let show = announce("show").unwrap();
    show.set_state(0, 5).unwrap();
    assert_eq!(show.why_alone().unwrap().0, libc::EOPNOTSUPP);
});

isolated!(variables_that_a_page_has_not_are_not_looked_for, {
    let _daemon = Daemon::with(Manner::ShortVariables);
    let show = announce("show").unwrap();
    show.set_state(0, 5).unwrap();
    assert_eq!(show.why_alone().unwrap().0, libc::EPROTO);
});

isolated!(names_are_checked_before_anybody_is_asked, {
    let daemon = Daemon::start();
    for name in ["", "a.b", "two words", "a/b", "\u{e4}", &"x".repeat(64)] {
        assert!(announce(name).is_err(), "{name}");
    }
    assert!(daemon.requests().is_empty());
});

isolated!(a_forked_child_has_no_name, {
    let daemon = Daemon::start();
    let show = announce("show").unwrap();
    let level = show.share_state(1).unwrap();
    let child = unsafe { libc::fork() };
    if child == 0 {
        level.set(5);
        let forked = matches!(show.set_state(0, 1), Err(Error::Forked))
            && matches!(show.done(), Err(Error::Forked));
        let again = announce("child").is_ok();
        unsafe { libc::_exit(i32::from(!(forked && again))) };
    }
    let mut status = 0;
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    show.set_state(0, 2).unwrap();
    assert_eq!((level.get(), daemon.page(0).variables(0).state[1]), (0, 0));
});

static SHOW: AtomicPtr<Announced> = AtomicPtr::new(std::ptr::null_mut());
static HANDLED: AtomicU32 = AtomicU32::new(0);

/// The thread's calls in a signal handler of its own.
extern "C" fn publish_in_handler(_: i32) {
    // SAFETY: set before the first signal, and valid until after the last one.
    let show = unsafe { &*SHOW.load(Relaxed) };
    show.set_state(1, HANDLED.fetch_add(1, Relaxed).into())
        .unwrap();
    show.look().unwrap();
}

isolated!(a_signal_handler_may_publish_whatever_it_interrupts, {
    // On its own it looks for a daemon in each of its calls.
    let show = announce("show").unwrap();
    SHOW.store((&raw const show).cast_mut(), Relaxed);
    // SAFETY: plain system calls; the handler does what is tested.
    let thread = unsafe {
        libc::signal(libc::SIGUSR1, publish_in_handler as *const () as usize);
        libc::pthread_self()
    };
    std::thread::scope(|scope| {
        let interrupts = scope.spawn(move || {
            while HANDLED.load(Relaxed) < 20_000 {
                // SAFETY: the thread lives until this one has ended.
                unsafe { libc::pthread_kill(thread, libc::SIGUSR1) };
                std::hint::spin_loop();
            }
        });
        while !interrupts.is_finished() {
            show.set_state(0, 1).unwrap();
        }
    });
    assert_eq!(show.state(1).unwrap(), i64::from(HANDLED.load(Relaxed)) - 1);
});

// Whoever else was setting what is shared when the child was forked has no thread there to end it.
isolated!(a_forked_child_waits_for_no_thread_of_its_parents, {
    let show = announce("show").unwrap();
    let level = show.share_state(0).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                level.set(level.get() + 1);
            }
        });
        for _ in 0..50 {
            // SAFETY: the child makes calls that it may make, and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: plain system calls.
                unsafe { libc::alarm(5) };
                let again = announce("child").is_ok();
                unsafe { libc::_exit(i32::from(!again)) };
            }
            let mut status = 0;
            // SAFETY: our child; the pointer is valid.
            unsafe { libc::waitpid(child, &mut status, 0) };
            is_over.store(status != 0, Relaxed);
            assert_eq!(status, 0);
        }
        is_over.store(true, Relaxed);
    });
});
