// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many threads, migrations, affinity, hotplug, real-time hogs: the scheduler serves on, and everybody progresses.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use nix::{
    sched::{sched_setaffinity, CpuSet},
    unistd::Pid,
};

use crate::{
    check,
    suite::{
        board::Field,
        diagnosis::dump,
        machine::{last_cpu, possible_cpus, set_cpu_online, EXT_SERVER},
        process::{shares, wait_until, Role, PATIENCE},
        Cpus, Needs, Outcome, Test,
    },
};

pub const TESTS: &[Test] = &[
    Test {
        name: "load.threads",
        cpus: Cpus::Any,
        needs: Needs::Daemon,
        run: threads,
    },
    Test {
        name: "load.ping_pong",
        cpus: Cpus::Any,
        needs: Needs::Daemon,
        run: ping_pong,
    },
    Test {
        name: "load.fifo_hog",
        cpus: Cpus::Any,
        needs: Needs::Daemon,
        run: fifo_hog,
    },
    Test {
        name: "load.beside_real_time",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: beside_real_time,
    },
    Test::on_one(
        "load.large_programs_end",
        Needs::SteadyDaemon,
        large_programs_end,
    ),
    Test {
        name: "load.pinned",
        cpus: Cpus::Many,
        needs: Needs::Daemon,
        run: pinned,
    },
    Test {
        name: "load.affinity_changes",
        cpus: Cpus::Many,
        needs: Needs::Daemon,
        run: affinity_changes,
    },
    Test {
        name: "load.work_conserving",
        cpus: Cpus::Many,
        needs: Needs::Daemon,
        run: work_conserving,
    },
    Test {
        name: "load.hotplug",
        cpus: Cpus::Many,
        needs: Needs::Daemon,
        run: hotplug,
    },
    Test {
        name: "load.hotplug_keeps_kicks",
        cpus: Cpus::Many,
        needs: Needs::Daemon,
        run: hotplug_keeps_kicks,
    },
    Test {
        name: "load.hotplug_of_pinned",
        cpus: Cpus::Many,
        needs: Needs::Daemon,
        run: hotplug_of_pinned,
    },
];

/// Pins a role to CPUs.
pub fn allow(role: &Role, cpus: &[usize]) -> Outcome {
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.set(*cpu).map_err(|errno| errno.to_string())?;
    }
    sched_setaffinity(Pid::from_raw(role.pid() as i32), &set)
        .map_err(|errno| format!("cannot pin {:?} to {cpus:?}: {errno}", role.name))
}

fn threads() -> Outcome {
    let hog = Role::ready("hog")?;
    let mut crowd = Role::ready("threads 2000 250")?;
    crowd.finish_within(3 * PATIENCE)?;
    check!(
        crowd.get(Field::Work) == 2000,
        "{} of 2000 threads did their work",
        crowd.get(Field::Work)
    );
    hog.await_progress(Field::Work, 20)
}

/// As hackbench does, beside a member who has an event every 10 ms.
fn ping_pong() -> Outcome {
    let member = Role::ready("ticker spectator 10")?;
    let mut game = Role::ready("ping-pong 20 150")?;
    game.finish_within(3 * PATIENCE)?;
    check!(
        game.get(Field::Work) == 2 * 20 * 150,
        "{} throws",
        game.get(Field::Work)
    );
    member.await_progress(Field::Served, 20)
}

/// A hog above the scheduler's class takes a CPU for seconds: nobody ejects the scheduler for it, and afterwards all run on.
fn fifo_hog() -> Outcome {
    let roles = [
        Role::ready("hog")?,
        Role::ready("member underdogs")?,
        Role::ready("ticker underdogs 10")?,
    ];
    let mut above = Role::start("fifo-hog 3")?;
    above.finish_within(3 * PATIENCE)?;
    roles[0].await_progress(Field::Work, 50)?;
    roles[1].await_progress(Field::Work, 50)?;
    roles[2].await_progress(Field::Served, 20)
}

/// Giving back the memory of large programs takes the kernel a hundred milliseconds here: that is their own time, and others
/// have theirs meanwhile.
fn large_programs_end() -> Outcome {
    const LATE_MAX_US: u64 = 3000;
    let mut large = [Role::ready("large 250")?, Role::ready("large 250")?];
    let hog = Role::ready("hog")?;
    let players = [7, 11, 13].map(|period_ms| {
        Role::ready(&format!(
            "player of_{period_ms} {period_ms} 500 {LATE_MAX_US}"
        ))
    });
    let players = players.into_iter().collect::<Result<Vec<_>, _>>()?;
    players[2].await_progress(Field::Served, 20)?;
    let (began, had_ns) = (Instant::now(), hog.cpu_time_ns()?);
    for role in &large {
        role.board.set(Field::Command, 1);
    }
    for role in &mut large {
        role.finish_within(PATIENCE)?;
    }
    let part = (hog.cpu_time_ns()? - had_ns) as f64 / began.elapsed().as_nanos() as f64;
    players[2].await_progress(Field::Served, 5)?;
    let late_us = players
        .iter()
        .map(|role| role.get(Field::Extra) / 1000)
        .max();
    check!(
        part > 0.12 && late_us <= Some(LATE_MAX_US),
        "a sixth of the CPU is the hog's, it had {part:.2}; an event was {late_us:?} us late, expected {LATE_MAX_US} at most"
    );
    Ok(())
}

/// Where the kernel leaves ordinary programs a twentieth of a CPU beside a real-time one that never sleeps, they have it: this
/// test is one of them.
fn beside_real_time() -> Outcome {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    if release.starts_with("6.") {
        return Ok(());
    }
    check!(Path::new(EXT_SERVER).exists(), "there is no {EXT_SERVER}");
    let hog = Role::ready("hog")?;
    let mut above = Role::ready("fifo-hog 8")?;
    let worked_ns = hog.cpu_time_ns()?;
    std::thread::sleep(Duration::from_secs(3));
    let part = (hog.cpu_time_ns()? - worked_ns) as f64 / 3e9;
    check!(
        above.get(Field::Served) == 0,
        "all others stood still until the real-time program ended"
    );
    check!(
        part > 0.01 && part < 0.1,
        "a hog had {part:.3} of the CPU beside a real-time one"
    );
    above.finish_within(3 * PATIENCE)
}

/// Two hogs that may run on one CPU only share it; a third one beside them has another CPU to itself.
fn pinned() -> Outcome {
    let hogs = [
        Role::ready("hog")?,
        Role::ready("hog")?,
        Role::ready("hog")?,
    ];
    allow(&hogs[0], &[1])?;
    allow(&hogs[1], &[1])?;
    allow(&hogs[2], &[3])?;
    std::thread::sleep(Duration::from_millis(500));
    let got = shares(&[&hogs[0], &hogs[1], &hogs[2]], Duration::from_secs(3))?;
    for (hog, cpu) in hogs.iter().zip([1, 1, 3]) {
        let on = last_cpu(hog.pid())?;
        check!(
            on == cpu,
            "a hog that is pinned to CPU {cpu} runs on CPU {on}"
        );
    }
    check!(
        (got[0] / got[1] - 1.0).abs() < 0.2,
        "the pinned pair shares unequally: {got:.3?}"
    );
    check!(
        got[2] > 1.4 * got[0],
        "the one with a CPU to itself gets no more: {got:.3?}"
    );
    Ok(())
}

/// Affinities change all the time under load: nobody runs where it must not, nobody stands still.
fn affinity_changes() -> Outcome {
    let roles: Vec<Role> = (0..8)
        .map(|number| {
            Role::ready(if number % 2 == 0 {
                "hog"
            } else {
                "member wanderers"
            })
        })
        .collect::<Result<_, _>>()?;
    let sets: [&[usize]; 6] = [&[0], &[3], &[0, 1], &[1, 2], &[2, 3], &[0, 1, 2, 3]];
    for round in 0..40 {
        for (number, role) in roles.iter().enumerate() {
            allow(role, sets[(round + number * 5) % sets.len()])?;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    for (number, role) in roles.iter().enumerate() {
        allow(role, &[number % 4])?;
    }
    for (number, role) in roles.iter().enumerate() {
        role.await_progress(Field::Work, 20)?;
        let on = last_cpu(role.pid())?;
        check!(
            on == number % 4,
            "{:?} may run on CPU {} and runs on {on}",
            role.name,
            number % 4
        );
    }
    Ok(())
}

/// As many hogs as CPUs, started on one CPU and then let loose: each finds a CPU of its own.
fn work_conserving() -> Outcome {
    let hogs: Vec<Role> = (0..possible_cpus())
        .map(|_| Role::ready("hog"))
        .collect::<Result<_, _>>()?;
    for hog in &hogs {
        allow(hog, &[0])?;
    }
    std::thread::sleep(Duration::from_millis(200));
    for hog in &hogs {
        allow(hog, &[0, 1, 2, 3])?;
    }
    std::thread::sleep(Duration::from_millis(500));
    let hogs: Vec<&Role> = hogs.iter().collect();
    let (began_ns, before) = (consort::now_ns(), total_ns(&hogs)?);
    let got = shares(&hogs, Duration::from_secs(3))?;
    let busy = (total_ns(&hogs)? - before) as f64 / (consort::now_ns() - began_ns) as f64;
    check!(
        busy > 0.8 * possible_cpus() as f64,
        "{} hogs keep {busy:.2} CPUs busy; shares {got:.3?}",
        hogs.len()
    );
    let least = got.iter().copied().fold(1.0, f64::min);
    check!(
        least > 0.5 / hogs.len() as f64,
        "one hog got {least:.3}: {got:.3?}"
    );
    Ok(())
}

fn total_ns(roles: &[&Role]) -> Result<u64, String> {
    roles.iter().map(|role| role.cpu_time_ns()).sum()
}

/// Brings the CPUs back whatever happens to the test.
struct AllOnline;

impl Drop for AllOnline {
    fn drop(&mut self) {
        for cpu in 1..possible_cpus() {
            let _ = set_cpu_online(cpu, true);
        }
    }
}

/// CPUs go and come, a whole cache's too, under hogs and members.
fn hotplug() -> Outcome {
    let _restore = AllOnline;
    let roles: Vec<Role> = (0..6)
        .map(|number| Role::ready(["hog", "member plugged", "ticker plugged 10"][number % 3]))
        .collect::<Result<_, _>>()?;
    for cpus in [&[2][..], &[1], &[2, 3], &[1, 2, 3]] {
        for cpu in cpus {
            set_cpu_online(*cpu, false)?;
        }
        std::thread::sleep(Duration::from_millis(300));
        progress_of_all(&roles).map_err(|text| format!("without CPUs {cpus:?}: {text}"))?;
        for cpu in cpus {
            set_cpu_online(*cpu, true)?;
        }
        progress_of_all(&roles).map_err(|text| format!("after CPUs {cpus:?} came back: {text}"))?;
    }
    // The CPUs that came back are used.
    for role in &roles {
        allow(role, &[2])?;
    }
    progress_of_all(&roles)?;
    check!(
        last_cpu(roles[0].pid())? == 2,
        "CPU 2 is not used after it came back"
    );
    Ok(())
}

pub fn progress_of_all(roles: &[Role]) -> Outcome {
    roles
        .iter()
        .try_for_each(|role| match role.name.starts_with("ticker") {
            true => role.await_progress(Field::Served, 5),
            false => role.await_progress(Field::Work, 10),
        })
}

/// A CPU that has been away still reaches others: the kernel loses what a CPU asks for while it dies, and then all that
/// it asks for later (kernel/bpf/kick.h). Kicks that are on their way are seen now and then, never always.
fn hotplug_keeps_kicks() -> Outcome {
    let _restore = AllOnline;
    let _roles: Vec<Role> = (0..4)
        .map(|number| Role::ready(["hog", "ticker plugged 10"][number % 2]))
        .collect::<Result<_, _>>()?;
    for _ in 0..6 {
        for online in [false, true] {
            for cpu in [1, 2, 3] {
                set_cpu_online(cpu, online)?;
            }
        }
        wait_until(PATIENCE, "all kicks to arrive", || {
            Ok(!dump()?.contains("cpus_to_kick"))
        })?;
    }
    Ok(())
}

/// A CPU goes away under programs that may run nowhere else: the kernel lets them run elsewhere, and so does the scheduler.
fn hotplug_of_pinned() -> Outcome {
    let _restore = AllOnline;
    let roles = [
        Role::ready("hog")?,
        Role::ready("member captives")?,
        Role::ready("ticker captives 10")?,
    ];
    for role in &roles {
        allow(role, &[3])?;
    }
    for _ in 0..3 {
        set_cpu_online(3, false)?;
        progress_of_all(&roles).map_err(|text| format!("without their CPU: {text}"))?;
        set_cpu_online(3, true)?;
        progress_of_all(&roles).map_err(|text| format!("with their CPU again: {text}"))?;
    }
    Ok(())
}
