// SPDX-License-Identifier: MIT OR Apache-2.0
//! status, set, run.

use std::time::Duration;

use serde_json::Value;

use crate::{
    check,
    suite::{
        consort::{consort, consort_as, status},
        process::{wait_until, Role, ALICE, PATIENCE},
        Cpus, Needs, Outcome, Test,
    },
};

pub const TESTS: &[Test] = &[
    Test {
        name: "command.status",
        cpus: Cpus::Any,
        needs: Needs::Daemon,
        run: status_has_all,
    },
    Test {
        name: "command.counters_move",
        cpus: Cpus::Any,
        needs: Needs::Daemon,
        run: counters_move,
    },
    Test {
        name: "command.set",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: set,
    },
    Test {
        name: "command.set_bad_values",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: set_bad_values,
    },
    Test {
        name: "command.set_acts",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: set_acts,
    },
    Test {
        name: "command.run",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run,
    },
    Test {
        name: "command.run_domain",
        cpus: Cpus::Any,
        needs: Needs::Daemon,
        run: run_domain,
    },
    Test {
        name: "command.run_bad",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: run_bad,
    },
];

fn status_has_all() -> Outcome {
    let _member = Role::ready_as(ALICE, "ticker fields 20")?;
    let status = status()?;
    for field in [
        "version",
        "scheduler",
        "tunables",
        "counters",
        "daemon",
        "domains",
        "clients",
    ] {
        check!(!status[field].is_null(), "status lacks {field}: {status}");
    }
    check!(
        status["version"] == 1 && status["scheduler"]["state"] == "running",
        "{status}"
    );
    let domain = status["domains"]
        .as_array()
        .and_then(|domains| domains.iter().find(|d| d["name"] == "fields"));
    let Some(domain) = domain else {
        return Err(format!("the domain is not listed: {status}"));
    };
    let fits = domain["uid"] == ALICE
        && domain["members"]
            .as_array()
            .is_some_and(|members| members.len() == 1);
    check!(fits, "the domain is not described as it is: {domain}");
    let client = status["clients"]
        .as_array()
        .and_then(|clients| clients.iter().find(|c| c["uid"] == ALICE));
    check!(
        client.is_some_and(|client| client["members"][0]["domain"] == domain["id"]),
        "{status}"
    );
    // The text for people names the domain, too.
    let said = consort(&["status"])?;
    check!(said.code == 0 && said.out.contains("fields"), "{said:?}");
    Ok(())
}

fn counters() -> Result<Vec<(String, u64)>, String> {
    let status = status()?;
    let counters = status["counters"]
        .as_object()
        .ok_or("counters is no object")?;
    let number = |value: &Value| value.as_u64().ok_or("a counter is no number");
    counters
        .iter()
        .map(|(name, value)| Ok((name.clone(), number(value)?)))
        .collect()
}

fn counters_move() -> Outcome {
    let before = counters()?;
    let _hogs = [Role::ready("hog")?, Role::ready("hog")?];
    let members = [Role::ready("member moving")?, Role::ready("member moving")?];
    let ticker = Role::ready("ticker moving 5")?;
    for member in &members {
        member.await_progress(crate::suite::board::Field::Polls, 200)?;
    }
    ticker.await_progress(crate::suite::board::Field::Served, 20)?;
    let after = counters()?;
    for ((name, before), (_, after)) in before.iter().zip(&after) {
        check!(
            after >= before,
            "the counter {name} fell from {before} to {after}"
        );
    }
    let moved = |name: &str| {
        let of = |list: &[(String, u64)]| {
            list.iter()
                .find(|(n, _)| n == name)
                .map_or(0, |(_, value)| *value)
        };
        of(&after) > of(&before)
    };
    for name in [
        "switches",
        "wakeups",
        "polls",
        "sleeps",
        "due_choices",
        "timers",
    ] {
        check!(
            moved(name),
            "the counter {name} does not move: {before:?} {after:?}"
        );
    }
    Ok(())
}

fn set() -> Outcome {
    let before = status()?["tunables"].clone();
    let said = consort(&["set", "granularity", "10ms"])?;
    check!(said.code == 0 && said.out.contains("10ms"), "{said:?}");
    let said = consort(&["set", "min-slice", "200us"])?;
    check!(said.code == 0 && said.out.contains("200us"), "{said:?}");
    let now = status()?["tunables"].clone();
    check!(
        now["granularity_ns"] == 10_000_000 && now["min_slice_ns"] == 200_000,
        "{now}"
    );
    restore(&before)
}

fn restore(tunables: &Value) -> Outcome {
    let ns = |name: &str| format!("{}ns", tunables[name]);
    // A slice that is longer than the granularity is refused: first make room for any.
    consort(&["set", "min-slice", "100us"])?.expect(0, &[])?;
    consort(&["set", "granularity", &ns("granularity_ns")])?.expect(0, &[])?;
    consort(&["set", "min-slice", &ns("min_slice_ns")])?.expect(0, &[])
}

fn set_bad_values() -> Outcome {
    let before = status()?["tunables"].clone();
    let cases: [(&[&str], &[&str]); 13] = [
        (&["granularity", "10"], &["no unit", "10ms"]),
        (&["granularity", "10parsecs"], &["unknown unit", "parsecs"]),
        (&["granularity", ""], &["no unit", "10ms"]),
        (&["granularity", "ms"], &["no number"]),
        (&["granularity", "1.2.3ms"], &["no number"]),
        (&["granularity", "0ms"], &["out of range", "100us", "1s"]),
        (&["granularity", "99us"], &["out of range", "100us", "1s"]),
        (&["granularity", "2s"], &["out of range", "100us", "1s"]),
        (&["granularity", "99999999999999999999s"], &["too long"]),
        (&["min-slice", "9us"], &["out of range", "10us"]),
        (&["min-slice", "50ms"], &["out of range"]),
        (&["speed", "10ms"], &["speed", "granularity"]),
        (&["granularity"], &["DURATION"]),
    ];
    for (arguments, words) in cases {
        let mut all = vec!["set"];
        all.extend(arguments);
        consort(&all)?
            .expect(2, words)
            .map_err(|text| format!("{arguments:?}: {text}"))?;
    }
    // A sign looks like an option.
    let said = consort(&["set", "granularity", "-1ms"])?;
    check!(said.code == 2 && !said.err.is_empty(), "{said:?}");
    let after = &status()?["tunables"];
    check!(
        *after == before,
        "refused values changed the tunables: {before} became {after}"
    );
    Ok(())
}

/// Shorter turns take the CPU from two hogs more often.
fn set_acts() -> Outcome {
    let before = status()?["tunables"].clone();
    let hogs = [Role::ready("hog")?, Role::ready("hog")?];
    let seen = || -> Result<(u64, u64), String> {
        let preempted = hogs
            .iter()
            .map(|hog| preempted(hog.pid()))
            .sum::<Result<u64, String>>()?;
        Ok((preempted, hogs[0].cpu_time_ns()? + hogs[1].cpu_time_ns()?))
    };
    let mut per_ns = Vec::new();
    for granularity in ["80ms", "4ms"] {
        consort(&["set", "granularity", granularity])?.expect(0, &[])?;
        let before = seen()?;
        std::thread::sleep(Duration::from_secs(2));
        let after = seen()?;
        per_ns.push((after.0 - before.0) as f64 / (after.1 - before.1) as f64);
    }
    restore(&before)?;
    let ratio = per_ns[1] / per_ns[0];
    // Twenty by the tunable alone; other tasks preempt, too.
    check!(
        ratio > 3.0,
        "with a granularity of 4 ms hogs are preempted {ratio:.2} times as often as with 80 ms"
    );
    Ok(())
}

/// How often the kernel took the CPU from a process that wanted it.
pub(super) fn preempted(pid: u32) -> Result<u64, String> {
    let path = format!("/proc/{pid}/status");
    let text =
        std::fs::read_to_string(&path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let line = text
        .lines()
        .find(|line| line.starts_with("nonvoluntary_ctxt_switches:"));
    let number = line.and_then(|line| line.split_whitespace().last()?.parse().ok());
    number.ok_or_else(|| format!("{path} counts no switches"))
}

fn run() -> Outcome {
    let said = consort_as(
        ALICE,
        &[
            "run",
            "--",
            "sh",
            "-c",
            "grep -E 'ext.enabled|policy' /proc/self/sched; id -u; exit 37",
        ],
    )?;
    check!(said.code == 37, "{said:?}");
    let fields: Vec<&str> = said.out.split_whitespace().collect();
    check!(
        fields.ends_with(&["1000"]),
        "the command does not run as its user: {said:?}"
    );
    let value = |name: &str| {
        let line = said.out.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.rsplit(':').next())
            .map(|value| value.trim().to_owned())
    };
    const SCHED_EXT: &str = "7";
    check!(
        value("policy").as_deref() == Some(SCHED_EXT),
        "the policy is not SCHED_EXT: {said:?}"
    );
    check!(
        value("ext.enabled").as_deref() == Some("1"),
        "not under the scheduler: {said:?}"
    );
    Ok(())
}

fn run_domain() -> Outcome {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut started = std::process::Command::new("consort")
        .args(["run", "--domain", "named-by-run", "--"])
        .arg(program)
        .args(["role", "joiner"])
        .spawn()
        .map_err(|error| error.to_string())?;
    let seen = wait_until(
        PATIENCE,
        "a member in the domain that `consort run` named",
        || {
            let status = status()?;
            let domains = status["domains"].as_array().ok_or("no domains")?;
            match domains
                .iter()
                .any(|domain| domain["name"] == "named-by-run")
            {
                true => Ok(true),
                false => Err(format!("the domains are {domains:?}")),
            }
        },
    );
    let _ = started.kill();
    let _ = started.wait();
    seen
}

fn run_bad() -> Outcome {
    consort(&["run", "--", "/no/such/command"])?.expect(127, &["/no/such/command"])?;
    consort(&["run", "--", "/etc/passwd"])?.expect(126, &["/etc/passwd"])?;
    consort(&["run"])?.expect(2, &["COMMAND"])?;
    for bad in ["a/b", "tab\there", &"x".repeat(64)] {
        let said = consort(&["run", "--domain", bad, "--", "true"])?;
        check!(said.code == 2 && !said.err.is_empty(), "{bad:?}: {said:?}");
    }
    consort(&["run", "--domain", &"x".repeat(63), "--", "true"])?.expect(0, &[])
}
