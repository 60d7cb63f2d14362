// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs join, leave, hang up and die, over a real socket.

mod common;

use std::sync::mpsc;

use common::{first_thread, gettid, join, leave, request, Daemon};
use consort_abi::{CONSORT_HELLO, CONSORT_JOIN_PREEMPT, CONSORT_ORDER_PROGRESS};

#[test]
fn a_thread_joins_a_new_domain_and_takes_it_along_when_it_leaves() {
    let daemon = Daemon::start();
    let program = daemon.hello();
    let mut wanted = join(gettid(), 3, "video");
    wanted.event_ns = 1_000_000;
    wanted.order = CONSORT_ORDER_PROGRESS;
    wanted.flags = CONSORT_JOIN_PREEMPT;
    assert_eq!(program.ask(&wanted).error, 0);
    {
        let record = daemon.host.record();
        let member = record.members[&gettid()];
        assert_eq!(member.slot, 3);
        // A later process with its number is another one.
        let stat = std::fs::read_to_string(format!("/proc/self/task/{}/stat", gettid())).unwrap();
        let (_, fields) = stat.rsplit_once(')').unwrap();
        let start = fields.split_ascii_whitespace().nth(19).unwrap();
        assert_eq!(member.thread.start, start.parse::<u64>().unwrap());
        let options = record.domains[&member.domain];
        assert_eq!(
            (options.event_ns, options.order, options.flags),
            (1_000_000, CONSORT_ORDER_PROGRESS, CONSORT_JOIN_PREEMPT)
        );
    }
    assert_eq!(program.ask(&leave(gettid(), 3)).error, 0);
    let record = daemon.host.record();
    assert!(record.members.is_empty());
    assert!(record.domains.is_empty());
}

#[test]
fn programs_that_name_the_same_domain_share_it() {
    let daemon = Daemon::start();
    let (first, second) = (daemon.hello(), daemon.hello());
    let (tell, told) = mpsc::channel();
    let (finish, finished) = mpsc::channel::<()>();
    let other = std::thread::spawn(move || {
        tell.send(gettid()).unwrap();
        let _ = finished.recv();
    });
    let other_tid = told.recv().unwrap();
    assert_eq!(first.ask(&join(gettid(), 0, "video")).error, 0);
    assert_eq!(second.ask(&join(other_tid, 0, "video")).error, 0);
    {
        let record = daemon.host.record();
        assert_eq!(record.domains.len(), 1);
        assert_eq!(record.members.len(), 2);
        let clients: Vec<u32> = record
            .members
            .values()
            .map(|member| member.client)
            .collect();
        assert_ne!(clients[0], clients[1]);
    }
    drop(finish);
    other.join().unwrap();
}

#[test]
fn programs_that_name_no_domain_get_one_each() {
    let daemon = Daemon::start();
    let (first, second) = (daemon.hello(), daemon.hello());
    let (tell, told) = mpsc::channel();
    let (finish, finished) = mpsc::channel::<()>();
    let other = std::thread::spawn(move || {
        tell.send(gettid()).unwrap();
        let _ = finished.recv();
    });
    assert_eq!(first.ask(&join(gettid(), 0, "")).error, 0);
    assert_eq!(second.ask(&join(told.recv().unwrap(), 0, "")).error, 0);
    assert_eq!(daemon.host.record().domains.len(), 2);
    drop(finish);
    other.join().unwrap();
}

#[test]
fn a_second_join_says_where_the_thread_is() {
    let daemon = Daemon::start();
    let (program, another) = (daemon.hello(), daemon.hello());
    assert_eq!(program.ask(&join(gettid(), 5, "video")).error, 0);
    for reply in [
        program.ask(&join(gettid(), 6, "video")),
        program.ask(&join(gettid(), 5, "audio")),
        another.ask(&join(gettid(), 0, "video")),
    ] {
        assert_eq!(reply.error, libc::EEXIST, "{}", reply.text);
        assert!(reply.text.contains("slot 5"), "{}", reply.text);
    }
    assert_eq!(daemon.host.record().members.len(), 1);
    assert_eq!(daemon.host.record().domains.len(), 1);
}

#[test]
fn a_slot_has_one_member_and_is_free_again_when_its_thread_has_ended() {
    let daemon = Daemon::start();
    let program = daemon.hello();
    let (tell, told) = mpsc::channel();
    let (finish, finished) = mpsc::channel::<()>();
    let other = std::thread::spawn(move || {
        tell.send(gettid()).unwrap();
        let _ = finished.recv();
    });
    let tid = told.recv().unwrap();
    assert_eq!(program.ask(&join(tid, 1, "video")).error, 0);
    let reply = program.ask(&join(gettid(), 1, "video"));
    assert_eq!(reply.error, libc::EBUSY, "{}", reply.text);

    drop(finish);
    other.join().unwrap();
    // join() returns when the thread has said goodbye, a moment before the kernel has removed it.
    while std::path::Path::new(&format!("/proc/self/task/{tid}")).exists() {
        std::thread::yield_now();
    }
    // The real scheduler has noticed, too.
    daemon.host.record().members.remove(&tid);
    let reply = program.ask(&join(gettid(), 1, "video"));
    assert_eq!(reply.error, 0, "{}", reply.text);
}

#[test]
fn a_thread_that_ends_without_leaving_is_noticed() {
    let daemon = Daemon::start();
    let program = daemon.hello();
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(program.ask(&join(gettid(), 0, "video")).error, 0));
    });
    daemon.host.record().member_ends += 1;
    daemon.wait_until("the domain of a dead thread is removed", |record| {
        record.domains.is_empty()
    });
    let status = program.control(r#"{"command": "status"}"#).unwrap();
    assert_eq!(status["daemon"]["lost_members"], 1);
    assert_eq!(status["daemon"]["members"], 0);
}

#[test]
fn a_program_that_hangs_up_leaves_nothing_behind() {
    let daemon = Daemon::start();
    let program = daemon.hello();
    assert_eq!(program.ask(&join(gettid(), 0, "video")).error, 0);
    drop(program);
    daemon.wait_until("everything is taken back", |record| {
        record.pages.is_empty() && record.members.is_empty() && record.domains.is_empty()
    });
}

#[test]
fn a_domain_that_the_scheduler_cannot_remove_yet_is_removed_later() {
    let daemon = Daemon::start();
    let program = daemon.hello();
    assert_eq!(program.ask(&join(gettid(), 0, "video")).error, 0);
    daemon
        .host
        .record()
        .refuse
        .insert("destroy_domain", libc::EBUSY);
    assert_eq!(program.ask(&leave(gettid(), 0)).error, 0);
    // The name is free at once.
    assert_eq!(program.ask(&join(gettid(), 0, "video")).error, 0);
    assert_eq!(daemon.host.record().domains.len(), 2);
    daemon.host.record().refuse.clear();
    daemon.wait_until("the old domain goes", |record| record.domains.len() == 1);
}

#[test]
fn a_join_that_the_scheduler_refuses_leaves_no_domain() {
    let daemon = Daemon::start();
    let program = daemon.hello();
    daemon.host.record().refuse.insert("join", libc::ESRCH);
    let reply = program.ask(&join(gettid(), 0, "video"));
    assert_eq!(reply.error, libc::ESRCH);
    assert!(
        reply.text.contains("not under the scheduler"),
        "{}",
        reply.text
    );
    assert!(daemon.host.record().domains.is_empty());
    daemon.host.record().refuse.clear();
    assert_eq!(program.ask(&join(gettid(), 0, "video")).error, 0);
}

#[test]
fn a_thread_that_another_scheduler_has_is_told_what_to_do() {
    let daemon = Daemon::start();
    let program = daemon.hello();
    daemon.host.record().partial = true;
    let reply = program.ask(&join(gettid(), 0, "video"));
    assert_eq!(reply.error, libc::ESRCH);
    assert!(reply.text.contains("consort run"), "{}", reply.text);
    daemon.host.record().partial = false;
    assert_eq!(program.ask(&join(gettid(), 0, "video")).error, 0);
}

#[test]
fn another_members_options_must_be_the_same_or_open() {
    let daemon = Daemon::start();
    let program = daemon.hello();
    let mut first = join(gettid(), 0, "video");
    first.event_ns = 500_000;
    assert_eq!(program.ask(&first).error, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut other = join(gettid(), 1, "video");
            other.event_ns = 600_000;
            let reply = program.ask(&other);
            assert_eq!(reply.error, libc::EINVAL);
            assert!(reply.text.contains("500000"), "{}", reply.text);
            other.event_ns = 0;
            other.order = CONSORT_ORDER_PROGRESS;
            let reply = program.ask(&other);
            assert_eq!(reply.error, libc::EINVAL);
            assert!(reply.text.contains("progress"), "{}", reply.text);
            other.order = 0;
            let reply = program.ask(&other);
            assert_eq!(reply.error, 0, "{}", reply.text);
        });
    });
}

#[test]
fn hello_comes_once_and_before_joining() {
    let daemon = Daemon::start();
    let program = daemon.connect();
    let reply = program.ask(&join(gettid(), 0, "video"));
    assert_eq!(reply.error, libc::ENOTCONN, "{}", reply.text);
    assert_eq!(program.ask(&request(CONSORT_HELLO)).error, 0);
    let reply = program.ask(&request(CONSORT_HELLO));
    assert_eq!(reply.error, libc::EISCONN, "{}", reply.text);
    assert!(reply.page.is_none());
    assert_eq!(daemon.host.record().pages.len(), 1);
}

#[test]
fn leaving_names_the_thread_that_joined() {
    let daemon = Daemon::start();
    let program = daemon.hello();
    let reply = program.ask(&leave(gettid(), 0));
    assert_eq!(reply.error, libc::ENOENT, "{}", reply.text);
    assert_eq!(program.ask(&join(gettid(), 0, "video")).error, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let reply = program.ask(&leave(gettid(), 0));
            assert_eq!(reply.error, libc::EINVAL, "{}", reply.text);
        });
    });
    assert_eq!(daemon.host.record().members.len(), 1);
}

/// A thread that executes a program gets its process' number, and stays in the scheduler where it was.
#[test]
fn a_member_that_executes_a_program_is_none_any_more() {
    let daemon = Daemon::start();
    let program = daemon.hello();
    assert_eq!(program.ask(&join(gettid(), 3, "video")).error, 0);
    daemon.host.record().execute(gettid());
    drop(program);
    daemon.wait_until("nobody is a member", |record| record.members.is_empty());
    daemon.wait_until("the domain is gone", |record| record.domains.is_empty());
}

/// What ends with a thread is its own membership, whoever else of its process is a member.
#[test]
fn a_member_outlives_another_thread_of_its_process() {
    let daemon = Daemon::start();
    let program = daemon.hello();
    let thread = first_thread();
    assert_eq!(program.ask(&join(thread.tid, 0, "video")).error, 0);
    assert_eq!(program.ask(&join(gettid(), 1, "video")).error, 0);
    // Its thread ends, and the scheduler forgets it.
    let member = daemon.host.record().members.remove(&gettid());
    assert_eq!(member.map(|member| member.slot), Some(1));
    assert_eq!(program.ask(&leave(gettid(), 1)).error, 0);
    assert_eq!(daemon.host.record().members[&thread.tid].slot, 0);
}
