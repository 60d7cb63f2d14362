// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options and calls of the public interfaces have their effect on an overloaded CPU: each is compared, within one test,
//! with what there is without it. Programs here know Consort by consort.h. Orders of classes, credits of the command and
//! classes of the operator's file are in rates/; nice values and cgroups in fairness.rs.

use std::time::Duration;

use super::rates::{await_no_reservations, expect_shares_within, hogs};
use crate::{
    check,
    suite::{
        board::Field,
        consort::{consort, counter},
        machine,
        process::{shares, wait_until, Role, PATIENCE},
        Needs, Outcome, Test,
    },
};

pub const TESTS: &[Test] = &[
    Test::on_one("effects.orders", Needs::SteadyDaemon, orders),
    Test::on_one(
        "effects.preempt_and_event",
        Needs::SteadyDaemon,
        preempt_and_event,
    ),
    Test::on_one(
        "effects.ways_of_waiting",
        Needs::SteadyDaemon,
        ways_of_waiting,
    ),
    Test::on_one("effects.loops", Needs::SteadyDaemon, loops),
    Test::on_one("effects.leaving", Needs::SteadyDaemon, leaving),
    Test::on_one(
        "effects.requests_of_the_header",
        Needs::SteadyDaemon,
        requests_of_the_header,
    ),
    Test::on_one(
        "effects.run_and_classes",
        Needs::SteadyDaemon,
        run_and_classes,
    ),
    Test::on_one("effects.one_thread", Needs::SteadyDaemon, one_thread),
    Test::on_one("effects.slices", Needs::SteadyDaemon, slices),
];

const SETTLE: Duration = Duration::from_millis(300);
const WINDOW: Duration = Duration::from_secs(1);
/// The kernel's accounts are up to a tick old.
const SLACK: f64 = 0.03;

fn expect_shares(when: &str, roles: &[&Role], expected: &[f64]) -> Outcome {
    std::thread::sleep(SETTLE);
    expect_shares_within(SLACK, roles, WINDOW, expected).map_err(|why| format!("{when}: {why}"))
}

/// Two members of a domain of this order: what they say, and how many times as much the first has as the second.
struct Pair {
    roles: [Role; 2],
    times: f64,
}

fn pair(order: &str, first: &str, second: &str) -> Result<Pair, String> {
    let speaker = |says: &str| Role::ready(&format!("speaker {order} run_us=500 {says}"));
    Ok(Pair {
        roles: [speaker(first)?, speaker(second)?],
        times: 0.0,
    })
}

/// What members publish orders them, or what the scheduler measures does. All domains at once, and a hog: each has its part.
fn orders() -> Outcome {
    let (important, unimportant) = ("priority=1 key=9", "priority=2 key=0");
    let mut pairs = [
        pair("by-priority", important, unimportant)?,
        pair("by-key", "priority=1 key=3", important)?,
        pair("by-service order=2", important, unimportant)?,
        // One is due after waiting for 200 ms, the other one after 12 ms.
        pair(
            "by-progress order=1",
            "due_ms=200 priority=2",
            "due_ms=12 priority=1",
        )?,
    ];
    let _hog = Role::ready("hog")?;
    std::thread::sleep(SETTLE);
    let roles: Vec<&Role> = pairs.iter().flat_map(|pair| &pair.roles).collect();
    let got = shares(&roles, WINDOW)?;
    for (pair, got) in pairs.iter_mut().zip(got.chunks(2)) {
        pair.times = got[0] / got[1].max(0.001);
    }
    let times = pairs.each_ref().map(|pair| pair.times);
    let [by_priority, by_key, by_service, by_progress] = times;
    let as_expected =
        by_priority > 10.0 && by_key > 10.0 && (by_service - 1.0).abs() < 0.15 && by_progress > 2.0;
    check!(
        as_expected,
        "by priority, by key, by service and by progress one has {times:.2?} times as much as the other"
    );
    let told = pairs[0].roles[0].get(Field::Extra);
    check!(
        told == 2,
        "the other one waits with priority 2, and consort_others() says {told}"
    );
    Ok(())
}

struct Seen {
    late_us: f64,
    overruns: u64,
}

/// How late a member is on average beside two of its domain that do not poll for `run_us`, and a hog.
fn beside_slow(domain: &str, options: &str, run_us: u64) -> Result<Seen, String> {
    let words = format!("speaker {domain} {options} run_us={run_us} due_ms=60 priority=1");
    let _slow = [Role::ready(&words)?, Role::ready(&words)?];
    let punctual = Role::ready(&format!(
        "punctual {domain} polls {options} period_ms=10 run_us=200"
    ))?;
    let _hog = Role::ready("hog")?;
    let overruns = counter("overruns")?;
    let late_us = mean_lateness_us(&[&punctual])?[0];
    Ok(Seen {
        late_us,
        overruns: counter("overruns")? - overruns,
    })
}

/// Over a window in which each role serves at least a few events.
fn mean_lateness_us(roles: &[&Role]) -> Result<Vec<f64>, String> {
    let seen = |role: &&Role| (role.get(Field::Served), role.get(Field::Late));
    std::thread::sleep(SETTLE);
    let before: Vec<(u64, u64)> = roles.iter().map(seen).collect();
    std::thread::sleep(WINDOW);
    let mut means = Vec::new();
    for (role, before) in roles.iter().zip(before) {
        let after = seen(role);
        let served = after.0 - before.0;
        check!(served >= 20, "{:?} served {served} due events", role.name);
        means.push((after.1 - before.1) as f64 / served as f64 / 1e3);
    }
    Ok(means)
}

/// A due event waits for another member's event: for as long as the domain declares; and not at all where it preempts.
fn preempt_and_event() -> Outcome {
    const WITHIN_GRACE_US: u64 = 1700;
    const BEYOND_GRACE_US: u64 = 5500;
    let asked = beside_slow("asked", "event_us=2000", WITHIN_GRACE_US)?;
    let preempted = beside_slow("preempted", "event_us=2000 flags=1", WITHIN_GRACE_US)?;
    check!(
        asked.late_us > 2.0 * preempted.late_us,
        "late by {:.0} us, and by {:.0} us where members are preempted",
        asked.late_us,
        preempted.late_us
    );
    let long = beside_slow("long", "event_us=2000", BEYOND_GRACE_US)?;
    let short = beside_slow("short", "event_us=200", BEYOND_GRACE_US)?;
    check!(
        long.late_us > 1.5 * short.late_us,
        "late by {:.0} us where 2 ms are declared, by {:.0} us where it is 0.2 ms",
        long.late_us,
        short.late_us
    );
    let never = beside_slow("never", "event_us=2000 flags=1", BEYOND_GRACE_US)?;
    check!(
        long.overruns > 20 && asked.overruns * 10 < long.overruns && never.overruns == 0,
        "overruns: {} beyond what is declared, {} within it, {} where members are preempted",
        long.overruns,
        asked.overruns,
        never.overruns
    );
    Ok(())
}

/// Beside hogs a member is on time whichever function it waits by, also when it had more than its share for a moment; who
/// sleeps otherwise is not.
fn ways_of_waiting() -> Outcome {
    let ways = ["polls", "polls-at", "polls-with-epoll", "loop", "sleeps"];
    let role = |(number, way): (usize, &&str)| {
        let phase_us = number * 2200;
        Role::ready(&format!(
            "punctual it-{way} {way} period_ms=11 phase_us={phase_us} run_us=200 other_run_us=2000"
        ))
    };
    let roles = ways
        .iter()
        .enumerate()
        .map(role)
        .collect::<Result<Vec<_>, _>>()?;
    let _hogs = hogs(4)?;
    let late_us = mean_lateness_us(&roles.iter().collect::<Vec<_>>())?;
    let (outside, members) = late_us.split_last().ok_or("nobody was due")?;
    for (way, late) in ways.iter().zip(members) {
        check!(
            late * 2.0 < *outside,
            "by {way:?} it is late by {late:.0} us, without by {outside:.0} us: {late_us:.0?}"
        );
    }
    let errors = roles[3].get(Field::Errors);
    check!(errors == 0, "{errors} calls of the loop's failed");
    Ok(())
}

/// A loop's best-effort priority counts among members, and it looks at descriptors as often as it is told to.
fn loops() -> Outcome {
    let served = |interval: &str| -> Result<(u64, f64), String> {
        let looper = Role::ready(&format!("looper loops run_us=300 priority=1 {interval}"))?;
        let other = Role::ready("speaker loops run_us=500 priority=2")?;
        let _hog = Role::ready("hog")?;
        std::thread::sleep(SETTLE);
        let before = looper.get(Field::Served);
        let got = shares(&[&looper, &other], 2 * WINDOW)?;
        check!(looper.get(Field::Errors) == 0, "submitting failed");
        let times = got[0] / got[1].max(0.001);
        Ok((looper.get(Field::Served) - before, times))
    };
    let (often, times) = served("interval_ms=0")?;
    check!(
        times > 10.0,
        "the loop with priority 1 has {times:.2} times as much as a member with 2"
    );
    let (rarely, _) = served("interval_ms=800")?;
    check!(
        often > 10 * rarely.max(1),
        "a descriptor was seen ready {often} times, {rarely} times when looked at every 800 ms"
    );
    Ok(())
}

/// A member that leaves has the share of anybody.
fn leaving() -> Outcome {
    let speaker = |says: &str| Role::ready(&format!("speaker leaving run_us=500 {says}"));
    let (first, second) = (speaker("priority=1")?, speaker("priority=2")?);
    let hog = Role::ready("hog")?;
    let roles = [&first, &second, &hog];
    let third = 1.0 / 3.0;
    expect_shares("in one domain", &roles, &[2.0 * third, 0.0, third])?;
    second.command(1)?;
    expect_shares("after it has left", &roles, &[third, third, third])
}

/// consort_reserve(), _lend(), _recollect(), _release(), and what consort_usage() says of it.
fn requests_of_the_header() -> Outcome {
    await_no_reservations()?;
    let all = hogs(2)?;
    let patron = Role::ready(&format!("patron {}", all[0].pid()))?;
    let roles = [&patron, &all[0], &all[1]];
    let (third, sixth) = (1.0 / 3.0, 1.0 / 6.0);
    // Half of the CPU is the class', and a quarter sleeps.
    for (command, when, given, expected) in [
        (1, "reserved", 500, [4.0 * sixth, sixth, sixth]),
        (2, "lent", 125, [sixth, 3.0 * sixth, third]),
        (3, "a part recollected", 375, [3.0 * sixth, sixth, third]),
        (4, "all recollected", 500, [4.0 * sixth, sixth, sixth]),
        (5, "released", 0, [third, third, third]),
    ] {
        patron.command(command)?;
        let told = patron.get(Field::Extra);
        check!(
            told == given,
            "{when}: consort_usage() says that it is given {told} thousandths, not {given}"
        );
        expect_shares(when, &roles, &expected)?;
    }
    Ok(())
}

/// `consort run` with a rate; what a class has, and promises, changed while it is used.
fn run_and_classes() -> Outcome {
    await_no_reservations()?;
    consort(&["class", "set", "gold", "15%"])?.expect(0, &[])?;
    let outcome = in_gold();
    await_no_reservations()?;
    consort(&["class", "remove", "gold"])?.expect(0, &[])?;
    outcome
}

fn in_gold() -> Outcome {
    let run = Role::ready_by(
        "consort run --class gold --rate 0.1 --period 33ms --",
        "hog",
    )?;
    let others = hogs(3)?;
    let pid = others[0].pid().to_string();
    consort(&["reserve", &pid, "--class", "gold", "--rate", "0.05"])?.expect(0, &[])?;
    let roles = [&run, &others[0], &others[1], &others[2]];
    // The other classes sleep, and a tenth is left beside it.
    expect_shares("15 % beside 10 %", &roles, &[0.4, 0.2, 0.2, 0.2])?;
    consort(&["class", "set", "gold", "5%"])?.expect(1, &["has admitted"])?;
    consort(&["class", "set", "gold", "5%", "--overbooking", "2"])?.expect(0, &[])?;
    let (gold, flexible) = (0.2, 0.8);
    expect_shares(
        "5 % beside 20 %",
        &roles,
        &[gold * 2.0 / 3.0, gold / 3.0, flexible / 2.0, flexible / 2.0],
    )?;
    // What is told is of the last second, which began before.
    wait_until(PATIENCE, "the class to be said to use what it has", || {
        let used = used_of_class("gold")?;
        match (used - gold).abs() < SLACK {
            true => Ok(true),
            false => Err(format!("it is said to use {used}")),
        }
    })
}

/// As `consort class list` has it.
fn used_of_class(name: &str) -> Result<f64, String> {
    let said = consort(&["class", "list", "--json"])?;
    let listed: serde_json::Value =
        serde_json::from_str(&said.out).map_err(|error| error.to_string())?;
    let classes = listed["classes"].as_array().ok_or("no list of classes")?;
    let of_name = classes.iter().find(|class| class["name"] == name);
    let used = of_name.and_then(|class| class["used"].as_f64());
    used.ok_or_else(|| format!("{name} is not told of: {listed}"))
}

/// `--thread`: of a process that has three hogs, one has a rate.
fn one_thread() -> Outcome {
    await_no_reservations()?;
    let family = Role::ready("family")?;
    family.command(1)?;
    let pid = family.pid().to_string();
    let share_of_main = || -> Result<f64, String> {
        let main = || machine::thread_time_ns(family.pid(), family.pid());
        let child = family.get(Field::Extra) as u32;
        let all = || Ok::<u64, String>(family.cpu_time_ns()? + machine::cpu_time_ns(child)?);
        std::thread::sleep(SETTLE);
        let before = (main()?, all()?);
        std::thread::sleep(WINDOW);
        Ok((main()? - before.0) as f64 / (all()? - before.1) as f64)
    };
    let expect = |when: &str, expected: f64| -> Outcome {
        let got = share_of_main()?;
        check!(
            (got - expected).abs() < SLACK,
            "{when}: the main thread has {got:.4} instead of {expected:.4}"
        );
        Ok(())
    };
    let with = ["--class", "guaranteed", "--rate", "0.3"];
    consort(&[&["reserve", &pid, "--thread"][..], &with].concat())?.expect(0, &[])?;
    expect("reserved for the thread", 2.0 / 3.0)?;
    consort(&["release", &pid])?.expect(1, &["no reservation"])?;
    consort(&["release", &pid, "--thread"])?.expect(0, &[])?;
    expect("released", 1.0 / 3.0)?;
    consort(&[&["reserve", &pid][..], &with].concat())?.expect(0, &[])?;
    expect("reserved for the process", 1.0 / 3.0)?;
    consort(&["release", &pid])?.expect(0, &[])
}

/// How often the kernel took the CPU from hogs, for each millisecond that they had.
pub(super) fn preemptions_per_ms(hogs: &[Role]) -> Result<f64, String> {
    let seen = || -> Result<(u64, u64), String> {
        hogs.iter().try_fold((0, 0), |sum, hog| {
            let preempted = super::command::preempted(hog.pid())?;
            Ok((sum.0 + preempted, sum.1 + hog.cpu_time_ns()?))
        })
    };
    std::thread::sleep(SETTLE);
    let before = seen()?;
    std::thread::sleep(WINDOW);
    let after = seen()?;
    Ok((after.0 - before.0) as f64 * 1e6 / (after.1 - before.1) as f64)
}

/// The shortest slice counts where there are many programs; a short period makes slices shorter than the granularity does.
fn slices() -> Outcome {
    let crowd = hogs(12)?;
    let of_min_slice = |slice| -> Result<f64, String> {
        consort(&["set", "min-slice", slice])?.expect(0, &[])?;
        preemptions_per_ms(&crowd)
    };
    let (long, short) = (of_min_slice("4ms"), of_min_slice("500us"));
    consort(&["set", "min-slice", "500us"])?.expect(0, &[])?;
    let times = short? / long?;
    check!(
        times > 3.0,
        "with 0.5 ms as the shortest slice hogs are preempted {times:.2} times as often as with 4 ms"
    );
    drop(crowd);
    await_no_reservations()?;
    let pair = hogs(2)?;
    let of_period = |period| -> Result<f64, String> {
        for hog in &pair {
            let pid = hog.pid().to_string();
            let words = ["reserve", &pid, "--class", "guaranteed", "--rate", "0.2"];
            consort(&[&words[..], &["--period", period]].concat())?.expect(0, &[])?;
        }
        preemptions_per_ms(&pair)
    };
    let (coarse, fine) = (of_period("1s")?, of_period("10ms")?);
    check!(
        fine > 3.0 * coarse,
        "with periods of 10 ms hogs are preempted {:.2} times as often as with 1 s",
        fine / coarse
    );
    Ok(())
}
