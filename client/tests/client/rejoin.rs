// SPDX-License-Identifier: MIT OR Apache-2.0
//! The daemon or the scheduler goes, and comes back. The tests move the clock that polls are told, so that
//! nothing depends on how fast this machine is.

use crate::daemon::{Daemon, Manner};
use crate::process::isolated;
use consort::{Domain, Member, Next, Standing, NEVER};
use consort_abi::*;
use std::sync::{Barrier, OnceLock};

const RETRY_NS: u64 = 250_000_000;

/// A member, and the clock that its polls are told.
struct Told<'a> {
    member: &'a Member,
    now_ns: u64,
}

impl Told<'_> {
    fn new(member: &Member) -> Told<'_> {
        Told {
            member,
            now_ns: consort::now_ns(),
        }
    }

    fn poll_after(&mut self, ns: u64) -> Standing {
        self.now_ns += ns;
        let busy = Next {
            due_ns: NEVER,
            best_effort: Some((1, 0)),
        };
        let others = self.member.poll_at(busy, self.now_ns).unwrap();
        others.standing()
    }

    /// Polls until the member is in, giving the daemon time to answer.
    fn until_member(&mut self) {
        while self.poll_after(RETRY_NS / 20) != Standing::Member {
            std::thread::yield_now();
        }
    }
}

isolated!(joins_by_itself_when_a_daemon_comes, {
    let member = Domain::named("late").join().unwrap();
    let mut told = Told::new(&member);
    assert_eq!(told.poll_after(RETRY_NS), Standing::Outside);
    let daemon = Daemon::start();
    assert_eq!(told.poll_after(RETRY_NS / 2), Standing::Outside);
    assert!(daemon.requests().is_empty(), "asked again too soon");
    told.until_member();
    let joins = daemon.requests_of(CONSORT_JOIN);
    assert_eq!(joins.len(), 1);
    assert_eq!(joins[0].tid, unsafe { libc::gettid() });
    member.leave().unwrap();
    assert_eq!(daemon.requests_of(CONSORT_LEAVE).len(), 1);
});

isolated!(is_alone_after_the_daemon_was_killed_and_joins_the_next, {
    let first = Daemon::start();
    let member = Domain::named("a").join().unwrap();
    let mut told = Told::new(&member);
    assert_eq!(told.poll_after(1), Standing::Member);
    let page = first.page(0);
    page.answer(0, |slot| slot.yield_by_ns = 0); // as a dead scheduler leaves it
    first.kill();
    assert_eq!(told.poll_after(2 * RETRY_NS), Standing::Outside);
    let frozen = page.slot(0).poll_seq;
    assert_eq!(told.poll_after(1), Standing::Outside);
    assert_eq!(page.slot(0).poll_seq, frozen, "still uses the old page");
    let second = Daemon::start();
    told.until_member();
    assert_eq!(second.pages(), 1);
    let now_ns = told.now_ns;
    second.page(0).answer(0, |slot| slot.yield_by_ns = now_ns);
    let before = second.page(0).slot(0).poll_seq;
    told.poll_after(1);
    assert_eq!(second.page(0).slot(0).poll_seq, before.wrapping_add(1));
});

isolated!(joins_anew_when_only_the_scheduler_went, {
    let daemon = Daemon::start();
    let member = Domain::named("a").join().unwrap();
    let mut told = Told::new(&member);
    daemon.page(0).set_attached(0);
    told.until_member();
    assert_eq!(daemon.pages(), 2, "a new connection has a new page");
});

isolated!(all_threads_of_a_program_come_back, {
    let first = Daemon::start();
    let barrier = Barrier::new(2);
    let second = OnceLock::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let member = Domain::named("b").join().unwrap();
            barrier.wait(); // both are in
            barrier.wait(); // the second daemon is there
            come_back(&member, second.get().unwrap());
            barrier.wait(); // both are back
        });
        let member = Domain::named("a").join().unwrap();
        barrier.wait();
        for slot in [0, 1] {
            // As a dead scheduler leaves it: polls enter the kernel, and look at the connection on the way.
            first.page(0).answer(slot, |slot| slot.yield_by_ns = 0);
        }
        first.kill();
        assert!(second.set(Daemon::start()).is_ok());
        barrier.wait();
        come_back(&member, second.get().unwrap());
        barrier.wait();
    });
    let second = second.get().unwrap();
    assert_eq!(second.pages(), 1);
    let mut slots: Vec<u32> = second
        .requests_of(CONSORT_JOIN)
        .iter()
        .map(|join| join.slot)
        .collect();
    slots.sort_unstable();
    assert_eq!(slots, [0, 1]);
});

/// Polls until the daemon has heard from this thread and let it in.
fn come_back(member: &Member, daemon: &Daemon) {
    let tid = unsafe { libc::gettid() };
    let mut told = Told::new(member);
    let has_asked = || {
        let joins = daemon.requests_of(CONSORT_JOIN);
        joins.iter().any(|join| join.tid == tid)
    };
    while !has_asked() {
        told.poll_after(2 * RETRY_NS);
        std::thread::yield_now();
    }
    told.until_member();
}

isolated!(a_daemon_that_hangs_up_leaves_the_member_alone, {
    let daemon = Daemon::with(Manner::HangUp {
        request: CONSORT_JOIN,
    });
    let member = Domain::named("a").join().unwrap();
    let mut told = Told::new(&member);
    for _ in 0..20 {
        assert_eq!(told.poll_after(RETRY_NS), Standing::Outside);
    }
    daemon.kill();
    let _honest = Daemon::start();
    told.until_member();
});

isolated!(a_daemon_that_does_not_answer_holds_nobody_up, {
    let daemon = Daemon::with(Manner::Silent {
        request: CONSORT_HELLO,
    });
    let member = Domain::named("a").join().unwrap();
    let mut told = Told::new(&member);
    for _ in 0..100 {
        assert_eq!(told.poll_after(RETRY_NS), Standing::Outside);
    }
    assert_eq!(daemon.requests_of(CONSORT_HELLO).len(), 1);
    daemon.kill();
    let _honest = Daemon::start();
    told.until_member();
});

isolated!(a_refusal_later_leaves_the_member_alone, {
    let member = Domain::named("a").join().unwrap();
    let refusing = Daemon::with(Manner::Refuse {
        request: CONSORT_JOIN,
        errno: libc::EPERM,
    });
    let mut told = Told::new(&member);
    while refusing.requests_of(CONSORT_JOIN).len() < 3 {
        assert_eq!(told.poll_after(RETRY_NS / 20), Standing::Outside);
    }
    let joins = refusing.requests_of(CONSORT_JOIN);
    assert!(joins.iter().all(|join| join.slot == 0), "slots leak");
});
