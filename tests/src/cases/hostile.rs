// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that misuse the socket or their page, beside one that only wants to poll.

use std::{
    fs,
    mem::size_of,
    time::{Duration, Instant},
};

use consort_abi::consort_request;

use crate::{
    check,
    suite::{
        board::Field,
        client::{bytes_of, gettid, join_request, request, Client},
        consort::{consort_as, counter, members, status, Daemon},
        machine::{cpu_time_ns, possible_cpus},
        process::{Role, ALICE, BOB, PATIENCE},
        Cpus, Needs, Outcome, Test,
    },
};

pub const TESTS: &[Test] = &[
    Test {
        name: "hostile.garbage",
        cpus: Cpus::Any,
        needs: Needs::Daemon,
        run: garbage,
    },
    Test {
        name: "hostile.json",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: json,
    },
    Test {
        name: "hostile.noise",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: noise,
    },
    Test {
        name: "hostile.many_joins",
        cpus: Cpus::One,
        needs: Needs::SteadyDaemon,
        run: many_joins,
    },
    Test {
        name: "hostile.connections",
        cpus: Cpus::One,
        needs: Needs::SteadyDaemon,
        run: connections,
    },
    Test {
        name: "hostile.deaf",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: deaf,
    },
    Test {
        name: "hostile.page_of_ones",
        cpus: Cpus::Any,
        needs: Needs::Daemon,
        run: page_of_ones,
    },
    Test {
        name: "hostile.random_page",
        cpus: Cpus::Any,
        needs: Needs::Daemon,
        run: random_page,
    },
    Test {
        name: "hostile.remapped_page",
        cpus: Cpus::Any,
        needs: Needs::Daemon,
        run: remapped_page,
    },
    Test {
        name: "hostile.pays_for_the_daemon",
        cpus: Cpus::One,
        needs: Needs::NoDaemon,
        run: pays_for_the_daemon,
    },
];

/// Messages that are no requests: each is answered with an error in words, or the connection is closed, and the
/// daemon stays the same process.
fn garbage() -> Outcome {
    let daemon = Daemon::running_pid()?;
    let good = join_request(gettid(), 0, b"garbage");
    let whole = bytes_of(&good).to_vec();
    let long = [&whole[..], &[0; 8192]].concat();
    let messages: Vec<Vec<u8>> = vec![
        vec![0],
        vec![0xff; 3],
        vec![0; size_of::<consort_request>()],
        vec![0xff; size_of::<consort_request>()],
        whole[..whole.len() - 1].to_vec(),
        [&whole[..], &[0]].concat(),
        long,
        vec![0xff; 100_000],
        bytes_of(&consort_request {
            magic: !good.magic,
            ..good
        })
        .to_vec(),
        bytes_of(&consort_request { version: 0, ..good }).to_vec(),
        bytes_of(&consort_request {
            version: u16::MAX,
            ..good
        })
        .to_vec(),
        bytes_of(&request(0)).to_vec(),
        bytes_of(&request(5)).to_vec(),
        bytes_of(&request(0xffff)).to_vec(),
    ];
    for message in messages {
        let client = Client::hello()?;
        let shown = format!(
            "{} bytes {:02x?}...",
            message.len(),
            &message[..message.len().min(16)]
        );
        let reply = client
            .ask_bytes(&message)
            .map_err(|error| format!("{shown}: {error}"))?;
        let Some(reply) = reply else {
            return Err(format!("{shown}: closed without a word"));
        };
        check!(
            reply.error > 0 && !reply.text.is_empty(),
            "{shown}: {reply:?}"
        );
    }
    check!(members()? == 0, "garbage made a member");
    check!(
        Daemon::running_pid()? == daemon,
        "the daemon is another one"
    );
    Ok(())
}

/// Texts in JSON that are no commands.
fn json() -> Outcome {
    let before = status()?["tunables"].clone();
    let client = Client::hello()?;
    let nested = "[".repeat(4000);
    let objects = "{\"command\":".repeat(300);
    let digits = format!(
        "{{\"command\": \"set\", \"granularity_ns\": {}}}",
        "9".repeat(3900)
    );
    let texts: [&[u8]; 13] = [
        b"",
        b"null",
        b"{}",
        b"{\"command\": \"reboot\"}",
        b"{\"command\": 7}",
        b"{\"command\": \"set\", \"granularity_ns\": -1}",
        b"{\"command\": \"set\", \"granularity_ns\": 1e400}",
        b"{\"command\": \"set\", \"window_ns\": 1}",
        b"{\"command\": \"domains\", \"after\": \"x\"}",
        b"\xff\xfe\xfd",
        nested.as_bytes(),
        objects.as_bytes(),
        digits.as_bytes(),
    ];
    for text in texts {
        let shown = String::from_utf8_lossy(&text[..text.len().min(40)]).into_owned();
        let reply = client
            .control(text)?
            .ok_or_else(|| format!("{shown}: the daemon closed the connection"))?;
        check!(
            reply.error > 0 && !reply.text.is_empty(),
            "{shown}: {reply:?}"
        );
        check!(
            reply.rest.is_empty(),
            "{shown}: an answer comes with the refusal"
        );
    }
    let reply = client
        .control(b"{\"command\": \"status\"}")?
        .ok_or("closed")?;
    check!(
        reply.error == 0 && serde_json::from_slice::<serde_json::Value>(&reply.rest).is_ok(),
        "{reply:?}"
    );
    check!(status()?["tunables"] == before, "the tunables changed");
    Ok(())
}

/// Random bytes behind a good head: none is granted, the daemon stays, and another user's `status` is answered.
fn noise() -> Outcome {
    let daemon = Daemon::running_pid()?;
    let mut vandal = Role::start_as(ALICE, "noise 300")?;
    vandal.finish()?;
    let (refused, granted) = (vandal.get(Field::Work), vandal.get(Field::Errors));
    check!(
        refused > 0 && granted == 0,
        "of 300 messages {refused} were refused and {granted} granted"
    );
    consort_as(BOB, &["status"])?.expect(0, &[])?;
    check!(
        Daemon::running_pid()? == daemon,
        "the daemon is another one"
    );
    Ok(())
}

/// How many events a member is served while `during` goes on, per ns of that time.
fn served_per_ns(member: &Role, during: impl FnOnce() -> Outcome) -> Result<f64, String> {
    let (began_ns, served) = (consort::now_ns(), member.get(Field::Served));
    during()?;
    Ok((member.get(Field::Served) - served) as f64 / (consort::now_ns() - began_ns) as f64)
}

/// A user that joins and leaves without end is slowed down to what its user may take of the daemon's time.
fn many_joins() -> Outcome {
    let member = Role::ready_as(BOB, "ticker calm 10")?;
    let in_peace = served_per_ns(&member, || {
        std::thread::sleep(Duration::from_secs(2));
        Ok(())
    })?;
    let demotions = member.get(Field::Demotions);
    let mut storm = Role::ready_as(ALICE, "join-storm 500")?;
    let in_storm = served_per_ns(&member, || storm.finish_within(3 * PATIENCE))?;
    let (granted, refused) = (storm.get(Field::Work), storm.get(Field::Errors));
    check!(
        granted > 0,
        "of 500 requests {granted} were granted and {refused} refused with EAGAIN"
    );
    check!(
        in_storm > in_peace * 0.9,
        "the member was served {:.2} of what it was before the storm",
        in_storm / in_peace
    );
    let more = member.get(Field::Demotions) - demotions;
    check!(
        more * 20 <= member.get(Field::Polls),
        "the member was found demoted {more} times"
    );
    // Another user joins while alice still has to wait.
    let _late = Role::ready_as(BOB, "ticker late 10")?;
    Ok(())
}

fn connections() -> Outcome {
    let hoarder = Role::ready_as(ALICE, "connections 300")?;
    let (kept, refused) = (hoarder.get(Field::Work), hoarder.get(Field::Errors));
    check!(
        kept > 0 && refused > 0,
        "of 300 connections {kept} were granted and {refused} refused"
    );
    let _other = Role::ready_as(BOB, "ticker spacious 10")?;
    consort_as(BOB, &["status"])?.expect(0, &[])
}

fn deaf() -> Outcome {
    let mut deaf = Role::ready_as(ALICE, "deaf")?;
    deaf.finish()?;
    check!(deaf.get(Field::Work) > 0, "it asked nothing");
    let _other = Role::ready_as(BOB, "ticker heard 10")?;
    Ok(())
}

/// A vandal in its own domain, and one in an honest member's domain, for some seconds: the honest are served.
fn beside_vandals(vandals: [&str; 2]) -> Outcome {
    let honest = Role::ready_as(ALICE, "ticker gallery 10")?;
    let vandals = vandals.map(|words| Role::ready_as(ALICE, words));
    let vandals = vandals.into_iter().collect::<Result<Vec<_>, _>>()?;
    let served = honest.get(Field::Served);
    std::thread::sleep(Duration::from_secs(3));
    for mut vandal in vandals {
        check!(
            vandal.is_running(),
            "{:?} did not survive its own deeds",
            vandal.name
        );
        check!(vandal.get(Field::Work) > 0, "{:?} did nothing", vandal.name);
        check!(
            vandal.get(Field::Errors) == 0,
            "{:?} succeeded {} times where it must not",
            vandal.name,
            vandal.get(Field::Errors)
        );
    }
    // The pace of a guest with several CPUs is this machine's, whatever else that does.
    if possible_cpus() > 1 {
        return honest.await_progress(Field::Served, 100);
    }
    let more = honest.get(Field::Served) - served;
    check!(
        more >= 100,
        "the honest member was served {more} of about 300 events"
    );
    Ok(())
}

fn page_of_ones() -> Outcome {
    let refused = counter("refused_due")?;
    beside_vandals(["scribbler gallery ones", "scribbler own ones"])?;
    // All ones is "never", which is no time out of range.
    check!(
        counter("refused_due")? == refused,
        "a due time of all ones is none, and was refused"
    );
    Ok(())
}

fn random_page() -> Outcome {
    let refused = counter("refused_due")?;
    beside_vandals(["scribbler gallery random", "scribbler own random"])?;
    check!(
        counter("refused_due")? > refused,
        "no due time was out of range"
    );
    Ok(())
}

fn remapped_page() -> Outcome {
    beside_vandals(["remapper gallery", "remapper own"])
}

/// A program that asks all the time, of a user whose part of the daemon's time is not bounded: with what the daemon does for it,
/// it has its share and no more.
fn pays_for_the_daemon() -> Outcome {
    const HOGS: usize = 3;
    const WINDOW: Duration = Duration::from_secs(3);
    /// Of the CPU: the test's own, and the kernel's at switches.
    const AROUND: f64 = 0.03;
    let path = "/tmp/boundless.toml";
    fs::write(path, "[limits]\ncpu_percent = 100\nrequests_per_s = 8000\n")
        .map_err(|error| format!("cannot write {path}: {error}"))?;
    let daemon = Daemon::start(&["--classes", path])?;
    let hogs = (0..HOGS).map(|_| Role::ready_as(BOB, "hog"));
    let hogs = hogs.collect::<Result<Vec<_>, _>>()?;
    let attacker = Role::ready_as(ALICE, "attack status")?;
    attacker.await_progress(Field::Work, 100)?;
    let all = || -> Result<[u64; 3], String> {
        let hogs = hogs.iter().map(Role::cpu_time_ns).sum::<Result<u64, _>>()?;
        Ok([hogs, attacker.cpu_time_ns()?, cpu_time_ns(daemon.pid())?])
    };
    let (began, before) = (Instant::now(), all()?);
    std::thread::sleep(WINDOW);
    let (after, wall) = (all()?, began.elapsed().as_nanos() as f64);
    let part = |index: usize| (after[index] - before[index]) as f64 / wall;
    let [hogs, own, daemons] = [0, 1, 2].map(part);
    let said = format!("hogs {hogs:.3}, the attacker {own:.3}, the daemon {daemons:.3}");
    // Else it would show nothing.
    check!(daemons > 0.1, "the daemon had little to do: {said}");
    let fair = HOGS as f64 / (HOGS + 1) as f64;
    check!(hogs > fair - AROUND, "hogs have less than {fair}: {said}");
    Ok(())
}
