// SPDX-License-Identifier: MIT OR Apache-2.0
//! Polls: what the slot says, and when the kernel is entered. `poll_seq` counts exactly that.

use crate::daemon::{Daemon, Page};
use crate::process::isolated;
use consort::{Domain, Epoll, Member, Next, Order, Standing, NEVER, PRIORITY_MAX};
use consort_abi::*;
use std::sync::Arc;

const HOUR_NS: u64 = 3600 * 1_000_000_000;

fn joined(order: Order) -> (Daemon, Arc<Page>, Member) {
    let daemon = Daemon::start();
    let member = Domain::named("a").order(order).join().unwrap();
    let page = daemon.page(0);
    (daemon, page, member)
}

fn best_effort(priority: u32, key: u64) -> Next {
    Next {
        due_ns: NEVER,
        best_effort: Some((priority, key)),
    }
}

/// Whether the poll entered the kernel.
fn enters(page: &Page, member: &Member, next: Next, now_ns: u64) -> bool {
    let before = page.slot(0).poll_seq;
    member.poll_at(next, now_ns).unwrap();
    let after = page.slot(0);
    assert_eq!(after.intent, CONSORT_RUNNING);
    match after.poll_seq.wrapping_sub(before) {
        0 => false,
        1 => true,
        more => panic!("one poll entered the kernel {more} times"),
    }
}

isolated!(publishes_and_reads_back, {
    let (_daemon, page, member) = joined(Order::Program);
    let now_ns = consort::now_ns();
    page.answer(0, |slot| {
        slot.yield_by_ns = now_ns + HOUR_NS;
        slot.other_due_ns = 11;
        slot.other_priority = 9;
        slot.other_key = 13;
        slot.standing = CONSORT_DEMOTED;
    });
    let next = Next {
        due_ns: now_ns + 5,
        best_effort: Some((7, 8)),
    };
    let others = member.poll_at(next, now_ns).unwrap();
    let slot = page.slot(0);
    assert_eq!((slot.due_ns, slot.priority, slot.key), (now_ns + 5, 7, 8));
    assert_eq!(others.yield_by_ns, now_ns + HOUR_NS);
    assert_eq!(others.due_ns, 11);
    assert_eq!(others.best_effort(), Some((9, 13)));
    assert_eq!(others.standing(), Standing::Demoted);
    assert_eq!(member.others().unwrap(), others);
});

isolated!(enters_the_kernel_only_for_the_more_urgent, {
    let (_daemon, page, member) = joined(Order::Program);
    let now_ns = consort::now_ns();
    assert!(!enters(&page, &member, best_effort(5, 50), now_ns));

    page.answer(0, |slot| slot.yield_by_ns = now_ns + 1000);
    assert!(!enters(&page, &member, best_effort(5, 50), now_ns + 999));
    assert!(enters(&page, &member, best_effort(5, 50), now_ns + 1000));

    page.answer(0, |slot| {
        slot.yield_by_ns = NEVER;
        slot.other_priority = 5;
        slot.other_key = 50;
    });
    assert!(!enters(&page, &member, best_effort(5, 50), now_ns));
    assert!(!enters(&page, &member, best_effort(4, 99), now_ns));
    assert!(enters(&page, &member, best_effort(5, 51), now_ns));
    assert!(enters(&page, &member, best_effort(6, 0), now_ns));

    // An expired due event beats others' best-effort events, but not the yield-by time.
    let expired = Next {
        due_ns: now_ns,
        best_effort: Some((6, 0)),
    };
    assert!(!enters(&page, &member, expired, now_ns));
    assert!(!enters(&page, &member, Next::due(now_ns), now_ns));
    page.answer(0, |slot| slot.yield_by_ns = now_ns);
    assert!(enters(&page, &member, expired, now_ns));
    assert!(enters(&page, &member, Next::due(now_ns), now_ns));
});

isolated!(keys_that_the_scheduler_computes_are_not_compared, {
    let (_daemon, page, member) = joined(Order::Service);
    let now_ns = consort::now_ns();
    page.answer(0, |slot| {
        slot.other_priority = 0;
        slot.other_key = 0;
    });
    assert!(!enters(&page, &member, best_effort(5, 50), now_ns));
    page.answer(0, |slot| slot.yield_by_ns = now_ns);
    assert!(enters(&page, &member, best_effort(5, 50), now_ns));
});

isolated!(a_demoted_member_lets_the_kernel_see_its_polls, {
    let (_daemon, page, member) = joined(Order::Program);
    let now_ns = consort::now_ns();
    page.answer(0, |slot| {
        slot.yield_by_ns = now_ns + HOUR_NS;
        slot.standing = CONSORT_DEMOTED;
    });
    assert!(enters(&page, &member, best_effort(5, 50), now_ns));
    assert!(enters(&page, &member, Next::due(now_ns), now_ns));
    page.answer(0, |slot| slot.standing = CONSORT_MEMBER);
    assert!(!enters(&page, &member, best_effort(5, 50), now_ns));
});

isolated!(sleeps_until_due_with_nothing_else_to_do, {
    let (_daemon, page, member) = joined(Order::Program);
    let due_ns = consort::now_ns() + 3_000_000;
    assert!(enters(&page, &member, Next::due(due_ns), consort::now_ns()));
    assert!(consort::now_ns() >= due_ns);
});

isolated!(says_that_it_sleeps_and_wakes_for_a_file_descriptor, {
    let (_daemon, page, member) = joined(Order::Program);
    let (epoll_fd, event_fd) = unsafe { (libc::epoll_create1(0), libc::eventfd(0, 0)) };
    let mut wanted = libc::epoll_event {
        events: libc::EPOLLIN as u32,
        u64: 42,
    };
    unsafe { libc::epoll_ctl(epoll_fd, libc::EPOLL_CTL_ADD, event_fd, &mut wanted) };
    let waker = std::thread::spawn({
        let page = Arc::clone(&page);
        move || {
            while page.slot(0).intent != CONSORT_SLEEPING {
                std::thread::yield_now();
            }
            let slot = page.slot(0);
            let one = 1u64;
            unsafe { libc::write(event_fd, std::ptr::from_ref(&one).cast(), 8) };
            (slot.poll_seq, slot.due_ns, slot.priority)
        }
    });
    let mut epoll = Epoll::new(epoll_fd, 4);
    let before = page.slot(0).poll_seq;
    member
        .poll_epoll(Next::due(NEVER), consort::now_ns(), &mut epoll)
        .unwrap();
    let ready = epoll.ready();
    assert_eq!(ready.len(), 1);
    assert_eq!({ ready[0].u64 }, 42);
    let seen = waker.join().unwrap();
    assert_eq!(seen, (before.wrapping_add(1), NEVER, CONSORT_PRIORITY_NONE));
    assert_eq!(page.slot(0).intent, CONSORT_RUNNING);
});

isolated!(input_out_of_range_changes_nothing, {
    let (_daemon, page, member) = joined(Order::Program);
    let now_ns = consort::now_ns();
    member.poll_at(best_effort(3, 4), now_ns).unwrap();
    let before = page.slot(0);
    let errno = |next| member.poll_at(next, now_ns).err().unwrap().errno();
    assert_eq!(errno(best_effort(PRIORITY_MAX + 1, 0)), libc::EINVAL);
    assert_eq!(errno(best_effort(u32::MAX, 0)), libc::EINVAL);
    let too_far = now_ns + consort::DUE_AHEAD_MAX_NS + 1;
    assert_eq!(errno(Next::due(too_far)), libc::EINVAL);
    assert_eq!(errno(Next::due(NEVER - 1)), libc::EINVAL);
    let after = page.slot(0);
    assert_eq!(
        (after.due_ns, after.priority, after.key, after.poll_seq),
        (before.due_ns, 3, 4, before.poll_seq)
    );
    let for_ever = member.poll_at(Next::due(NEVER), now_ns).err().unwrap();
    assert_eq!(for_ever.errno(), libc::EINVAL);
    member
        .poll_at(best_effort(PRIORITY_MAX, u64::MAX), now_ns)
        .unwrap();
});

isolated!(a_slot_full_of_ones_does_no_harm, {
    let (_daemon, page, member) = joined(Order::Program);
    let now_ns = consort::now_ns();
    page.answer(0, |slot| {
        slot.yield_by_ns = u64::MAX;
        slot.other_due_ns = u64::MAX;
        slot.other_key = u64::MAX;
        slot.other_priority = u32::MAX;
        slot.standing = u32::MAX;
    });
    assert!(!enters(&page, &member, best_effort(5, 50), now_ns));
    let others = member.others().unwrap();
    assert_eq!(others.standing(), Standing::Outside);
    assert_eq!(others.best_effort(), None);
});
