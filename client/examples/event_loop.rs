// SPDX-License-Identifier: MIT OR Apache-2.0
//! An event loop with all three kinds of events: a tick that is due every 5 ms, background work that runs when
//! nothing else does, and a socket that is read when there is something in it.

use consort::{now_ns, Domain, Event, EventLoop, Interest, When};
use std::cell::{Cell, RefCell};
use std::error::Error;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;

const TICKS: u32 = 10;
const TICK_NS: u64 = 5_000_000;

// Smaller numbers run first.
const PRIORITY_INPUT: u32 = 1;
const PRIORITY_BACKGROUND: u32 = 10;

#[derive(Default)]
struct Counts {
    ticks: Cell<u32>,
    chunks: Cell<u64>,
    bytes: Cell<usize>,
}

/// An event whose callback submits it again as it says.
fn repeating(
    events: &mut EventLoop,
    mut work: impl FnMut(&mut EventLoop) -> Option<When> + 'static,
) -> Event {
    let own: Rc<RefCell<Option<Event>>> = Rc::default();
    let event = events.event({
        let own = Rc::clone(&own);
        move |events| {
            if let (Some(when), Some(own)) = (work(events), *own.borrow()) {
                if let Err(error) = events.submit(own, when) {
                    eprintln!("event_loop: {error}");
                    events.stop();
                }
            }
        }
    });
    *own.borrow_mut() = Some(event);
    event
}

fn main() -> Result<(), Box<dyn Error>> {
    let member = Domain::named("studio").event_ns(1_000_000).join()?;
    let mut events = EventLoop::for_member(member)?;
    let counts = Rc::new(Counts::default());
    let (mut near, mut far) = UnixStream::pair()?;

    let mut due_ns = now_ns() + TICK_NS;
    let first_due = When::Due { due_ns };
    let tick = repeating(&mut events, {
        let counts = Rc::clone(&counts);
        move |events| {
            counts.ticks.set(counts.ticks.get() + 1);
            if far.write_all(b"x").is_err() || counts.ticks.get() == TICKS {
                events.stop();
                return None;
            }
            due_ns += TICK_NS;
            Some(When::Due { due_ns })
        }
    });

    let background = repeating(&mut events, {
        let counts = Rc::clone(&counts);
        move |_| {
            // One chunk of work, at most a millisecond. Older work first: the key.
            counts.chunks.set(counts.chunks.get() + 1);
            std::thread::sleep(std::time::Duration::from_micros(100));
            Some(When::BestEffort {
                priority: PRIORITY_BACKGROUND,
                key: counts.chunks.get(),
            })
        }
    });

    let readable = When::Ready {
        fd: near.as_raw_fd(),
        interest: Interest::READ,
        priority: PRIORITY_INPUT,
        key: 0,
    };
    let input = repeating(&mut events, {
        let counts = Rc::clone(&counts);
        move |_| {
            let got = near.read(&mut [0; 16]).unwrap_or(0);
            counts.bytes.set(counts.bytes.get() + got);
            (got > 0).then_some(readable)
        }
    });

    events.submit(tick, first_due)?;
    events.submit(
        background,
        When::BestEffort {
            priority: PRIORITY_BACKGROUND,
            key: 0,
        },
    )?;
    events.submit(input, readable)?;
    events.run()?;
    println!(
        "{} ticks, {} bytes read, background work ran: {}",
        counts.ticks.get(),
        counts.bytes.get(),
        if counts.chunks.get() > 0 { "yes" } else { "no" }
    );
    Ok(())
}
