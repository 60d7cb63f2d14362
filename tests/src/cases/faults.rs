// SPDX-License-Identifier: MIT OR Apache-2.0
//! Deaths: of clients, of the daemon, of the scheduler.

use std::fs;

use nix::sys::signal::Signal;

use crate::{
    check,
    suite::{
        board::Field,
        consort::{
            await_members, await_state, check_that_the_scheduler_goes_before_its_timers, consort,
            members, status, Daemon, SOCKET,
        },
        machine::possible_cpus,
        process::{wait_until, Role, ALICE, PATIENCE},
        Cpus, Needs, Outcome, Test,
    },
};

pub const TESTS: &[Test] = &[
    Test {
        name: "faults.client_killed_on_the_cpu",
        cpus: Cpus::Any,
        needs: Needs::Daemon,
        run: client_killed,
    },
    Test {
        name: "faults.all_clients_killed",
        cpus: Cpus::Any,
        needs: Needs::Daemon,
        run: all_clients_killed,
    },
    Test {
        name: "faults.client_stopped",
        cpus: Cpus::Any,
        needs: Needs::Daemon,
        run: client_stopped,
    },
    Test {
        name: "faults.daemon_stopped",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: daemon_stopped,
    },
    Test {
        name: "faults.daemon_killed",
        cpus: Cpus::Any,
        needs: Needs::Daemon,
        run: daemon_killed,
    },
];

/// What a role counts when it does what it is for.
fn progress(role: &Role) -> Outcome {
    match role.name.starts_with("ticker") {
        true => role.await_progress(Field::Served, 10),
        false => role.await_progress(Field::Work, 10),
    }
}

fn client_killed() -> Outcome {
    let stays = [
        Role::ready("member widows")?,
        Role::ready("ticker widows 10")?,
    ];
    // The mute liar never polls: it is killed while it runs or is preempted, outside of any system call.
    for victim in [
        "mute-liar widows due",
        "member widows",
        "scribbler widows random",
    ] {
        let victim = Role::ready_as(0, victim)?;
        check!(members()? == 3, "{} members instead of 3", members()?);
        victim.signal(Signal::SIGKILL)?;
        drop(victim);
        await_members(2)?;
        stays.iter().try_for_each(progress)?;
    }
    check!(
        status()?["daemon"]["lost_members"].as_u64() >= Some(3),
        "the lost members are not counted"
    );
    Ok(())
}

fn all_clients_killed() -> Outcome {
    let kinds = [
        "member crowd",
        "ticker crowd 5",
        "member other",
        "mute-liar other due",
        "joiner",
    ];
    // Of two users: where an emulator is slow, twenty joins exceed what one user may take of the daemon's time.
    let roles: Vec<Role> = (0..20)
        .map(|number| Role::ready_as([0, ALICE][number % 2], kinds[number % kinds.len()]))
        .collect::<Result<_, _>>()?;
    // One whose answer takes long goes on alone until it comes.
    await_members(20)?;
    for role in &roles {
        role.signal(Signal::SIGKILL)?;
    }
    drop(roles);
    await_members(0)?;
    let status = status()?;
    check!(
        status["daemon"]["domains"] == 0,
        "domains are left: {}",
        status["domains"]
    );
    // The next one finds everything as if nobody had been there.
    let next = Role::ready_as(ALICE, "ticker crowd 5")?;
    progress(&next)
}

/// SIGSTOP is a way to block outside poll that no program chooses: it harms nobody else, and passes.
fn client_stopped() -> Outcome {
    let stays = [
        Role::ready("member frozen")?,
        Role::ready("ticker frozen 10")?,
    ];
    let stopped = Role::ready("member frozen")?;
    stopped.signal(Signal::SIGSTOP)?;
    stays.iter().try_for_each(progress)?;
    stopped.signal(Signal::SIGCONT)?;
    progress(&stopped)?;
    wait_until(
        PATIENCE,
        "the stopped member to be a member in good standing again",
        || Ok(stopped.get(Field::Standing) == 2),
    )
}

/// A daemon that hangs is no part of scheduling: members go on, and the command says what is wrong.
fn daemon_stopped() -> Outcome {
    let roles = [
        Role::ready("member hung")?,
        Role::ready("ticker hung 10")?,
        Role::ready("hog")?,
    ];
    let daemon = nix::unistd::Pid::from_raw(Daemon::running_pid()? as i32);
    let signal = |signal| nix::sys::signal::kill(daemon, signal).map_err(|errno| errno.to_string());
    signal(Signal::SIGSTOP)?;
    let gone_on = roles.iter().try_for_each(progress);
    let said = consort(&["status"]);
    signal(Signal::SIGCONT)?;
    gone_on?;
    let said = said?;
    check!(
        said.code == 1 && said.err.contains("daemon"),
        "while the daemon hangs, status says {said:?}"
    );
    roles.iter().try_for_each(progress)
}

/// The daemon dies without a word: everything is under the stock scheduler at once, members go on alone, and join the
/// next daemon by themselves.
fn daemon_killed() -> Outcome {
    let roles = [
        Role::ready_as(ALICE, "member orphans")?,
        Role::ready("ticker orphans 10")?,
        Role::ready("hog")?,
    ];
    let daemon = Daemon::running_pid()?;
    check_that_the_scheduler_goes_before_its_timers(daemon)?;
    let daemon = nix::unistd::Pid::from_raw(daemon as i32);
    nix::sys::signal::kill(daemon, Signal::SIGKILL).map_err(|errno| errno.to_string())?;
    let killed_ns = consort::now_ns();
    await_state("disabled")?;
    let took_ns = consort::now_ns() - killed_ns;
    // Only where time is counted in instructions does it not depend on what else the host does.
    if possible_cpus() == 1 {
        check!(
            took_ns < 1_000_000_000,
            "the stock scheduler took over after {took_ns} ns"
        );
    }
    roles.iter().try_for_each(progress)?;
    wait_until(PATIENCE, "the members to know that they are alone", || {
        Ok(roles[..2].iter().all(|role| role.get(Field::Standing) == 1))
    })?;
    check!(
        fs::exists(SOCKET).unwrap_or(false),
        "the dead daemon's socket has gone: this test lacks its point"
    );
    consort(&["status"])?.expect(3, &["consort serve"])?;
    Daemon::start(&[])?.keep();
    await_members(2)?;
    wait_until(
        PATIENCE,
        "the members to be told that they are members",
        || Ok(roles[..2].iter().all(|role| role.get(Field::Standing) >= 2)),
    )?;
    roles.iter().try_for_each(progress)
}
