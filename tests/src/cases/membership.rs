// SPDX-License-Identifier: MIT OR Apache-2.0
//! Joining, leaving, and what is refused on the way: errno and text for the caller, nothing for anybody else.

use consort::{now_ns, Domain, Next, Order};
use consort_abi::{consort_request, CONSORT_HELLO, CONSORT_SLOTS};
use nix::errno::Errno;

use crate::{
    check,
    suite::{
        board::Field,
        client::{gettid, join_request, request, Client, Reply},
        consort::{await_members, consort, members, status},
        process::{set_realtime, Role, ALICE, BOB},
        Cpus, Needs, Outcome, Test,
    },
};

pub const TESTS: &[Test] = &[
    Test {
        name: "membership.thread_ends_without_leaving",
        cpus: Cpus::Any,
        needs: Needs::Daemon,
        run: deserter,
    },
    Test {
        name: "membership.execute_after_joining",
        cpus: Cpus::Any,
        needs: Needs::Daemon,
        run: execute,
    },
    Test {
        name: "membership.fork_after_joining",
        cpus: Cpus::Any,
        needs: Needs::Daemon,
        run: fork,
    },
    Test {
        name: "membership.second_join",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: second_join,
    },
    Test {
        name: "membership.names",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: names,
    },
    Test {
        name: "membership.names_agree",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: names_agree,
    },
    Test {
        name: "membership.ranges_by_library",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: ranges_by_library,
    },
    Test {
        name: "membership.ranges_by_socket",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: ranges_by_socket,
    },
    Test {
        name: "membership.other_options",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: other_options,
    },
    Test {
        name: "membership.strangers_threads",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: strangers_threads,
    },
    Test {
        name: "membership.same_name_of_two_users",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: two_users,
    },
    Test {
        name: "membership.full_page",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: full_page,
    },
    Test {
        name: "membership.realtime_thread",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: realtime_thread,
    },
];

/// Fails unless the reply refuses with this errno, in words that contain `word`.
fn expect_refusal(reply: &Reply, errno: Errno, word: &str) -> Outcome {
    let as_expected = reply.error == errno as i32 && reply.text.contains(word);
    check!(
        as_expected,
        "expected {errno:?} and a text with {word:?}, got {reply:?}"
    );
    Ok(())
}

fn expect_error<T>(result: Result<T, consort::Error>, errno: Errno, word: &str) -> Outcome {
    match result {
        Ok(_) => Err(format!("expected {errno:?} ({word}), and it succeeded")),
        Err(error) if error.errno() == errno as i32 && error.to_string().contains(word) => Ok(()),
        Err(error) => Err(format!(
            "expected {errno:?} and a text with {word:?}, got {}: {error}",
            error.errno()
        )),
    }
}

fn deserter() -> Outcome {
    let role = Role::ready("deserter")?;
    await_members(0)?;
    role.command(1)?;
    await_members(1)?;
    check!(
        role.get(Field::Work) == 2,
        "the second thread could not take the slot over"
    );
    Ok(())
}

/// The thread has its process' number afterwards; it is no member, and may join as any other.
fn execute() -> Outcome {
    let role = Role::ready("executes deserters steady others 20 1")?;
    await_members(1)?;
    let domains = status()?["domains"].as_array().map_or(0, Vec::len);
    check!(domains == 1, "there are {domains} domains instead of 1");
    role.await_progress(Field::Served, 5)
}

fn fork() -> Outcome {
    let role = Role::ready("forker family")?;
    check!(
        members()? == 1,
        "after fork there are {} members instead of 1",
        members()?
    );
    let errno = role.get(Field::Extra);
    check!(
        errno == Errno::ESTALE as u64,
        "the child's poll with its parent's membership gives errno {errno}"
    );
    role.await_progress(Field::Polls, 20)?;
    role.command(1)?;
    await_members(2)?;
    role.await_progress(Field::Polls, 20)
}

fn second_join() -> Outcome {
    let member = Domain::named("twice")
        .join()
        .map_err(|error| error.to_string())?;
    expect_error(
        Domain::named("twice").join(),
        Errno::EEXIST,
        "member already",
    )?;
    expect_error(
        Domain::named("elsewhere").join(),
        Errno::EEXIST,
        "member already",
    )?;
    // The same through the socket, behind the library's back.
    let client = Client::hello()?;
    expect_refusal(
        &client.join(gettid(), 0, "twice")?,
        Errno::EEXIST,
        "leave before",
    )?;
    member.leave().map_err(|error| error.to_string())?;
    let again = client.join(gettid(), 0, "twice")?;
    check!(again.error == 0, "after leaving: {again:?}");
    expect_refusal(
        &client.join(gettid(), 1, "twice")?,
        Errno::EEXIST,
        "leave before",
    )?;
    std::thread::scope(|scope| {
        let other = scope.spawn(|| client.join(gettid(), 0, "twice"));
        let reply = other.join().map_err(|_| "the thread panicked")??;
        expect_refusal(&reply, Errno::EBUSY, "slot")
    })?;
    let reply = client.leave(gettid(), 0)?;
    check!(reply.error == 0, "leaving: {reply:?}");
    expect_refusal(
        &client.leave(gettid(), 0)?,
        Errno::ENOENT,
        "join before leaving",
    )?;
    expect_refusal(
        &client.ask(&request(CONSORT_HELLO))?,
        Errno::EISCONN,
        "once",
    )
}

fn names() -> Outcome {
    let client = Client::hello()?;
    let tid = gettid();
    let ask = |name: &[u8]| client.ask(&join_request(tid, 0, name));
    expect_refusal(&ask(&[b'x'; 64])?, Errno::ENAMETOOLONG, "63")?;
    let odd: [&[u8]; 7] = [
        b"a/b",
        b"/",
        b"new\nline",
        b"esc\x1b[31m",
        b"\xff\xfe",
        b"\x7f",
        b"tab\t",
    ];
    for name in odd {
        let reply = ask(name)?;
        let shown = String::from_utf8_lossy(name).into_owned();
        check!(
            reply.error == Errno::EINVAL as i32 && !reply.text.is_empty(),
            "{shown:?}: {reply:?}"
        );
        check!(members()? == 0, "the refused name {shown:?} made a member");
    }
    for name in [
        &[b'x'; 63][..],
        b"-",
        b"a.b:c_d",
        b"--help",
        b"$(reboot)",
        b"%s%n",
        b"",
    ] {
        let reply = ask(name)?;
        let shown = String::from_utf8_lossy(name).into_owned();
        check!(reply.error == 0, "{shown:?}: {reply:?}");
        check!(members()? == 1, "{shown:?} made no member");
        let reply = client.leave(tid, 0)?;
        check!(reply.error == 0, "{shown:?}, leaving: {reply:?}");
    }
    Ok(())
}

/// The library, the daemon and the command have one rule for names.
fn names_agree() -> Outcome {
    expect_error(
        Domain::named("x".repeat(64)).join(),
        Errno::ENAMETOOLONG,
        "too long",
    )?;
    expect_error(Domain::named("a/b").join(), Errno::EINVAL, "'/'")?;
    expect_error(Domain::named("a\nb").join(), Errno::EINVAL, "name")?;
    let client = Client::hello()?;
    for name in [
        "plain",
        "with.dots_and-dashes",
        "two words",
        "st\u{fc}dio",
        "a/b",
        "~",
        "'quoted'",
    ] {
        let of_daemon = client.join(gettid(), 0, name)?.error == 0;
        if of_daemon {
            check!(
                client.leave(gettid(), 0)?.error == 0,
                "cannot leave {name:?}"
            );
        }
        let by_library = Domain::named(name).join().map(drop).is_ok();
        let by_command = consort(&["run", "--domain", name, "--", "true"])?.code == 0;
        check!(
            of_daemon == by_library && of_daemon == by_command,
            "is {name:?} a name? the daemon says {of_daemon}, the library {by_library}, the command {by_command}"
        );
    }
    Ok(())
}

fn ranges_by_library() -> Outcome {
    let member = Domain::named("ranges")
        .join()
        .map_err(|error| error.to_string())?;
    let now = now_ns();
    let best = |priority| Next {
        due_ns: consort::NEVER,
        best_effort: Some((priority, 0)),
    };
    expect_error(
        member.poll(best(consort::PRIORITY_MAX + 1)),
        Errno::EINVAL,
        "priority",
    )?;
    expect_error(member.poll(best(u32::MAX)), Errno::EINVAL, "priority")?;
    let day = consort::DUE_AHEAD_MAX_NS;
    expect_error(
        member.poll(Next::due(now + 2 * day)),
        Errno::EINVAL,
        "due time",
    )?;
    expect_error(
        member.poll(Next::due(u64::MAX - 1)),
        Errno::EINVAL,
        "due time",
    )?;
    expect_error(
        member.poll(Next::due(consort::NEVER)),
        Errno::EINVAL,
        "for ever",
    )?;
    member
        .poll(best(consort::PRIORITY_MAX))
        .map_err(|error| error.to_string())?;
    member.poll(best(0)).map_err(|error| error.to_string())?;
    let both = Next {
        due_ns: now_ns() + day - 1_000_000_000,
        best_effort: Some((0, u64::MAX)),
    };
    member.poll(both).map_err(|error| error.to_string())?;
    drop(member);
    for event_ns in [
        1,
        consort::EVENT_MIN_NS - 1,
        consort::EVENT_MAX_NS + 1,
        u64::MAX,
    ] {
        expect_error(
            Domain::named("ranges").event_ns(event_ns).join(),
            Errno::EINVAL,
            "event",
        )?;
    }
    Ok(())
}

fn ranges_by_socket() -> Outcome {
    let client = Client::hello()?;
    let good = join_request(gettid(), 0, b"ranges");
    let bad: [(&str, consort_request, Errno); 8] = [
        (
            "slot",
            consort_request {
                slot: CONSORT_SLOTS,
                ..good
            },
            Errno::EINVAL,
        ),
        (
            "slot",
            consort_request {
                slot: u32::MAX,
                ..good
            },
            Errno::EINVAL,
        ),
        (
            "event",
            consort_request {
                event_ns: 1,
                ..good
            },
            Errno::ERANGE,
        ),
        (
            "event",
            consort_request {
                event_ns: u64::MAX,
                ..good
            },
            Errno::ERANGE,
        ),
        ("order", consort_request { order: 3, ..good }, Errno::EINVAL),
        ("flags", consort_request { flags: 2, ..good }, Errno::EINVAL),
        ("thread", consort_request { tid: -1, ..good }, Errno::EINVAL),
        (
            "thread",
            consort_request {
                tid: i32::MIN,
                ..good
            },
            Errno::EINVAL,
        ),
    ];
    for (word, request, errno) in bad {
        expect_refusal(&client.ask(&request)?, errno, word)?;
    }
    expect_refusal(
        &client.leave(gettid(), CONSORT_SLOTS)?,
        Errno::EINVAL,
        "slot",
    )?;
    check!(members()? == 0, "a refused request made a member");
    let unmapped = Client::connect()?;
    expect_refusal(
        &unmapped.join(gettid(), 0, "ranges")?,
        Errno::ENOTCONN,
        "HELLO",
    )?;
    let reply = client.ask(&good)?;
    check!(
        reply.error == 0,
        "after all those refusals, a good request: {reply:?}"
    );
    Ok(())
}

fn other_options() -> Outcome {
    let _first = Role::ready("ticker optional 10")?;
    let with = |change: fn(Domain) -> Domain| change(Domain::named("optional")).join();
    expect_error(
        with(|domain| domain.order(Order::Service)),
        Errno::EINVAL,
        "order",
    )?;
    expect_error(with(|domain| domain.preempt(true)), Errno::EINVAL, "flags")?;
    expect_error(
        with(|domain| domain.event_ns(50_000)),
        Errno::EINVAL,
        "event",
    )?;
    let member = with(|domain| domain).map_err(|error| error.to_string())?;
    check!(members()? == 2, "the same options made no member");
    drop(member);
    Ok(())
}

/// Nobody makes another program's thread a member.
fn strangers_threads() -> Outcome {
    let stranger = Role::ready_as(BOB, "hog")?;
    let client = Client::hello()?;
    for tid in [stranger.pid() as i32, 1, i32::MAX] {
        let reply = client.join(tid, 0, "abduction")?;
        check!(
            reply.error == Errno::ESRCH as i32 && !reply.text.is_empty(),
            "thread {tid}: {reply:?}"
        );
    }
    check!(members()? == 0, "a stranger's thread was made a member");
    Ok(())
}

fn two_users() -> Outcome {
    let _alices = Role::ready_as(ALICE, "ticker shared 10")?;
    let _bobs = Role::ready_as(BOB, "ticker shared 10")?;
    let status = status()?;
    let uids: Vec<_> = status["domains"]
        .as_array()
        .ok_or("no domains")?
        .iter()
        .filter(|domain| domain["name"] == "shared")
        .map(|domain| domain["uid"].as_u64())
        .collect();
    check!(
        uids.len() == 2 && uids[0] != uids[1],
        "the domains named \"shared\" belong to {uids:?}"
    );
    Ok(())
}

fn full_page() -> Outcome {
    let mut role = Role::ready("members 4")?;
    role.finish()?;
    let (joined, refused) = (role.get(Field::Work), role.get(Field::Errors));
    let slots = u64::from(CONSORT_SLOTS);
    check!(
        joined == 4 * slots && refused == 4 * (70 - slots),
        "of 280 threads {joined} joined and {refused} did not"
    );
    Ok(())
}

fn realtime_thread() -> Outcome {
    let client = Client::hello()?;
    set_realtime(0, true)?;
    expect_refusal(
        &client.join(gettid(), 0, "realtime")?,
        Errno::ESRCH,
        "SCHED_FIFO",
    )
}
