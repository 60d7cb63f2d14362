// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a program is told of its own reservation.

use super::*;
use consort::{Error, EventLoop, Reservation, Usage, When};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

const PERIOD_NS: u64 = 200_000_000;
const PATIENCE_NS: u64 = 10_000_000_000;

/// An event loop is told what its program uses, and when the reservation is gone.
pub fn told_while_it_runs() -> Outcome {
    await_no_reservations()?;
    let text = |error: Error| error.to_string();
    let wanted = Reservation::in_class("guaranteed").rate(0.2);
    wanted.reserve().map_err(text)?;
    let stop = AtomicBool::new(false);
    let told = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let told = listen();
        stop.store(true, Ordering::Relaxed);
        told
    });
    let told = told.map_err(text)?;
    let Some((Err(end), before)) = told.split_last() else {
        return Err(format!("the end was not told: {told:?}"));
    };
    check!(end.errno() == libc::ENOENT, "the end is told as {end}");
    for usage in before {
        let usage = usage.as_ref().map_err(ToString::to_string)?;
        check!(
            usage.asked == 0.2 && usage.given == 0.5 && usage.threads >= 2,
            "{usage:?}"
        );
    }
    let last = before.last().and_then(|it| it.as_ref().ok());
    let used = last.and_then(|usage| usage.used[0]);
    check!(
        used.is_some_and(|rate| rate > 0.8),
        "alone on the CPU it uses {used:?}: {before:?}"
    );
    await_no_reservations()
}

/// Gives the reservation back once it is told what a second has used; until that is told, too.
fn listen() -> Result<Vec<Result<Usage, Error>>, Error> {
    let told = Rc::new(RefCell::new(Vec::new()));
    let notes = Rc::clone(&told);
    let mut events = EventLoop::new()?;
    let begun_ns = events.now_ns();
    let watch = events.watch_usage(PERIOD_NS, 0, move |events, outcome| {
        let is_over = outcome.is_err();
        let is_known = matches!(&outcome, Ok(usage) if usage.used[0].is_some());
        notes.borrow_mut().push(outcome);
        if is_over {
            events.stop();
        } else if is_known && events.now_ns() - begun_ns > 2_000_000_000 {
            if let Err(error) = consort::release() {
                notes.borrow_mut().push(Err(error));
                events.stop();
            }
        }
    })?;
    let gives_up = events.event(EventLoop::stop);
    let due_ns = begun_ns + PATIENCE_NS;
    events.submit(gives_up, When::Due { due_ns })?;
    events.run()?;
    events.end_usage_watch(watch);
    drop(events);
    Ok(Rc::into_inner(told).map_or_else(Vec::new, RefCell::into_inner))
}
