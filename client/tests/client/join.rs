// SPDX-License-Identifier: MIT OR Apache-2.0
//! Joining and leaving: what is said to the daemon, what is refused before.

use crate::daemon::{connect_now, domain_of, listen, Daemon, Manner, REFUSAL};
use crate::process::isolated;
use consort::{Domain, Error, Next, Order, Standing, NEVER, SLOTS};
use consort_abi::*;
use std::sync::{Arc, Barrier};

fn busy() -> Next {
    Next {
        due_ns: NEVER,
        best_effort: Some((1, 0)),
    }
}

fn slack_ns() -> i32 {
    unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) }
}

isolated!(says_what_the_domain_is_like, {
    let daemon = Daemon::start();
    let member = Domain::named("studio")
        .event_ns(1_000_000)
        .order(Order::Progress)
        .preempt(true)
        .join()
        .unwrap();
    assert_eq!(member.others().unwrap().standing(), Standing::Member);
    let join = daemon.requests_of(CONSORT_JOIN)[0];
    assert_eq!(domain_of(&join), "studio");
    assert_eq!(join.event_ns, 1_000_000);
    assert_eq!(join.order, CONSORT_ORDER_PROGRESS);
    assert_eq!(join.flags, CONSORT_JOIN_PREEMPT);
    assert_eq!(join.slot, 0);
    assert_eq!(join.tid, unsafe { libc::gettid() });
    member.leave().unwrap();
    let leave = daemon.requests_of(CONSORT_LEAVE)[0];
    assert_eq!((leave.slot, leave.tid), (0, join.tid));
});

isolated!(a_private_domain_has_no_name, {
    let daemon = Daemon::start();
    let _member = Domain::private().join().unwrap();
    assert_eq!(domain_of(&daemon.requests_of(CONSORT_JOIN)[0]), "");
});

isolated!(the_user_chooses_the_domain_of_who_names_none, {
    let daemon = Daemon::start();
    std::env::set_var("CONSORT_DOMAIN", "chosen");
    Domain::private().join().unwrap().leave().unwrap();
    Domain::named("own").join().unwrap().leave().unwrap();
    std::env::set_var("CONSORT_DOMAIN", "no/name");
    let error = Domain::private().join().map(drop).unwrap_err();
    assert_eq!(error.errno(), libc::EINVAL);
    let joins = daemon.requests_of(CONSORT_JOIN);
    let names: Vec<_> = joins.iter().map(domain_of).collect();
    assert_eq!(names, ["chosen", "own"]);
});

isolated!(one_page_serves_all_threads, {
    let daemon = Daemon::start();
    let _mine = Domain::named("a").join().unwrap();
    std::thread::spawn(|| {
        let member = Domain::named("b").join().unwrap();
        member.poll(busy()).unwrap();
    })
    .join()
    .unwrap();
    assert_eq!(daemon.pages(), 1);
    let slots: Vec<u32> = daemon
        .requests_of(CONSORT_JOIN)
        .iter()
        .map(|join| join.slot)
        .collect();
    assert_eq!(slots, [0, 1]);
});

isolated!(a_second_join_is_refused_until_leaving, {
    let daemon = Daemon::start();
    let member = Domain::named("a").join().unwrap();
    let second = Domain::named("b").join().err().unwrap();
    assert!(matches!(second, Error::AlreadyMember));
    assert_eq!(second.errno(), libc::EEXIST);
    member.leave().unwrap();
    let again = Domain::named("b").join().unwrap();
    drop(again);
    assert_eq!(daemon.requests_of(CONSORT_JOIN).len(), 2);
    assert_eq!(daemon.requests_of(CONSORT_LEAVE).len(), 2);
});

isolated!(names_and_options_out_of_range_never_reach_the_daemon, {
    let daemon = Daemon::start();
    let errno = |domain: Domain| domain.join().err().unwrap().errno();
    assert_eq!(errno(Domain::named("x".repeat(64))), libc::ENAMETOOLONG);
    assert_eq!(errno(Domain::named("a/b")), libc::EINVAL);
    assert_eq!(errno(Domain::named("a\nb")), libc::EINVAL);
    assert_eq!(errno(Domain::named("a\u{7f}")), libc::EINVAL);
    assert_eq!(errno(Domain::named("a\0b")), libc::EINVAL);
    assert_eq!(errno(Domain::named("a").event_ns(9_999)), libc::EINVAL);
    assert_eq!(errno(Domain::named("a").event_ns(2_000_001)), libc::EINVAL);
    assert!(daemon.requests().is_empty());
    let longest = "x".repeat(63);
    let _member = Domain::named(&longest).event_ns(10_000).join().unwrap();
    assert_eq!(domain_of(&daemon.requests_of(CONSORT_JOIN)[0]), longest);
});

isolated!(more_threads_than_slots_are_refused, {
    let daemon = Daemon::start();
    let full = Arc::new(Barrier::new(SLOTS + 1));
    let done = Arc::new(Barrier::new(SLOTS + 1));
    let threads: Vec<_> = (0..SLOTS)
        .map(|_| {
            let (full, done) = (Arc::clone(&full), Arc::clone(&done));
            std::thread::spawn(move || {
                let member = Domain::named("crowd").join().unwrap();
                full.wait();
                done.wait();
                member.leave().unwrap();
            })
        })
        .collect();
    full.wait();
    let error = Domain::named("crowd").join().err().unwrap();
    done.wait();
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(matches!(error, Error::NoFreeSlot));
    assert_eq!(error.errno(), libc::EAGAIN);
    let mut slots: Vec<u32> = daemon
        .requests_of(CONSORT_JOIN)
        .iter()
        .map(|join| join.slot)
        .collect();
    slots.sort_unstable();
    assert_eq!(slots, (0..SLOTS as u32).collect::<Vec<_>>());
    let _room_again = Domain::named("crowd").join().unwrap();
});

isolated!(a_thread_that_ends_leaves, {
    let daemon = Daemon::start();
    let tid = std::thread::spawn(|| {
        let member = Domain::named("a").join().unwrap();
        member.poll(busy()).unwrap();
        std::mem::forget(member);
        unsafe { libc::gettid() }
    })
    .join()
    .unwrap();
    // Answered in order: when this join is answered, the leave before it has been read.
    let _member = Domain::named("a").join().unwrap();
    let leaves = daemon.requests_of(CONSORT_LEAVE);
    assert_eq!(leaves.len(), 1);
    assert_eq!((leaves[0].tid, leaves[0].slot), (tid, 0));
    assert_eq!(daemon.requests_of(CONSORT_JOIN)[1].slot, 0);
    let slot = daemon.page(0).slot(0);
    assert_eq!(slot.due_ns, NEVER);
    assert_eq!(slot.priority, CONSORT_PRIORITY_NONE);
});

isolated!(timer_slack_is_least_while_a_member, {
    let _daemon = Daemon::start();
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 123_456, 0, 0, 0) };
    let member = Domain::named("a").join().unwrap();
    assert_eq!(slack_ns(), 1);
    member.leave().unwrap();
    assert_eq!(slack_ns(), 123_456);
});

// A quota, a container or another version is no reason not to run: without a daemon the program would.
isolated!(a_program_that_is_not_let_in_runs_alone_and_says_why, {
    for (request, errno) in [
        (CONSORT_JOIN, libc::EDQUOT),
        (CONSORT_JOIN, libc::ESRCH),
        (CONSORT_HELLO, libc::EPERM),
        (CONSORT_HELLO, libc::EPROTO),
    ] {
        let daemon = Daemon::with(Manner::Refuse { request, errno });
        let member = Domain::named("a").join().unwrap();
        let (why, text) = member.why_alone().expect("a reason");
        assert_eq!(why, errno);
        assert!(text.contains(REFUSAL), "{text}");
        assert_eq!(member.poll(busy()).unwrap().standing(), Standing::Outside);
        assert_eq!(slack_ns(), 1);
        member.leave().unwrap();
        // The slot is free again, and the thread may try again.
        Domain::named("a").join().unwrap().leave().unwrap();
        let joins = daemon.requests_of(CONSORT_JOIN);
        assert!(joins.iter().all(|join| join.slot == 0));
    }
});

isolated!(who_is_let_in_later_has_no_reason_any_more, {
    let daemon = Daemon::with(Manner::Refuse {
        request: CONSORT_JOIN,
        errno: libc::EDQUOT,
    });
    let member = Domain::named("a").join().unwrap();
    assert!(member.why_alone().is_some());
    drop(daemon);
    let _daemon = Daemon::start();
    let mut now_ns = consort::now_ns();
    while member.others().unwrap().standing() != Standing::Member {
        now_ns += 250_000_000;
        member.poll_at(busy(), now_ns).unwrap();
        std::thread::yield_now();
    }
    assert_eq!(member.why_alone(), None);
});

// What the program does wrong itself, it is told.
isolated!(the_daemons_reason_reaches_the_caller, {
    for errno in [libc::EINVAL, libc::ERANGE] {
        let _daemon = Daemon::with(Manner::Refuse {
            request: CONSORT_JOIN,
            errno,
        });
        let error = Domain::named("a").join().err().unwrap();
        assert_eq!(error.errno(), errno);
        assert!(error.to_string().contains(REFUSAL), "{error}");
        assert_ne!(slack_ns(), 1);
    }
});

// A daemon to which many are about to connect is there: a thread that joins waits for it.
isolated!(a_full_backlog_is_no_absence, {
    let listener = listen();
    let mut waiting = Vec::new();
    while let Some(connection) = connect_now() {
        waiting.push(connection);
    }
    assert!(!waiting.is_empty());
    let member = std::thread::spawn(|| {
        let member = Domain::named("a").join().unwrap();
        member.others().unwrap().standing()
    });
    // It cannot be seen when the thread waits; if it does not yet, this shows nothing, and breaks nothing.
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert!(!member.is_finished());
    let _daemon = Daemon::on(listener, Manner::Honest);
    assert_eq!(member.join().unwrap(), Standing::Member);
});

isolated!(a_later_daemon_is_spoken_to_in_its_version, {
    let daemon = Daemon::with(Manner::Later);
    let member = Domain::named("a").join().unwrap();
    assert_eq!(member.why_alone(), None);
    assert_eq!(member.others().unwrap().standing(), Standing::Member);
    member.leave().unwrap();
    assert_eq!(daemon.requests_of(CONSORT_LEAVE).len(), 1);
});

isolated!(without_a_daemon_a_member_is_alone, {
    let member = Domain::named("a").join().unwrap();
    let others = member.poll(busy()).unwrap();
    assert_eq!(others.standing(), Standing::Outside);
    assert_eq!(others.yield_by_ns, NEVER);
    assert_eq!(others.best_effort(), None);
    let due_ns = consort::now_ns() + 2_000_000;
    member.poll(Next::due(due_ns)).unwrap();
    assert!(consort::now_ns() >= due_ns);
    member.leave().unwrap();
});

isolated!(a_socket_path_that_cannot_be_is_an_error, {
    std::env::set_var("CONSORT_SOCKET", "x".repeat(200));
    let error = Domain::named("a").join().err().unwrap();
    assert_eq!(error.errno(), libc::ENAMETOOLONG);
});
