// SPDX-License-Identifier: MIT OR Apache-2.0
//! Feedback: what is told of a reservation, once and again and again.

use crate::daemon::{Daemon, Manner};
use crate::process::isolated;
use consort::{usage, Error, EventLoop, Usage, When};
use consort_abi::*;
use std::cell::RefCell;
use std::rc::Rc;

const PERIOD_NS: u64 = 100_000_000;

/// What the daemon of these tests says.
fn told() -> Usage {
    Usage {
        asked: 0.25,
        lent: 0.0,
        held: 0.0,
        given: 0.5,
        used: [Some(0.1), None, None],
        suggested: None,
        late_s: 3,
        threads: 2,
    }
}

/// Watches until so many answers have come, or the time is over; returns them.
fn watch(answers: usize) -> Vec<Result<Usage, Error>> {
    let mut events = EventLoop::new().unwrap();
    let seen = Rc::new(RefCell::new(Vec::new()));
    let note = Rc::clone(&seen);
    let watch = events
        .watch_usage(PERIOD_NS, 5, move |events, outcome| {
            note.borrow_mut().push(outcome);
            if note.borrow().len() == answers {
                events.stop();
            }
        })
        .unwrap();
    events.run().unwrap();
    events.end_usage_watch(watch);
    events.end_usage_watch(watch);
    // Nothing is left that would keep it going.
    events.run().unwrap();
    drop(events);
    Rc::into_inner(seen).unwrap().into_inner()
}

isolated!(is_told_once, {
    let daemon = Daemon::start();
    assert_eq!(usage().unwrap(), told());
    assert_eq!(daemon.requests_of(CONSORT_USAGE)[0].tid, 0);
});

isolated!(is_told_again_and_again_without_waiting, {
    let daemon = Daemon::start();
    let begun_ns = consort::now_ns();
    let answers = watch(3);
    assert!(consort::now_ns() - begun_ns >= 2 * PERIOD_NS);
    assert_eq!(daemon.requests_of(CONSORT_USAGE).len(), 3);
    for answer in answers {
        assert_eq!(answer.unwrap(), told());
    }
});

isolated!(a_callback_may_end_its_own_watch, {
    let _daemon = Daemon::start();
    let mut events = EventLoop::new().unwrap();
    let own = Rc::new(RefCell::new(None));
    let ends = Rc::clone(&own);
    let watch = events.watch_usage(PERIOD_NS, 5, move |events, _| {
        if let Some(watch) = ends.borrow_mut().take() {
            events.end_usage_watch(watch);
        }
    });
    *own.borrow_mut() = Some(watch.unwrap());
    // Returns, as nothing is submitted any more.
    events.run().unwrap();
    assert!(own.borrow().is_none());
});

isolated!(what_keeps_answers_from_coming_is_told, {
    // Nobody is there; then one who says nothing; then one who refuses.
    assert_eq!(usage().unwrap_err().errno(), libc::ENOTCONN);
    assert!(matches!(watch(1)[0], Err(Error::NoDaemon)));
    let request = CONSORT_USAGE;
    let silent = Daemon::with(Manner::Silent { request });
    assert!(matches!(watch(2)[1], Err(Error::NoAnswer { .. })));
    drop(silent);
    let errno = libc::ENOENT;
    let refusing = Daemon::with(Manner::Refuse { request, errno });
    for answer in watch(2) {
        assert_eq!(answer.unwrap_err().errno(), libc::ENOENT);
    }
    drop(refusing);
    for bytes in [4, size_of::<consort_reply>()] {
        let _short = Daemon::with(Manner::Short { bytes });
        assert_eq!(usage().unwrap_err().errno(), libc::EPROTO, "{bytes}");
    }
});

isolated!(periods_and_priorities_out_of_range_are_refused, {
    let mut events = EventLoop::new().unwrap();
    for period_ns in [0, PERIOD_NS - 1, 2 * consort::DUE_AHEAD_MAX_NS, u64::MAX] {
        let refused = events.watch_usage(period_ns, 0, |_, _| {}).unwrap_err();
        assert!(matches!(refused, Error::UsagePeriod { .. }), "{refused}");
        assert_eq!(refused.errno(), libc::EINVAL);
    }
    let priority = consort::PRIORITY_MAX + 1;
    assert!(events.watch_usage(PERIOD_NS, priority, |_, _| {}).is_err());
    let idle = events.event(|_| {});
    events.submit(idle, When::Due { due_ns: 0 }).unwrap();
    events.run().unwrap();
});
