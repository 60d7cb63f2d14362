// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort late` names planted causes, also while the stock scheduler is in charge; `consort status` says how late members
//! were.

use std::{os::unix::process::CommandExt, process::Command};

use serde_json::Value;

use super::load::allow;
use crate::{
    check,
    suite::{
        board::Field,
        consort::{consort, consort_as, run, status},
        process::{set_realtime, Role, ALICE},
        Cpus, Needs, Outcome, Test,
    },
};

pub const TESTS: &[Test] = &[
    Test {
        name: "late.stock_scheduler",
        cpus: Cpus::One,
        needs: Needs::NoDaemon,
        run: stock,
    },
    Test {
        name: "late.consort",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: scheduled,
    },
    Test {
        name: "late.status_of_members",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: members,
    },
    Test {
        name: "late.stock_scheduler_of_several_cpus",
        cpus: Cpus::Many,
        needs: Needs::NoDaemon,
        run: stock_of_several,
    },
    Test {
        name: "late.consort_of_several_cpus",
        cpus: Cpus::Many,
        needs: Needs::Daemon,
        run: consort_of_several,
    },
];

/// Whom `consort late` blames, why, for how much of the long waits, in percent; by what it is called for who reads a failure.
type Blamed = (u64, String, u64, String);

/// What `consort late` says of the long waits of a process, the most to blame first.
fn blame(sufferer: &Role, time: &str) -> Result<Vec<Blamed>, String> {
    let pid = sufferer.pid().to_string();
    let fixed = ["late", "--for", time, "--over", "500us", "--json", &pid];
    // Loading is work, and the planted ones leave little time for it.
    let mut command = Command::new("consort");
    command.args(fixed);
    // SAFETY: one system call, without memory of ours.
    unsafe {
        command.pre_exec(|| match libc::setpriority(libc::PRIO_PROCESS, 0, -20) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    let said = run(command)?;
    said.expect(0, &[])?;
    let told: Value = serde_json::from_str(&said.out).map_err(|error| error.to_string())?;
    let tasks = told["tasks"].as_array().ok_or("no tasks")?;
    let task = tasks
        .iter()
        .find(|task| task["pid"] == sufferer.pid())
        .ok_or_else(|| format!("it is not seen to wait: {told}"))?;
    let list = task["blame"].as_array().ok_or("no blame")?;
    let ns = |it: &Value| it["ns"].as_u64().unwrap_or_default();
    let all_ns: u64 = list.iter().map(ns).sum();
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    let entry = |it: &Value| {
        let pid = it["pid"].as_u64().unwrap_or_default();
        let percent = ns(it) * 100 / all_ns.max(1);
        (pid, text(&it["why"]), percent, text(&it["command"]))
    };
    Ok(list.iter().map(entry).collect())
}

/// Plants a cause beside somebody who suffers from it.
fn plant(cause: &str, reasons: &[&str]) -> Outcome {
    let cause = Role::ready(cause)?;
    names(&Role::ready("sufferer")?, "700ms", &cause, reasons)
}

/// A thread that suffers from the cause must hear of it, for one of these reasons, and for a good part of what was waited. Others
/// of a guest that has just booted may have a part in it, too.
fn names(sufferer: &Role, time: &str, cause: &Role, reasons: &[&str]) -> Outcome {
    const PART_PERCENT: u64 = 20;
    let blame = blame(sufferer, time)?;
    let is_it = |(pid, why, percent, _): &Blamed| {
        (*pid == u64::from(cause.pid()) || why == "interrupt")
            && reasons.contains(&why.as_str())
            && *percent >= PART_PERCENT
    };
    let is_named = blame.iter().any(is_it);
    say(&cause.name, is_named);
    check!(
        is_named,
        "planted {:?} (process {}, {reasons:?}), and blamed are {blame:?}",
        cause.name,
        cause.pid()
    );
    Ok(())
}

/// For bench/first/causes, which counts.
fn say(cause: &str, is_named: bool) {
    println!(
        "cause {cause}: {}",
        if is_named { "named" } else { "missed" }
    );
}

/// All of them are tried, and nothing is wrong with any.
fn all<const N: usize>(outcomes: [Outcome; N]) -> Outcome {
    let wrong: Vec<String> = outcomes.into_iter().filter_map(Result::err).collect();
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("\n")),
    }
}

fn stock() -> Outcome {
    all([
        plant("hog", &["stock slice"]),
        plant("bursts", &["real time"]),
        plant("interrupts", &["interrupt"]),
    ])?;
    consort_as(ALICE, &["late", "--for", "10ms"])?.expect(4, &["root"])?;
    consort(&["late", "--for", "10"])?.expect(2, &["no unit"])
}

fn scheduled() -> Outcome {
    all([
        plant("hog", &["slice"]),
        plant("bursts", &["real time"]),
        plant_reserved(),
        // 0.9 ms of each 6: less than its share beside one other.
        plant("events due 1000 6000", &["due event", "borrowed"]),
        plant_borrowing(),
    ])
}

fn plant_reserved() -> Outcome {
    let hog = Role::ready("hog")?;
    let pid = hog.pid().to_string();
    consort(&["reserve", &pid, "--class", "guaranteed", "--rate", "40%"])?.expect(0, &[])?;
    names(&Role::ready("sufferer")?, "700ms", &hog, &["reserved"])
}

/// 1.8 ms of each 3, beside two others: ahead of its share, as far as that goes.
fn plant_borrowing() -> Outcome {
    let hog = Role::ready("hog")?;
    let greedy = Role::ready("events greedy 2000 3000")?;
    let sufferer = Role::ready("sufferer")?;
    let blame = blame(&sufferer, "700ms")?;
    let is_it = |(pid, why, ..): &Blamed| *pid == u64::from(greedy.pid()) && why == "borrowed";
    let is_named = blame.iter().any(is_it);
    say(&greedy.name, is_named);
    check!(
        is_named,
        "planted borrowing of {} beside {}, and blamed are {blame:?}",
        greedy.pid(),
        hog.pid()
    );
    Ok(())
}

/// Also somebody who hardly gets the CPU, so that waits go on from before looking on began and until after it ended.
fn stock_of_several() -> Outcome {
    on_one_of_several(|hog, sufferer| {
        let turns = names(sufferer, "1s", hog, &["stock slice"]);
        set_realtime(hog.pid(), true)?;
        let starves = names(sufferer, "1s", hog, &["real time"]);
        set_realtime(hog.pid(), false)?;
        all([turns, starves])
    })
}

fn consort_of_several() -> Outcome {
    on_one_of_several(|hog, sufferer| names(sufferer, "1s", hog, &["slice"]))
}

/// Beside CPUs that have time: the task that runs on the only one that another may use is named, and none that runs elsewhere.
fn on_one_of_several(look: impl FnOnce(&Role, &Role) -> Outcome) -> Outcome {
    let (here, elsewhere) = ([2], [1]);
    let bystander = Role::ready("hog")?;
    allow(&bystander, &elsewhere)?;
    let (hog, sufferer) = (Role::ready("hog")?, Role::ready("sufferer")?);
    allow(&hog, &here)?;
    allow(&sufferer, &here)?;
    look(&hog, &sufferer)
}

/// A member that is punctual, and one that sleeps outside of poll.
fn members() -> Outcome {
    let punctual = Role::ready("events told 1000 10000")?;
    let sleeper = Role::ready("obedient told-too")?;
    punctual.await_progress(Field::Served, 30)?;
    sleeper.command(1)?;
    let status = status()?;
    let member = |role: &Role| -> Result<Value, String> {
        let clients = status["clients"].as_array().ok_or("no clients")?;
        let client = clients.iter().find(|client| client["pid"] == role.pid());
        let client = client.ok_or_else(|| format!("{:?} is not listed", role.name))?;
        Ok(client["members"][0].clone())
    };
    let told = member(&punctual)?;
    let late = |field: &str| told["tardiness"][field].as_u64().unwrap_or_default();
    check!(
        late("events") >= 20
            && late("mean_ns") <= late("max_ns")
            && late("p99_ns") <= late("max_ns"),
        "of the punctual one it says {told}"
    );
    check!(
        late("max_ns") > 0 && told["used_ns"].as_u64() > Some(1_000_000),
        "{told}"
    );
    let told = member(&sleeper)?;
    check!(
        told["why"] == "slept outside of poll" && told["tardiness"]["demotions"].as_u64() > Some(0),
        "of the one that slept it says {told}"
    );
    sleeper.command(3)?;
    let said = consort(&["status"])?;
    check!(said.out.contains("slept outside of poll"), "{}", said.out);
    Ok(())
}
