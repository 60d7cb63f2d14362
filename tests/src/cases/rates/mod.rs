// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reserved rates: a task gets what it has been promised, beside anybody, and also after the daemon was killed. The default
//! classes: half of the CPU guaranteed, a quarter adaptive (overbooked by 70 %), a quarter flexible.

mod away;
mod credits;
mod feedback;
mod orders;
mod requests;
mod restart;
mod shares;

use std::{process::Command, time::Duration};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::{
    check,
    suite::{
        board::Field,
        consort::{await_state, consort, consort_as, reservations, run, Daemon, SOCKET},
        machine,
        process::{shares, wait_until, Role, ALICE, BOB, PATIENCE},
        Cpus, Needs, Outcome, Test,
    },
};

pub const TESTS: &[Test] = &[
    Test {
        name: "rates.every_second",
        cpus: Cpus::One,
        needs: Needs::SteadyDaemon,
        run: shares::every_second,
    },
    Test {
        name: "rates.crowd",
        cpus: Cpus::One,
        needs: Needs::SteadyDaemon,
        run: shares::crowd,
    },
    Test {
        name: "rates.change_and_release",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: shares::change_and_release,
    },
    Test {
        name: "rates.sleepers_leave_theirs",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: shares::sleepers,
    },
    Test {
        name: "rates.family",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: shares::family,
    },
    Test {
        name: "rates.cgroup",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: shares::cgroup,
    },
    Test {
        name: "rates.many_cpus",
        cpus: Cpus::Many,
        needs: Needs::Daemon,
        run: shares::many_cpus,
    },
    Test {
        name: "rates.beside_a_domain",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: shares::beside_a_domain,
    },
    Test {
        name: "rates.orders",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: orders::punishment,
    },
    Test {
        name: "rates.credits",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: credits::credits,
    },
    Test {
        name: "rates.automatic",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: credits::automatic,
    },
    Test {
        name: "rates.refusals",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: requests::refusals,
    },
    Test {
        name: "rates.users",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: requests::users,
    },
    Test {
        name: "rates.run",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: requests::run_command,
    },
    Test {
        name: "rates.feedback",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: feedback::told_while_it_runs,
    },
    Test {
        name: "rates.come_and_go",
        cpus: Cpus::One,
        needs: Needs::SteadyDaemon,
        run: requests::come_and_go,
    },
    Test {
        name: "rates.raised_by_itself",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: away::raised_by_itself,
    },
    Test {
        name: "rates.raised_by_a_lock",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: away::raised_by_a_lock,
    },
    Test {
        name: "rates.ends_while_away",
        cpus: Cpus::Any,
        needs: Needs::Daemon,
        run: away::ends_while_away,
    },
    Test {
        name: "rates.member_away",
        cpus: Cpus::Any,
        needs: Needs::Daemon,
        run: away::member,
    },
    Test {
        name: "rates.killed_daemon",
        cpus: Cpus::One,
        needs: Needs::NoDaemon,
        run: restart::killed_daemon,
    },
    Test {
        name: "rates.operators_file",
        cpus: Cpus::One,
        needs: Needs::NoDaemon,
        run: restart::operators_file,
    },
];

const SECOND: Duration = Duration::from_secs(1);
const WINDOW: Duration = Duration::from_secs(3);
/// The kernel's accounts are up to a tick old.
const SLACK: f64 = 0.02;

/// Reserves for a role as root.
pub(super) fn reserve(role: &Role, class: &str, rate: &str) -> Outcome {
    let pid = role.pid().to_string();
    let said = consort(&["reserve", &pid, "--class", class, "--rate", rate])?;
    said.expect(0, &[])
}

pub(super) fn release(role: &Role) -> Outcome {
    consort(&["release", &role.pid().to_string()])?.expect(0, &[])
}

/// Fails unless the shares are as expected, within the slack.
fn expect_shares(roles: &[&Role], window: Duration, expected: &[f64]) -> Outcome {
    expect_shares_within(SLACK, roles, window, expected)
}

pub(super) fn expect_shares_within(
    slack: f64,
    roles: &[&Role],
    window: Duration,
    expected: &[f64],
) -> Outcome {
    let got = shares(roles, window)?;
    let fits = |(got, expected): (&f64, &f64)| (got - expected).abs() < slack;
    check!(
        got.iter().zip(expected).all(fits),
        "shares {got:.4?} instead of {expected:.4?}"
    );
    Ok(())
}

/// Hogs that begin together: those that are started wait, lest the last of many have a small part of the CPU to start in.
pub(super) fn hogs(number: usize) -> Result<Vec<Role>, String> {
    let start = |_| {
        let role = Role::ready("hog")?;
        role.signal(Signal::SIGSTOP)?;
        Ok(role)
    };
    let all: Vec<Role> = (0..number).map(start).collect::<Result<_, String>>()?;
    all.iter()
        .try_for_each(|role| role.signal(Signal::SIGCONT))?;
    Ok(all)
}

pub(super) fn await_no_reservations() -> Outcome {
    wait_until(PATIENCE, "reservations of the dead to end", || {
        Ok(reservations()?.is_empty())
    })
}
