// SPDX-License-Identifier: MIT OR Apache-2.0
//! A member that breaks the contract is demoted, and restored by its next timely poll.

use crate::{
    check,
    roles::errant::{ASK, NOTHING, SLEEP, SLEEP_AGAIN, SLEPT},
    suite::{
        board::Field,
        consort::counter,
        process::{wait_until, Role, PATIENCE},
        Cpus, Needs, Outcome, Test,
    },
};

pub const TESTS: &[Test] = &[
    Test {
        name: "policing.blocks_outside_poll",
        cpus: Cpus::Any,
        needs: Needs::Daemon,
        run: blocks,
    },
    Test {
        name: "policing.overruns",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: overruns,
    },
    Test {
        name: "policing.the_timely_are_left_alone",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: timely,
    },
    Test {
        name: "policing.a_member_can_ask_why",
        cpus: Cpus::One,
        needs: Needs::SteadyDaemon,
        run: asks_why,
    },
];

const BLOCK: u64 = 1;
const OVERRUN: u64 = 2;
const POLL_ON: u64 = 3;
const DEMOTED: u64 = 3;
const MEMBER: u64 = 2;

/// An emulator that stops for a while may have had the member demoted before its deed, which then does not count: it polls,
/// and does it again.
fn commit(member: &Role, deed: u64, counted: &str) -> Outcome {
    for _ in 0..5 {
        let deeds = counter(counted)?;
        member.command(deed)?;
        if counter(counted)? > deeds {
            return Ok(());
        }
        member.command(POLL_ON)?;
    }
    Err(format!("the counter {counted} does not count it"))
}

/// Lets a member do a deed beside a well-behaved one: it is demoted and counted, and restored when it polls again.
fn demotes(deed: u64, counted: &str) -> Outcome {
    let other = Role::ready("ticker police 5")?;
    let member = Role::ready("obedient police")?;
    member.await_progress(Field::Polls, 50)?;
    let restorations = counter("restorations")?;
    commit(&member, deed, counted)?;
    let standing = member.get(Field::Extra);
    check!(
        standing == DEMOTED,
        "after the deed the member's standing is {standing}"
    );
    member.board.set(Field::Command, POLL_ON);
    wait_until(PATIENCE, "the member to be restored", || {
        match member.get(Field::Standing) {
            MEMBER => Ok(true),
            standing => Err(format!("its standing is {standing}")),
        }
    })?;
    check!(
        counter("restorations")? > restorations,
        "the counter restorations does not count it"
    );
    other.await_progress(Field::Served, 20)
}

fn blocks() -> Outcome {
    demotes(BLOCK, "blocks")
}

fn overruns() -> Outcome {
    demotes(OVERRUN, "overruns")
}

/// Members that poll in time are demoted rarely, and never for long: an emulator that stops for a while makes anybody late.
fn timely() -> Outcome {
    let members = [
        Role::ready("member timely")?,
        Role::ready("member timely")?,
        Role::ready("ticker timely 10")?,
    ];
    for member in &members[..2] {
        member.await_progress(Field::Polls, 2000)?;
    }
    members[2].await_progress(Field::Polls, 100)?;
    for member in &members {
        let (polls, demotions) = (member.get(Field::Polls), member.get(Field::Demotions));
        check!(
            demotions * 20 < polls,
            "{:?} was found demoted in {demotions} of {polls} polls",
            member.name
        );
    }
    Ok(())
}

/// An event loop in a program of consort.h: it can ask why it was demoted, and its log says so once.
fn asks_why() -> Outcome {
    const LOG: &str = "/dev/shm/errant.log";
    let _other = Role::ready("ticker why 5")?;
    let errant = Role::ready(&format!("errant why {LOG}"))?;
    errant.await_progress(Field::Polls, 50)?;
    let log = || std::fs::read_to_string(LOG).map_err(|error| format!("{LOG}: {error}"));
    let answers = [
        (ASK, NOTHING, 0),
        (SLEEP, SLEPT, 1),
        (SLEEP_AGAIN, SLEPT, 1),
    ];
    for (deed, answer, lines) in answers {
        errant.command(deed)?;
        let said = errant.get(Field::Extra);
        check!(
            said == answer,
            "after deed {deed} consort_why() says {said}, expected {answer}"
        );
        wait_until(PATIENCE, "the loop's member to be restored", || {
            Ok(errant.get(Field::Standing) == MEMBER)
        })?;
        errant.await_progress(Field::Polls, 50)?;
        let log = log()?;
        check!(
            log.matches("was demoted").count() == lines,
            "after deed {deed} its log is {log:?}, expected {lines} warnings"
        );
    }
    let log = log()?;
    check!(
        log.contains("libconsort: warning:") && log.contains("it slept outside of poll"),
        "its log is {log:?}"
    );
    check!(
        errant.get(Field::Errors) == 0,
        "its events could not be submitted"
    );
    std::fs::remove_file(LOG).map_err(|error| error.to_string())
}
