// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reserved rates: who has been promised what gets it, beside anybody, and also after the daemon was killed. The default
//! classes: half of the CPU guaranteed, a quarter adaptive (overbooked by 70 %), a quarter flexible.

use std::{process::Command, time::Duration};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::{
    check,
    suite::{
        board::Field,
        consort::{await_state, consort, consort_as, run, Daemon, SOCKET},
        machine,
        process::{shares, wait_until, Role, ALICE, BOB, PATIENCE},
        Cpus, Needs, Outcome, Test,
    },
};

pub const TESTS: &[Test] = &[
    Test {
        name: "rates.every_second",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: every_second,
    },
    Test {
        name: "rates.crowd",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: crowd,
    },
    Test {
        name: "rates.change_and_release",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: change_and_release,
    },
    Test {
        name: "rates.sleepers_leave_theirs",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: sleepers,
    },
    Test {
        name: "rates.family",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: family,
    },
    Test {
        name: "rates.beside_a_domain",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: beside_a_domain,
    },
    Test {
        name: "rates.credits",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: credits,
    },
    Test {
        name: "rates.automatic",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: automatic,
    },
    Test {
        name: "rates.refusals",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: refusals,
    },
    Test {
        name: "rates.users",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: users,
    },
    Test {
        name: "rates.run",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: run_command,
    },
    Test {
        name: "rates.come_and_go",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: come_and_go,
    },
    Test {
        name: "rates.killed_daemon",
        cpus: Cpus::One,
        needs: Needs::NoDaemon,
        run: killed_daemon,
    },
    Test {
        name: "rates.operators_file",
        cpus: Cpus::One,
        needs: Needs::NoDaemon,
        run: operators_file,
    },
];

const SECOND: Duration = Duration::from_secs(1);
const WINDOW: Duration = Duration::from_secs(3);
/// The kernel's accounts are up to a tick old.
const SLACK: f64 = 0.02;

/// Reserves for a role as root.
fn reserve(role: &Role, class: &str, rate: &str) -> Outcome {
    let pid = role.pid().to_string();
    let said = consort(&["reserve", &pid, "--class", class, "--rate", rate])?;
    said.expect(0, &[])
}

fn release(role: &Role) -> Outcome {
    consort(&["release", &role.pid().to_string()])?.expect(0, &[])
}

/// `consort usage --json`: the list.
fn reservations() -> Result<Vec<Value>, String> {
    let said = consort(&["usage", "--json"])?;
    said.expect(0, &[])?;
    let usage: Value = serde_json::from_str(&said.out).map_err(|error| error.to_string())?;
    let list = usage["reservations"].as_array().cloned();
    list.ok_or_else(|| format!("usage has no list of reservations: {}", said.out))
}

fn hogs(number: usize) -> Result<Vec<Role>, String> {
    (0..number).map(|_| Role::ready("hog")).collect()
}

/// Fails unless the shares are as expected, within the slack.
fn expect_shares(roles: &[&Role], window: Duration, expected: &[f64]) -> Outcome {
    let got = shares(roles, window)?;
    let fits = |(got, expected): (&f64, &f64)| (got - expected).abs() < SLACK;
    check!(
        got.iter().zip(expected).all(fits),
        "shares {got:.4?} instead of {expected:.4?}"
    );
    Ok(())
}

/// Effective rates, all of them wanted: in each window of one second.
fn every_second() -> Outcome {
    await_no_reservations()?;
    let all = hogs(5)?;
    reserve(&all[0], "guaranteed", "0.3")?;
    reserve(&all[1], "guaranteed", "0.2")?;
    reserve(&all[2], "adaptive", "0.425")?;
    let roles: Vec<&Role> = all.iter().collect();
    std::thread::sleep(Duration::from_millis(300));
    for _ in 0..10 {
        expect_shares(&roles, SECOND, &[0.3, 0.2, 0.25, 0.125, 0.125])?;
    }
    for held in reservations()? {
        let (used, given) = (held["used"][0].as_f64(), held["given"].as_f64());
        let (used, given) = (used.unwrap_or_default(), given.unwrap_or_default());
        check!(
            (used - given).abs() < SLACK,
            "usage says that {used} of {given} are used: {held}"
        );
    }
    Ok(())
}

/// A hundred programs that have reserved nothing take nothing from one that has.
fn crowd() -> Outcome {
    await_no_reservations()?;
    let reserved = Role::ready("hog")?;
    reserve(&reserved, "guaranteed", "0.5")?;
    let crowd = hogs(100)?;
    let mut roles: Vec<&Role> = crowd.iter().collect();
    roles.push(&reserved);
    std::thread::sleep(Duration::from_millis(300));
    let got = shares(&roles, WINDOW)?;
    let share = got.last().copied().unwrap_or_default();
    // The adaptive class sleeps: its quarter goes to the others in proportion.
    let expected = 0.5 / 0.75;
    check!(
        (share - expected).abs() < SLACK,
        "the share is {share:.4} instead of {expected:.4}"
    );
    Ok(())
}

fn change_and_release() -> Outcome {
    await_no_reservations()?;
    let all = hogs(3)?;
    let roles: Vec<&Role> = all.iter().collect();
    reserve(&all[0], "guaranteed", "0.25")?;
    reserve(&all[1], "guaranteed", "0.25")?;
    expect_shares(&roles, WINDOW, &[1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0])?;
    // Another rate, in one request.
    reserve(&all[1], "guaranteed", "0.125")?;
    expect_shares(&roles, WINDOW, &[4.0 / 9.0, 2.0 / 9.0, 3.0 / 9.0])?;
    // Another class: three classes are active.
    reserve(&all[1], "adaptive", "0.125")?;
    expect_shares(&roles, WINDOW, &[0.5, 0.25, 0.25])?;
    release(&all[0])?;
    expect_shares(&roles, WINDOW, &[0.25, 0.5, 0.25])?;
    release(&all[1])?;
    let third = 1.0 / 3.0;
    expect_shares(&roles, WINDOW, &[third, third, third])?;
    let left = reservations()?;
    check!(left.is_empty(), "there still are {left:?}");
    Ok(())
}

/// What a stopped program has reserved goes to the others in proportion, and is its own again when it goes on.
fn sleepers() -> Outcome {
    await_no_reservations()?;
    let all = hogs(3)?;
    let roles: Vec<&Role> = all.iter().collect();
    reserve(&all[0], "guaranteed", "0.5")?;
    reserve(&all[1], "adaptive", "0.25")?;
    for _ in 0..3 {
        all[0].signal(Signal::SIGSTOP)?;
        std::thread::sleep(Duration::from_millis(300));
        expect_shares(&roles, SECOND, &[0.0, 0.5, 0.5])?;
        all[0].signal(Signal::SIGCONT)?;
        std::thread::sleep(Duration::from_millis(300));
        expect_shares(&roles, SECOND, &[0.5, 0.25, 0.25])?;
    }
    Ok(())
}

/// A process' threads and its children share what it has reserved, those that come later too; released, none has it.
fn family() -> Outcome {
    await_no_reservations()?;
    let parent = Role::ready("family")?;
    let others = hogs(2)?;
    reserve(&parent, "guaranteed", "0.5")?;
    parent.command(1)?;
    let child = parent.get(Field::Extra) as u32;
    let measure = || -> Result<(f64, f64), String> {
        let times = || -> Result<[u64; 4], String> {
            let child = machine::cpu_time_ns(child)?;
            let [one, other] = [others[0].cpu_time_ns()?, others[1].cpu_time_ns()?];
            Ok([parent.cpu_time_ns()?, child, one, other])
        };
        std::thread::sleep(Duration::from_millis(300));
        let before = times()?;
        std::thread::sleep(WINDOW);
        let after = times()?;
        let got: Vec<f64> = (0..4).map(|i| (after[i] - before[i]) as f64).collect();
        let all: f64 = got.iter().sum();
        Ok((got[0] / all, got[1] / all))
    };
    // Two hog threads of the parent and one of the child.
    let (own, childs) = measure()?;
    let family = 0.5 / 0.75;
    check!(
        (own + childs - family).abs() < SLACK && (childs - family / 3.0).abs() < SLACK,
        "the parent got {own:.4} and the child {childs:.4}, of {family:.4}"
    );
    let held = reservations()?;
    check!(
        held[0]["threads"].as_u64() == Some(3),
        "three threads share it, not {held:?}"
    );
    release(&parent)?;
    let (own, childs) = measure()?;
    check!(
        (own - 0.4).abs() < SLACK && (childs - 0.2).abs() < SLACK,
        "released, the parent got {own:.4} and the child {childs:.4}"
    );
    Ok(())
}

/// A cooperating program that is always due borrows from nobody's reservation.
fn beside_a_domain() -> Outcome {
    let reserved = Role::ready("hog")?;
    let liar = Role::ready("polite-liar rates due")?;
    reserve(&reserved, "guaranteed", "0.5")?;
    std::thread::sleep(Duration::from_millis(300));
    let expected = 0.5 / 0.75;
    expect_shares(&[&reserved, &liar], WINDOW, &[expected, 1.0 - expected])?;
    let pid = liar.pid().to_string();
    let said = consort(&["reserve", &pid, "--class", "adaptive", "--rate", "0.1"])?;
    said.expect(1, &["member of a domain", "leave"])
}

/// 001 Figures 4.4 and 4.5: a client lends its server most of what it has, and takes it back; and what is lent on comes
/// back when its holder ends.
fn credits() -> Outcome {
    await_no_reservations()?;
    let all = hogs(3)?;
    let roles: Vec<&Role> = all.iter().collect();
    let [client, server, other] = [0, 1, 2].map(|i: usize| all[i].pid().to_string());
    reserve(&all[0], "guaranteed", "0.4")?;
    reserve(&all[1], "guaranteed", "0.1")?;
    // The adaptive class sleeps: its quarter goes to the others in proportion.
    let expect = |client: f64, server: f64, other: f64| {
        expect_shares(
            &roles,
            WINDOW,
            &[client / 0.75, server / 0.75, other / 0.75],
        )
    };
    expect(0.4, 0.1, 0.25)?;
    consort(&["lend", &client, &server, "0.3"])?.expect(0, &[])?;
    expect(0.1, 0.4, 0.25)?;
    consort(&["lend", &server, &client, "0.1"])?.expect(1, &["circle"])?;
    consort(&["lend", &client, &server, "0.1"])?.expect(1, &["at most 0.0999"])?;
    consort(&["recollect", &client, &server, "0.1"])?.expect(0, &[])?;
    expect(0.2, 0.3, 0.25)?;
    // Lent on, to one that has reserved nothing: two hogs are in the class with what three had.
    consort(&["lend", &server, &other, "0.2"])?.expect(0, &[])?;
    expect_shares(&roles, WINDOW, &[0.4, 0.2, 0.4])?;
    release(&all[1])?;
    // The server's end brings the client its own back, and leaves the other without any.
    expect_shares(&roles, WINDOW, &[0.5 / 0.75, 0.125 / 0.75, 0.125 / 0.75])?;
    let left = reservations()?;
    check!(
        left.len() == 1 && left[0]["lent"].as_array().is_some_and(Vec::is_empty),
        "there are {left:?}"
    );
    Ok(())
}

/// An automatic rate grows while its program uses all that it is given, up to its limit and what the class has.
fn automatic() -> Outcome {
    await_no_reservations()?;
    let all = hogs(2)?;
    reserve(&all[0], "guaranteed", "auto:0.05-0.4")?;
    // Else the class would give it all from the beginning.
    reserve(&all[1], "guaranteed", "0.1")?;
    wait_until(2 * PATIENCE, "the rate to be 0.4", || {
        let asked = reservations()?[0]["asked"].as_f64();
        match asked {
            Some(0.4) => Ok(true),
            _ => Err(format!("it is {asked:?}")),
        }
    })?;
    all[0].signal(Signal::SIGSTOP)?;
    wait_until(2 * PATIENCE, "the rate to be 0.05", || {
        Ok(reservations()?[0]["asked"].as_f64() == Some(0.05))
    })
}

fn refusals() -> Outcome {
    await_no_reservations()?;
    let role = Role::ready("hog")?;
    let pid = role.pid().to_string();
    reserve(&role, "guaranteed", "0.3")?;
    let before = reservations()?;
    for (number, class, rate, period, code, words) in [
        (
            &*pid,
            "guaranteed",
            "0",
            "30ms",
            2,
            &["rate 0", "0.0001"][..],
        ),
        (&pid, "guaranteed", "-0.5", "30ms", 2, &["out of range"]),
        (&pid, "guaranteed", "nan", "30ms", 2, &["nan", "no rate"]),
        (
            &pid,
            "guaranteed",
            "1.01",
            "30ms",
            2,
            &["out of range", "to 1"],
        ),
        (&pid, "golden", "0.1", "30ms", 1, &["golden", "guaranteed"]),
        (
            &pid,
            "flexible",
            "0.1",
            "30ms",
            1,
            &["flexible", "guaranteed"],
        ),
        (
            &pid,
            "guaranteed",
            "0.1",
            "999us",
            2,
            &["period", "1ms to 10s"],
        ),
        (
            &pid,
            "guaranteed",
            "0.1",
            "11s",
            2,
            &["period", "1ms to 10s"],
        ),
        ("4000000", "guaranteed", "0.1", "30ms", 1, &["4000000"]),
    ] {
        let said = consort(&[
            "reserve", number, "--class", class, "--rate", rate, "--period", period,
        ])?;
        said.expect(code, words)?;
    }
    let said = consort(&["release", "1"])?;
    said.expect(1, &["1 has no reservation"])?;
    let said = consort(&["class", "set", "guaranteed", "1%"])?;
    said.expect(1, &["has admitted rates of 0.3"])?;
    let said = consort(&["class", "remove", "guaranteed"])?;
    said.expect(1, &["release 0.3 first"])?;
    let fields = |list: &[Value]| -> Vec<String> {
        let show = |held: &Value| format!("{} {} {}", held["number"], held["asked"], held["class"]);
        list.iter().map(show).collect()
    };
    let after = reservations()?;
    check!(
        fields(&before) == fields(&after),
        "refusals changed {before:?} to {after:?}"
    );
    Ok(())
}

fn users() -> Outcome {
    await_no_reservations()?;
    let (alices, bobs) = (Role::ready_as(ALICE, "hog")?, Role::ready_as(BOB, "hog")?);
    let [alices_pid, bobs_pid] = [&alices, &bobs].map(|role| role.pid().to_string());
    let ask = |uid, pid: &str, rate| {
        consort_as(
            uid,
            &["reserve", pid, "--class", "adaptive", "--rate", rate],
        )
    };
    ask(ALICE, &alices_pid, "0.2")?.expect(0, &[])?;
    ask(ALICE, &bobs_pid, "0.1")?.expect(4, &["belongs to user 1001"])?;
    ask(BOB, &bobs_pid, "0.3")?.expect(1, &["are left"])?;
    consort_as(BOB, &["release", &alices_pid])?.expect(4, &["belongs to user 1000"])?;
    consort_as(BOB, &["class", "set", "adaptive", "10%"])?.expect(4, &["root"])?;
    let said = consort_as(BOB, &["usage"])?;
    check!(said.out.contains("no reservations"), "Bob sees {said:?}");
    // What has ended holds nothing.
    drop(alices);
    wait_until(PATIENCE, "the part of who has ended to be free", || {
        Ok(ask(BOB, &bobs_pid, "0.3")?.code == 0)
    })?;
    drop(bobs);
    await_no_reservations()
}

/// `consort run --class` starts a command that has its rate, and refuses one that cannot have it.
fn run_command() -> Outcome {
    await_no_reservations()?;
    let mut command = Command::new("consort");
    let words = "run --class guaranteed --rate 0.2 --period 33ms -- consort usage --json";
    command.args(words.split(' '));
    let said = run(command)?;
    said.expect(0, &[])?;
    let usage: Value = serde_json::from_str(&said.out).map_err(|error| error.to_string())?;
    let own = &usage["reservations"][0];
    check!(
        own["command"] == "consort" && own["asked"] == 0.2 && own["period_ns"] == 33_000_000,
        "the command sees {usage}"
    );
    await_no_reservations()?;
    let mut command = Command::new("consort");
    command.args("run --class guaranteed --rate 0.6 -- touch /tmp/was-started".split(' '));
    run(command)?.expect(1, &["0.5 are left"])?;
    check!(
        !std::path::Path::new("/tmp/was-started").exists(),
        "the command was started without its rate"
    );
    await_no_reservations()
}

fn await_no_reservations() -> Outcome {
    wait_until(PATIENCE, "reservations of the dead to end", || {
        Ok(reservations()?.is_empty())
    })
}

/// Reservations are made, changed, moved and released while their programs run, fork and die.
fn come_and_go() -> Outcome {
    let hog = Role::ready("hog")?;
    for round in 0..15 {
        let mut busy = Role::ready("threads 200 10")?;
        reserve(&busy, "guaranteed", "0.3")?;
        reserve(&hog, "guaranteed", "0.1")?;
        reserve(
            &busy,
            if round % 2 == 0 {
                "adaptive"
            } else {
                "guaranteed"
            },
            "0.2",
        )?;
        if round % 3 == 0 {
            release(&busy)?;
        }
        if round % 3 == 1 {
            busy.finish()?;
        }
        release(&hog)?;
    }
    await_no_reservations()?;
    let worked = hog.cpu_time_ns()?;
    std::thread::sleep(Duration::from_millis(300));
    check!(hog.cpu_time_ns()? > worked, "the hog stands still");
    Ok(())
}

/// The daemon is killed; the next one has the reservations of those that live.
fn killed_daemon() -> Outcome {
    let daemon = Daemon::start(&[])?;
    let all = hogs(4)?;
    let roles: Vec<&Role> = all[..3].iter().collect();
    for role in &all[..2] {
        reserve(role, "guaranteed", "0.25")?;
    }
    reserve(&all[3], "adaptive", "0.1")?;
    daemon.signal(Signal::SIGKILL)?;
    await_state("disabled")?;
    all[3].signal(Signal::SIGKILL)?;
    let again = Daemon::start(&[])?;
    let held: Vec<_> = reservations()?
        .into_iter()
        .map(|held| held["number"].as_u64())
        .collect();
    check!(
        held == [Some(u64::from(all[0].pid())), Some(u64::from(all[1].pid()))],
        "restored are {held:?}"
    );
    std::thread::sleep(Duration::from_millis(300));
    let third = 1.0 / 3.0;
    expect_shares(&roles, WINDOW, &[third, third, third])?;
    release(&all[1])?;
    expect_shares(&roles, WINDOW, &[2.0 * third, third / 2.0, third / 2.0])?;
    drop(again);
    check!(
        !std::path::Path::new(SOCKET).exists(),
        "the daemon's socket is still there"
    );
    Ok(())
}

fn operators_file() -> Outcome {
    let path = "/tmp/classes.toml";
    let write = |text: &str| std::fs::write(path, text).map_err(|error| error.to_string());
    write("[class.gold]\ncapacity = '60%'\n[class.lead]\ncapacity = 0.05\noverbooking = 'unlimited'\n")?;
    let daemon = Daemon::start(&["--classes", path])?;
    let all = hogs(4)?;
    let roles: Vec<&Role> = all.iter().collect();
    reserve(&all[0], "gold", "0.6")?;
    reserve(&all[1], "lead", "0.9")?;
    reserve(&all[2], "lead", "0.3")?;
    std::thread::sleep(Duration::from_millis(300));
    expect_shares(&roles, WINDOW, &[0.6, 0.0375, 0.0125, 0.35])?;
    drop(daemon);
    write("[class.gold]\ncapacity = '60 %'\n\n[class.lead]\ncapacity = 0.4\n")?;
    consort(&["serve", "--classes", path])?.expect(2, &["lead", "at most 0.39"])?;
    write("[class.gold\n")?;
    consort(&["serve", "--classes", path])?.expect(2, &[path, "line 1"])?;
    await_state("disabled")
}
