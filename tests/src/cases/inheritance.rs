// SPDX-License-Identifier: MIT OR Apache-2.0
//! Priority inheritance and trains: a thread that holds what a better-placed one waits for runs in its place, and on its
//! account.

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::{
    check,
    suite::{
        board::Field,
        consort::reservations,
        machine::{possible_cpus, to_root_cgroup, Cgroup},
        process::{shares, shares_in_some_window, Role},
        Cpus, Needs, Outcome, Test,
    },
};

use super::rates::{await_no_reservations, release, reserve};

pub const TESTS: &[Test] = &[
    Test {
        name: "inheritance.lock",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: lock,
    },
    Test {
        name: "inheritance.memory",
        cpus: Cpus::One,
        needs: Needs::SteadyDaemon,
        run: memory,
    },
    Test {
        name: "inheritance.train",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: train,
    },
    Test {
        name: "inheritance.nested_train",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: nested_train,
    },
    Test {
        name: "inheritance.two_clients",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: two_clients,
    },
    Test {
        name: "inheritance.account",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: account,
    },
    Test {
        name: "inheritance.calls",
        cpus: Cpus::Any,
        needs: Needs::Daemon,
        run: calls,
    },
    Test {
        name: "inheritance.no_hoarding",
        cpus: Cpus::One,
        needs: Needs::SteadyDaemon,
        run: no_hoarding,
    },
    Test {
        name: "inheritance.storm",
        cpus: Cpus::Any,
        needs: Needs::Daemon,
        run: storm,
    },
];

const WINDOW: Duration = Duration::from_secs(3);
/// The kernel's accounts are up to a tick old.
const SLACK: f64 = 0.03;

fn hogs(number: usize) -> Result<Vec<Role>, String> {
    (0..number).map(|_| Role::ready("hog")).collect()
}

/// How long the waiter of such a role waits for its lock on average, in microseconds.
fn lock_wait_us(words: &str) -> Result<f64, String> {
    let mut role = Role::start(words)?;
    role.finish()?;
    Ok(role.get(Field::Extra) as f64 / role.get(Field::Work) as f64)
}

/// A mutex with the protocol PTHREAD_PRIO_INHERIT: with ten hogs beside its holder a waiter that has reserved waits for
/// what the holder needs at the waiter's rate; without, for a tenth of the hogs' class.
pub fn lock() -> Outcome {
    is_waited_for_less("holder inherits 10")
}

/// A role's lock with inheritance is waited for a quarter as long as one without, at most.
fn is_waited_for_less(words: &str) -> Outcome {
    await_no_reservations()?;
    let _hogs = hogs(10)?;
    let plain_us = lock_wait_us("holder plain 10")?;
    let inherits_us = lock_wait_us(words)?;
    check!(
        plain_us > 4.0 * inherits_us,
        "{words}: waited for {inherits_us:.0} us, a lock without inheritance {plain_us:.0} us"
    );
    Ok(())
}

/// The same for the lock of a process' map of memory, which its other threads take, and the kernel's that merge its pages.
pub fn memory() -> Outcome {
    is_waited_for_less("mapper 20")
}

/// Calls a second that a server answers, and how long one of the first client takes on average, in microseconds.
fn calls_answered(words: &str) -> Result<(f64, f64), String> {
    let role = Role::ready(words)?;
    role.await_progress(Field::Work, 2)?;
    let (work, extra) = (role.get(Field::Work), role.get(Field::Extra));
    std::thread::sleep(WINDOW);
    let work = (role.get(Field::Work) - work) as f64;
    let extra = (role.get(Field::Extra) - extra) as f64;
    drop(role);
    await_no_reservations()?;
    Ok((work / WINDOW.as_secs_f64(), extra / work))
}

/// The same for a server that has not reserved, and its client, that has.
pub fn train() -> Outcome {
    compare_calls("1 0")
}

/// And for one that asks a second server.
pub fn nested_train() -> Outcome {
    compare_calls("1 1")
}

fn compare_calls(what: &str) -> Outcome {
    await_no_reservations()?;
    let _hogs = hogs(10)?;
    let (_, plain_us) = calls_answered(&format!("served plain {what}"))?;
    let (_, train_us) = calls_answered(&format!("served train {what}"))?;
    check!(
        plain_us > 4.0 * train_us,
        "a call takes {train_us:.0} us by train, {plain_us:.0} us without"
    );
    Ok(())
}

/// A server of two clients works for both at the better place of those that wait.
pub fn two_clients() -> Outcome {
    await_no_reservations()?;
    let _hogs = hogs(10)?;
    let (plain, _) = calls_answered("served plain 2 0")?;
    let (train, _) = calls_answered("served train 2 0")?;
    check!(
        train > 4.0 * plain,
        "{train:.0} calls a second are answered by train, {plain:.0} without"
    );
    Ok(())
}

/// What the server uses is the client's: its reservation is used up while it only waits.
pub fn account() -> Outcome {
    await_no_reservations()?;
    let _hogs = hogs(3)?;
    let mut used = [0.0; 2];
    for (used, kind) in used.iter_mut().zip(["plain", "train"]) {
        let role = Role::ready(&format!("served {kind} 1 0"))?;
        role.await_progress(Field::Work, 2)?;
        std::thread::sleep(WINDOW);
        let held = reservations()?;
        *used = held[0]["used"][0].as_f64().unwrap_or(-1.0);
        drop(role);
        await_no_reservations()?;
    }
    check!(
        used[0] < 0.1 && used[1] > 0.5,
        "of its reservation a client uses {used:.3?}, without trains and by train"
    );
    Ok(())
}

/// Deaths, timeouts, circles, misuse: each call ends with its reason.
pub fn calls() -> Outcome {
    let mut role = Role::start("calls")?;
    role.finish()
}

/// A thread that many wait for has the place of one of them, and loses it with them: when they die, when their
/// reservation ends or changes.
pub fn no_hoarding() -> Outcome {
    await_no_reservations()?;
    let hoarder = Role::ready("hog")?;
    let others = hogs(5)?;
    let rival = Role::ready("hog")?;
    reserve(&rival, "guaranteed", "0.2")?;
    let words = format!("waits-for {}", hoarder.pid());
    let waiters = (0..3).map(|_| Role::ready(&words));
    let mut waiters = waiters.collect::<Result<Vec<_>, _>>()?;
    for waiter in &waiters {
        reserve(waiter, "guaranteed", "0.1")?;
    }
    let mut all: Vec<&Role> = others.iter().collect();
    all.extend([&rival, &hoarder]);
    let expect = |when: &str, expected: f64| -> Outcome {
        let got = shares(&all, WINDOW)?;
        check!(
            (got[6] - expected).abs() < SLACK,
            "{when}: the one that is waited for has {:.3} instead of {expected:.3}: {got:.3?}",
            got[6]
        );
        Ok(())
    };
    let flexible = 1.0 / 3.0 / 6.0;
    expect("before anybody waits", flexible)?;
    for waiter in &waiters {
        waiter.command(1)?;
    }
    // Guaranteed has two thirds beside flexible: two parts for the rival, one for a waiter.
    expect("three wait", 2.0 / 3.0 / 3.0)?;
    for waiter in &waiters {
        reserve(waiter, "guaranteed", "0.05")?;
    }
    expect("with half as much", 2.0 / 3.0 / 5.0)?;
    reserve(&waiters[0], "guaranteed", "0.1")?;
    release(&waiters[1])?;
    waiters[2].signal(Signal::SIGKILL)?;
    expect("one still waits", 2.0 / 3.0 / 3.0)?;
    release(&waiters[0])?;
    expect("who waits has no place to give", flexible)?;
    waiters.clear();
    expect("nobody waits", flexible)
}

/// Locks taken, given up and given back in any order by threads that change what they are, while reservations and cgroups
/// come and go: the scheduler stays, and everybody has what is his afterwards.
pub fn storm() -> Outcome {
    let rounds = if possible_cpus() == 1 { 12 } else { 3 };
    await_no_reservations()?;
    for round in 0..rounds {
        let group = Cgroup::create(None, &format!("storm{round}"))?;
        let other = Cgroup::create(None, &format!("calm{round}"))?;
        let roles = [
            Role::ready(&format!("lock-storm 6 {}", 2 * round))?,
            Role::ready(&format!("lock-storm 6 {}", 2 * round + 1))?,
        ];
        group.adopt(roles[0].pid())?;
        reserve(&roles[1], "guaranteed", "0.2")?;
        roles[0].await_progress(Field::Work, 50)?;
        reserve(&roles[0], "adaptive", "0.1")?;
        other.adopt(roles[1].pid())?;
        roles[1].await_progress(Field::Work, 50)?;
        release(&roles[1])?;
        to_root_cgroup(roles[0].pid())?;
        roles[1].await_progress(Field::Work, 20)?;
        if round % 2 == 0 {
            release(&roles[0])?;
        }
        check!(
            roles.iter().all(|role| role.get(Field::Errors) == 0),
            "a thread of the storm panicked"
        );
    }
    await_no_reservations()?;
    even_shares()
}

fn even_shares() -> Outcome {
    let number = 2 * possible_cpus();
    let hogs = hogs(number)?;
    let all: Vec<&Role> = hogs.iter().collect();
    let slack = if possible_cpus() == 1 { SLACK } else { 0.1 };
    shares_in_some_window(&all, WINDOW, |got| {
        let even = 1.0 / number as f64;
        check!(
            got.iter().all(|share| (share - even).abs() < slack),
            "afterwards hogs have {got:.3?}"
        );
        Ok(())
    })
}
