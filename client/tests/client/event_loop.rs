// SPDX-License-Identifier: MIT OR Apache-2.0
//! The event loop on the real clock, with file descriptors, and on behalf of a member.

use crate::daemon::Daemon;
use crate::process::isolated;
use consort::{Domain, Error, EventLoop, Interest, Standing, When, NEVER};
use consort_abi::*;
use std::cell::RefCell;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::rc::Rc;

type Log = Rc<RefCell<Vec<&'static str>>>;

fn pipe() -> (File, File) {
    let mut ends = [0; 2];
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1]))
    }
}

fn readable(end: &File, priority: u32) -> When {
    When::Ready {
        fd: end.as_raw_fd(),
        interest: Interest::READ,
        priority,
        key: 0,
    }
}

fn best_effort(priority: u32) -> When {
    When::BestEffort { priority, key: 0 }
}

fn logging(log: &Log, word: &'static str) -> impl FnMut(&mut EventLoop) {
    let log = Rc::clone(log);
    move |_| log.borrow_mut().push(word)
}

#[test]
fn an_empty_loop_returns_at_once() {
    EventLoop::new().unwrap().run().unwrap();
}

#[test]
fn a_due_event_never_runs_early() {
    let mut events = EventLoop::new().unwrap();
    let due_ns = consort::now_ns() + 2_000_000;
    let ran_at_ns = Rc::new(RefCell::new(0));
    let event = events.event({
        let ran_at_ns = Rc::clone(&ran_at_ns);
        move |events| *ran_at_ns.borrow_mut() = events.now_ns()
    });
    assert!(events.submit(event, When::Due { due_ns }).unwrap());
    assert!(!events.submit(event, When::Due { due_ns: 0 }).unwrap());
    events.run().unwrap();
    assert!(*ran_at_ns.borrow() >= due_ns);
}

#[test]
fn stop_ends_the_run_and_keeps_the_rest() {
    let log = Log::default();
    let mut events = EventLoop::new().unwrap();
    let first = events.event(|events| events.stop());
    let second = events.event(logging(&log, "second"));
    events.submit(first, best_effort(0)).unwrap();
    events.submit(second, best_effort(1)).unwrap();
    events.run().unwrap();
    assert!(log.borrow().is_empty());
    events.stop();
    events.run().unwrap();
    assert!(log.borrow().is_empty(), "a stop beforehand counts");
    events.run().unwrap();
    assert_eq!(*log.borrow(), ["second"]);
}

#[test]
fn misuse_has_a_name() {
    let mut events = EventLoop::new().unwrap();
    let nested = events.event(|events| assert!(matches!(events.run(), Err(Error::Running))));
    let errno = |events: &mut EventLoop, when| events.submit(nested, when).err().unwrap().errno();
    let too_far = consort::now_ns() * 2 + consort::DUE_AHEAD_MAX_NS;
    let nothing = When::Ready {
        fd: 0,
        interest: Interest(0),
        priority: 0,
        key: 0,
    };
    assert_eq!(errno(&mut events, best_effort(u32::MAX)), libc::EINVAL);
    assert_eq!(
        errno(&mut events, When::Due { due_ns: too_far }),
        libc::EINVAL
    );
    assert_eq!(errno(&mut events, nothing), libc::EINVAL);
    events.submit(nested, best_effort(0)).unwrap();
    events.run().unwrap();
    events.remove(nested);
    events.remove(nested);
    assert_eq!(errno(&mut events, best_effort(0)), libc::ENOENT);
}

#[test]
fn a_callback_may_remove_its_own_event() {
    let mut events = EventLoop::new().unwrap();
    let own = Rc::new(RefCell::new(None));
    let dropped = Rc::new(());
    let event = events.event({
        let (own, dropped) = (Rc::clone(&own), Rc::clone(&dropped));
        move |events| {
            let _held = &dropped;
            events.remove(own.borrow().unwrap());
        }
    });
    *own.borrow_mut() = Some(event);
    events.submit(event, best_effort(0)).unwrap();
    events.run().unwrap();
    assert_eq!(Rc::strong_count(&dropped), 1, "the callback is gone");
}

#[test]
fn ready_descriptors_run_by_priority_among_the_others() {
    let log = Log::default();
    let mut events = EventLoop::new().unwrap();
    events.set_fd_interval_ns(0);
    let (low, mut low_in) = pipe();
    let (high, mut high_in) = pipe();
    low_in.write_all(b"x").unwrap();
    high_in.write_all(b"x").unwrap();
    let words = [
        ("low fd", readable(&low, 9)),
        ("event", best_effort(5)),
        ("high fd", readable(&high, 1)),
    ];
    for (word, when) in words {
        let event = events.event(logging(&log, word));
        events.submit(event, when).unwrap();
    }
    events.run().unwrap();
    assert_eq!(*log.borrow(), ["high fd", "event", "low fd"]);
}

#[test]
fn a_descriptor_event_runs_once_a_submission() {
    let log = Log::default();
    let mut events = EventLoop::new().unwrap();
    let (mut end, mut other) = pipe();
    other.write_all(b"ab").unwrap();
    let name = Rc::new(RefCell::new(None));
    let event = events.event({
        let (log, name, fd) = (Rc::clone(&log), Rc::clone(&name), end.as_raw_fd());
        move |events| {
            let own = name.borrow().unwrap();
            assert_eq!(events.ready(own), libc::EPOLLIN as u32);
            log.borrow_mut().push("ready");
            if log.borrow().len() < 3 {
                let interest = Interest::READ;
                let when = When::Ready {
                    fd,
                    interest,
                    priority: 0,
                    key: 0,
                };
                events.submit(own, when).unwrap();
            }
        }
    });
    *name.borrow_mut() = Some(event);
    events.submit(event, readable(&end, 0)).unwrap();
    events.run().unwrap();
    assert_eq!(log.borrow().len(), 3, "still readable, yet not asked again");
    assert_eq!(events.ready(event), 0);
    let mut both = [0; 2];
    end.read_exact(&mut both).unwrap();
}

#[test]
fn a_busy_loop_looks_at_descriptors_too() {
    let mut events = EventLoop::new().unwrap();
    events.set_fd_interval_ns(0);
    let (end, mut other) = pipe();
    let busy_name = Rc::new(RefCell::new(None));
    let turns = Rc::new(RefCell::new(0));
    let busy = events.event({
        let (name, turns) = (Rc::clone(&busy_name), Rc::clone(&turns));
        move |events| {
            *turns.borrow_mut() += 1;
            if *turns.borrow() == 10 {
                other.write_all(b"x").unwrap();
            }
            events
                .submit(name.borrow().unwrap(), best_effort(5))
                .unwrap();
        }
    });
    *busy_name.borrow_mut() = Some(busy);
    let ready = events.event(|events| events.stop());
    events.submit(busy, best_effort(5)).unwrap();
    events.submit(ready, readable(&end, 1)).unwrap();
    events.run().unwrap();
    assert_eq!(*turns.borrow(), 10);
}

#[test]
fn waits_for_descriptors_alone_and_for_both() {
    let log = Log::default();
    let mut events = EventLoop::new().unwrap();
    let (end, mut other) = pipe();
    let ready = events.event(logging(&log, "ready"));
    let due = events.event({
        let log = Rc::clone(&log);
        move |_| {
            log.borrow_mut().push("due");
            other.write_all(b"x").unwrap();
        }
    });
    events.submit(ready, readable(&end, 0)).unwrap();
    let due_ns = consort::now_ns() + 1_000_000;
    events.submit(due, When::Due { due_ns }).unwrap();
    events.run().unwrap();
    assert_eq!(*log.borrow(), ["due", "ready"]);
    // Now without a due time; the other end hangs up, which is ready as well.
    events.submit(ready, readable(&end, 0)).unwrap();
    events.remove(due);
    events.run().unwrap();
    assert_eq!(*log.borrow(), ["due", "ready", "ready"]);
}

#[test]
fn a_descriptor_belongs_to_one_submitted_event() {
    let mut events = EventLoop::new().unwrap();
    let (end, mut other) = pipe();
    other.write_all(b"x").unwrap();
    let log = Log::default();
    let first = events.event(logging(&log, "first"));
    let second = events.event(logging(&log, "second"));
    events.submit(first, readable(&end, 0)).unwrap();
    let taken = events.submit(second, readable(&end, 0)).err().unwrap();
    assert_eq!(taken.errno(), libc::EEXIST);
    assert!(!events.is_submitted(second));
    events.run().unwrap();
    // The first has run: the second may have it now, and the first then not.
    events.submit(second, readable(&end, 0)).unwrap();
    let taken = events.submit(first, readable(&end, 0)).err().unwrap();
    assert_eq!(taken.errno(), libc::EEXIST);
    events.run().unwrap();
    assert_eq!(*log.borrow(), ["first", "second"]);
}

#[test]
fn cancelled_descriptors_are_forgotten() {
    let mut events = EventLoop::new().unwrap();
    let (end, mut other) = pipe();
    other.write_all(b"x").unwrap();
    let event = events.event(|_| panic!("runs though cancelled"));
    events.submit(event, readable(&end, 0)).unwrap();
    events.cancel(event);
    events.cancel(event);
    events.run().unwrap();
    drop((end, other));
    // The next pipe gets the same numbers.
    let (end, mut other) = pipe();
    other.write_all(b"x").unwrap();
    let log = Log::default();
    let next = events.event(logging(&log, "next"));
    events.submit(next, readable(&end, 0)).unwrap();
    events.remove(event);
    events.run().unwrap();
    assert_eq!(*log.borrow(), ["next"]);
}

#[test]
fn what_epoll_does_not_take_is_an_error() {
    let mut events = EventLoop::new().unwrap();
    let event = events.event(|_| {});
    let file = File::open("/proc/self/exe").unwrap();
    let error = events.submit(event, readable(&file, 0)).err().unwrap();
    assert_eq!(error.errno(), libc::EPERM);
    let closed = When::Ready {
        fd: -1,
        interest: Interest::READ,
        priority: 0,
        key: 0,
    };
    let error = events.submit(event, closed).err().unwrap();
    assert_eq!(error.errno(), libc::EBADF);
    events.run().unwrap();
}

isolated!(polls_on_behalf_of_its_member, {
    let daemon = Daemon::start();
    let member = Domain::named("a").join().unwrap();
    let page = daemon.page(0);
    let mut events = EventLoop::for_member(member).unwrap();
    let far_ns = consort::now_ns() + 3_600_000_000_000;
    let far = events.event(|_| {});
    events.submit(far, When::Due { due_ns: far_ns }).unwrap();
    let name = Rc::new(RefCell::new(None));
    let seqs = Rc::new(RefCell::new(Vec::new()));
    let busy = events.event({
        let (name, seqs, page) = (Rc::clone(&name), Rc::clone(&seqs), page.clone());
        move |events| {
            let slot = page.slot(0);
            assert_eq!((slot.due_ns, slot.priority, slot.key), (far_ns, 5, 0));
            seqs.borrow_mut().push(slot.poll_seq);
            match seqs.borrow().len() {
                3 => page.answer(0, |slot| slot.yield_by_ns = 1),
                4 => page.answer(0, |slot| {
                    slot.yield_by_ns = NEVER;
                    slot.other_priority = 4;
                }),
                5 => page.answer(0, |slot| {
                    slot.other_priority = 6;
                    slot.standing = CONSORT_DEMOTED;
                }),
                6 => page.answer(0, |slot| slot.standing = CONSORT_MEMBER),
                7 => return events.stop(),
                _ => {}
            }
            events
                .submit(name.borrow().unwrap(), best_effort(5))
                .unwrap();
        }
    });
    *name.borrow_mut() = Some(busy);
    events.submit(busy, best_effort(5)).unwrap();
    events.run().unwrap();
    // Into the kernel after the third (yield-by time brought forward), the fourth (the others' event is more
    // important) and the fifth (demoted), not after the others.
    let first = seqs.borrow()[0];
    let entered: Vec<u32> = seqs.borrow().iter().map(|seq| seq - first).collect();
    assert_eq!(entered, [0, 0, 0, 1, 2, 3, 3]);
    drop(events);
    assert_eq!(daemon.requests_of(CONSORT_LEAVE).len(), 1);
});

isolated!(joins_by_itself_though_too_busy_to_poll, {
    let member = Domain::named("late").join().unwrap();
    let daemon = Daemon::start();
    let mut events = EventLoop::for_member(member).unwrap();
    let name = Rc::new(RefCell::new(None));
    let busy = events.event({
        let name = Rc::clone(&name);
        move |events| match events.others().unwrap().standing() {
            Standing::Member => events.stop(),
            _ => {
                let own = name.borrow().unwrap();
                events.submit(own, best_effort(5)).unwrap();
            }
        }
    });
    *name.borrow_mut() = Some(busy);
    events.submit(busy, best_effort(5)).unwrap();
    events.run().unwrap();
    assert_eq!(daemon.requests_of(CONSORT_JOIN).len(), 1);
});

isolated!(does_not_run_in_a_child, {
    let mut events = EventLoop::new().unwrap();
    let event = events.event(|_| {});
    events.submit(event, best_effort(0)).unwrap();
    let child = unsafe { libc::fork() };
    if child == 0 {
        let told = matches!(events.run(), Err(Error::Forked));
        unsafe { libc::_exit(i32::from(!told)) };
    }
    let mut status = 0;
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(status, 0);
});

#[test]
fn other_threads_wake_a_loop() {
    let mut events = EventLoop::new().unwrap();
    let woken = Rc::new(RefCell::new(0));
    let event = Rc::new(RefCell::new(None));
    let (waker, own) = events
        .waker(5, {
            let (woken, event) = (Rc::clone(&woken), Rc::clone(&event));
            move |events| {
                *woken.borrow_mut() += 1;
                if *woken.borrow() == 2 {
                    events.remove(event.borrow().unwrap());
                }
            }
        })
        .unwrap();
    *event.borrow_mut() = Some(own);
    // Woken three times before it runs: once is all.
    (0..3).for_each(|_| waker.wake());
    let other = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(20));
        waker.wake();
    });
    events.run().unwrap();
    assert_eq!(*woken.borrow(), 2);
    other.join().unwrap();
}

/// As a loop of another library would.
fn run_outside(events: &mut EventLoop, until: impl Fn() -> bool) {
    while !until() {
        let left_ns = events.next_due_ns().saturating_sub(consort::now_ns());
        let timeout_ms = i32::try_from(left_ns.div_ceil(1_000_000))
            .unwrap_or(1000)
            .min(1000);
        let mut poll = libc::pollfd {
            fd: events.fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        unsafe { libc::poll(&mut poll, 1, timeout_ms) };
        events.run_ready().unwrap();
    }
}

#[test]
fn a_loop_runs_inside_another_loop() {
    let mut events = EventLoop::new().unwrap();
    assert_eq!(events.next_due_ns(), NEVER);
    let (read, mut write) = pipe();
    let log = Log::default();
    let due = events.event(logging(&log, "due"));
    let ready = events.event(logging(&log, "ready"));
    let due_ns = consort::now_ns() + 3_000_000;
    events.submit(due, When::Due { due_ns }).unwrap();
    events.submit(ready, readable(&read, 1)).unwrap();
    assert_eq!(events.next_due_ns(), due_ns);
    // Nothing to do yet: it returns.
    events.run_ready().unwrap();
    assert!(log.borrow().is_empty() || consort::now_ns() >= due_ns);
    run_outside(&mut events, || log.borrow().len() == 1);
    assert_eq!(*log.borrow(), ["due"]);
    write.write_all(b"x").unwrap();
    run_outside(&mut events, || log.borrow().len() == 2);
    assert_eq!(*log.borrow(), ["due", "ready"]);
    let at_once = events.event(logging(&log, "best effort"));
    events.submit(at_once, best_effort(1)).unwrap();
    assert!(events.next_due_ns() <= consort::now_ns());
    events.run_ready().unwrap();
    assert_eq!(log.borrow().len(), 3);
}

isolated!(a_members_loop_inside_another_loop_sleeps_as_in_a_poll, {
    let daemon = Daemon::start();
    let member = Domain::named("a").join().unwrap();
    let mut events = EventLoop::for_member(member).unwrap();
    let page = daemon.page(0);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let event = events.event({
        let (seen, page) = (Rc::clone(&seen), std::sync::Arc::clone(&page));
        move |_| seen.borrow_mut().push(page.slot(0).intent)
    });
    let due_ns = consort::now_ns() + 2_000_000;
    events.submit(event, When::Due { due_ns }).unwrap();
    events.run_ready().unwrap();
    if seen.borrow().is_empty() {
        let slot = page.slot(0);
        assert_eq!((slot.intent, slot.due_ns), (CONSORT_SLEEPING, due_ns));
        assert!(slot.poll_seq > 0);
    }
    run_outside(&mut events, || !seen.borrow().is_empty());
    assert_eq!(*seen.borrow(), [CONSORT_RUNNING]);
    assert_eq!(page.slot(0).intent, CONSORT_SLEEPING);
});
