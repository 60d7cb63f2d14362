// SPDX-License-Identifier: MIT OR Apache-2.0
//! What cgroups may have at most (cpu.max), whatever is free.

use std::time::{Duration, Instant};

use crate::{
    check,
    suite::{
        board::Field,
        consort::counter,
        machine::Cgroup,
        process::{shares, shares_in_some_window, Role},
        Cpus, Needs, Outcome, Test,
    },
};

pub const TESTS: &[Test] = &[
    Test {
        name: "limits.kept",
        cpus: Cpus::One,
        needs: Needs::SteadyDaemon,
        run: kept,
    },
    Test {
        name: "limits.nested",
        cpus: Cpus::One,
        needs: Needs::SteadyDaemon,
        run: nested,
    },
    Test {
        name: "limits.many_cpus",
        cpus: Cpus::Many,
        needs: Needs::Daemon,
        run: many_cpus,
    },
    Test {
        name: "limits.idle",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: idle,
    },
    Test {
        name: "limits.alone",
        cpus: Cpus::Any,
        needs: Needs::Daemon,
        run: alone,
    },
];

const WINDOW: Duration = Duration::from_secs(3);
/// Of the CPU: a period more or less, of thirty.
const SLACK: f64 = 0.012;

fn near(got: &[f64], expected: &[f64], slack: f64) -> Outcome {
    let fits = |(got, expected): (&f64, &f64)| (got - expected).abs() < slack;
    check!(
        got.iter().zip(expected).all(fits),
        "shares {got:.3?} instead of {expected:.3?}"
    );
    Ok(())
}

/// A fifth of the CPU is a fifth, before and after it was a half by weight alone, with periods of any length.
fn kept() -> Outcome {
    let group = Cgroup::create(None, "limited")?;
    let (inside, outside) = (Role::ready("hog")?, Role::ready("hog")?);
    group.adopt(inside.pid())?;
    let both = [&inside, &outside];
    for (max, expected) in [
        ("20000 100000", 0.2),
        ("max 100000", 0.5),
        ("2000 10000", 0.2),
        ("5000 100000", 0.05),
    ] {
        group.set_max(max)?;
        std::thread::sleep(Duration::from_millis(300));
        near(&shares(&both, WINDOW)?, &[expected, 1.0 - expected], SLACK)
            .map_err(|error| format!("with {max}: {error}"))?;
    }
    check!(
        counter("held")? > 0,
        "nobody was held, by the scheduler's count"
    );
    Ok(())
}

/// Two hogs share what the cgroup above may have; of one of them the cgroup below has less.
fn nested() -> Outcome {
    let outer = Cgroup::create(None, "outer")?;
    outer.divide()?;
    let inner = Cgroup::create(Some(&outer), "inner")?;
    let next = Cgroup::create(Some(&outer), "next")?;
    let hogs = [
        Role::ready("hog")?,
        Role::ready("hog")?,
        Role::ready("hog")?,
        Role::ready("hog")?,
    ];
    inner.adopt(hogs[0].pid())?;
    next.adopt(hogs[1].pid())?;
    next.adopt(hogs[2].pid())?;
    outer.set_max("40000 100000")?;
    inner.set_max("10000 100000")?;
    std::thread::sleep(Duration::from_millis(300));
    let all: Vec<&Role> = hogs.iter().collect();
    near(&shares(&all, WINDOW)?, &[0.1, 0.15, 0.15, 0.6], SLACK)?;
    Ok(())
}

/// A limit counts on all CPUs together.
fn many_cpus() -> Outcome {
    let group = Cgroup::create(None, "limited")?;
    group.set_weight(10_000)?;
    group.set_max("100000 100000")?;
    let hogs: Vec<Role> = (0..7)
        .map(|_| Role::ready("hog"))
        .collect::<Result<_, _>>()?;
    for hog in &hogs[..3] {
        group.adopt(hog.pid())?;
    }
    std::thread::sleep(Duration::from_millis(300));
    let all: Vec<&Role> = hogs.iter().collect();
    shares_in_some_window(&all, WINDOW, |got| {
        let inside: f64 = got[..3].iter().sum();
        near(&[inside], &[0.25], 0.03)
    })?;
    Ok(())
}

/// A cgroup with cpu.idle has what others leave, and its part when it is as others again. Linux 6.18 tells schedulers nothing.
fn idle() -> Outcome {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease");
    if release
        .map_err(|error| error.to_string())?
        .starts_with("6.")
    {
        return Ok(());
    }
    let group = Cgroup::create(None, "idle")?;
    let (inside, outside) = (Role::ready("hog")?, Role::ready("hog")?);
    group.adopt(inside.pid())?;
    for (idle, expected) in [(true, 0.003), (false, 0.5)] {
        group.set_idle(idle)?;
        std::thread::sleep(Duration::from_millis(300));
        near(&shares(&[&inside, &outside], WINDOW)?, &[expected], 0.05)?;
    }
    Ok(())
}

/// One that nobody else wants the CPU of, too; and it sleeps, wakes and ends as before.
fn alone() -> Outcome {
    let group = Cgroup::create(None, "limited")?;
    group.set_max("20000 100000")?;
    let hog = Role::ready("hog")?;
    group.adopt(hog.pid())?;
    std::thread::sleep(Duration::from_millis(300));
    let (began, before) = (Instant::now(), hog.cpu_time_ns()?);
    std::thread::sleep(WINDOW);
    let ran = (hog.cpu_time_ns()? - before) as f64 / began.elapsed().as_nanos() as f64;
    check!(
        (0.15..0.25).contains(&ran),
        "it had {ran:.3} of a CPU instead of 0.2"
    );
    hog.await_progress(Field::Work, 10)?;
    // It is killed while it is held, and must end.
    group.set_max("1000 1000000")?;
    std::thread::sleep(Duration::from_millis(100));
    drop(hog);
    Ok(())
}
