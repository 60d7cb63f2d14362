// SPDX-License-Identifier: MIT OR Apache-2.0
//! What people run: one function for each kind of everyday mix.

use super::maker::{best_effort, cycle, polls, sleeper, Maker, MS, US};
use crate::rates::{Rates, Reserve};
use crate::setup::{CgroupIndex, DomainIndex, Due, Length, Program, Step};
use consort_rates::classes::Classes;

/// Players and an editor in a cgroup, a build or an update in another.
pub fn desktop(m: &mut Maker<'_>) {
    let weights = [m.weight(), m.weight()];
    let user = m.cgroup(0, "user", weights[0]);
    let system = match m.random.chance(0.7) {
        true => m.cgroup(0, "system", weights[1]),
        false => 0,
    };
    let domain = m.random.chance(0.8).then(|| m.domain(0));
    let players = m.count(1, 2 * m.cpus() + 1);
    for number in 0..players {
        let load = 0.05 + 0.3 * m.random.unit();
        let program = m.player(load, domain);
        m.task(&format!("player-{number}"), user, program);
    }
    for number in 0..m.count(1, 3) {
        let run = Length::Fixed(m.us(300, 4_000));
        let sleep = Length::Fixed(m.us(5_000, 40_000));
        m.task(&format!("editor-{number}"), user, sleeper(run, sleep));
    }
    let hogs = m.count(0, 2 * m.cpus());
    m.hogs(hogs, "build", system);
    for task in 0..m.setup.tasks.len() {
        if m.random.chance(0.05) {
            m.setup.tasks[task].nice = *m.random.pick(&[-5, 5, 10, 19]);
        }
    }
}

/// Short periods: instruments and mixers of one or several domains, beside work.
pub fn audio(m: &mut Maker<'_>) {
    let count = m.count(1, 4 * m.cpus().min(3));
    let is_one = m.random.chance(0.7);
    let period_ns = m.us(2_000, 12_000);
    let part = 0.02 + 0.1 * m.random.unit();
    let run_ns = ((period_ns as f64 * part) as u64).max(50 * US);
    let group = match m.random.chance(0.4) {
        true => {
            let weight = m.weight();
            m.cgroup(0, "session", weight)
        }
        false => 0,
    };
    let mut shared = None;
    for number in 0..count {
        let domain = match (is_one, shared) {
            (true, Some(domain)) => domain,
            _ => m.domain(run_ns.clamp(200 * US, 2 * MS)),
        };
        shared = Some(domain);
        let due = Due::Timer {
            timer: m.timer(),
            period_ns,
            absolute: m.random.chance(0.3),
        };
        m.task(
            &format!("audio-{number}"),
            group,
            polls(Some(domain), run_ns, due),
        );
    }
    let hogs = m.count(1, 4 * m.cpus());
    let beside = *m.random.pick(&[0, group]);
    m.hogs(hogs, "hog", beside);
}

/// Compilers, of which many are short, and somebody who types.
pub fn build(m: &mut Maker<'_>) {
    let weight = m.weight();
    let group = *m.random.pick(&[0, 1]);
    if group == 1 {
        m.cgroup(0, "build", weight);
    }
    let nice = *m.random.pick(&[0, 0, 5, 19]);
    let hogs = m.count(1, 3 * m.cpus());
    m.hogs(hogs, "cc", group);
    let most = 60 + 20 * m.cpus();
    for number in 0..m.count(0, most) {
        let work = Program::Steps(vec![Step::Run(Length::Exponential {
            mean_ns: m.us(500, 100_000),
        })]);
        let start_ns = m.random.between(0, m.setup.duration_ns * 9 / 10);
        m.task(&format!("short-{number}"), group, work).start_ns = Some(start_ns);
    }
    for task in m.setup.tasks.iter_mut() {
        task.nice = nice;
    }
    for number in 0..m.count(1, 4) {
        let run = Length::Fixed(m.us(100, 3_000));
        let sleep = Length::Fixed(m.us(3_000, 30_000));
        m.task(&format!("shell-{number}"), 0, sleeper(run, sleep));
    }
}

/// Bursts in tabs, each in a cgroup, and a compositor.
pub fn browser(m: &mut Maker<'_>) {
    for number in 0..m.count(1, 6) {
        let weight = m.weight();
        let tab = m.cgroup(0, &format!("tab{number}"), weight);
        for thread in 0..m.count(1, 4) {
            let burst = Length::Exponential {
                mean_ns: m.us(500, 30_000),
            };
            let pause = Length::Exponential {
                mean_ns: m.us(1_000, 100_000),
            };
            m.task(&format!("tab{number}-{thread}"), tab, sleeper(burst, pause));
        }
    }
    let domain = m.random.chance(0.6).then(|| m.domain(2 * MS));
    let due = Due::Timer {
        timer: m.timer(),
        period_ns: 16_666 * US,
        absolute: true,
    };
    let run_ns = m.us(500, 2_000);
    m.task("compositor", 0, polls(domain, run_ns, due));
    if m.random.chance(0.5) {
        let load = 0.1 + 0.4 * m.random.unit();
        let program = m.player(load, domain);
        m.task("video", 0, program);
    }
    let scripts = m.count(0, m.cpus());
    m.hogs(scripts, "script", 0);
}

/// Handlers of requests that wake often, and a batch.
pub fn server(m: &mut Maker<'_>) {
    let (weight, batch_weight) = (m.weight(), m.weight());
    let handlers = m.cgroup(0, "web", weight);
    let batch = m.cgroup(0, "batch", batch_weight);
    let run = m.us(30, 600);
    let sleep = m.us(200, 5_000);
    let is_random = m.random.chance(0.5);
    for number in 0..m.count(2, 8 * m.cpus()) {
        let length = |mean_ns| match is_random {
            true => Length::Exponential { mean_ns },
            false => Length::Fixed(mean_ns),
        };
        m.task(
            &format!("handler-{number}"),
            handlers,
            sleeper(length(run), length(sleep)),
        );
    }
    let nice = *m.random.pick(&[0, 0, 10, 19]);
    for number in 0..m.count(1, 2 * m.cpus()) {
        m.task(&format!("batch-{number}"), batch, Program::Hog).nice = nice;
    }
}

/// Nested cgroups with weights and CPUs of their own; in each whatever comes. Their members are of one domain, or each
/// cgroup's of its own.
pub fn containers(m: &mut Maker<'_>) {
    let shared = m.random.chance(0.5).then(|| m.domain(MS));
    for number in 0..m.count(2, 5) {
        let weight = m.weight();
        let mut group = m.cgroup(0, &format!("c{number}"), weight);
        let mask = m.random.chance(0.6).then(|| m.mask());
        for depth in 0..m.count(0, 2) {
            if m.random.chance(0.5) {
                m.task(&format!("c{number}-agent{depth}"), group, Program::Hog);
            }
            let weight = m.weight();
            group = m.cgroup(group, &format!("n{depth}"), weight);
        }
        let before = m.setup.tasks.len();
        inside(m, number, group, shared);
        for task in &mut m.setup.tasks[before..] {
            task.affinity.clone_from(&mask);
        }
    }
}

fn inside(m: &mut Maker<'_>, number: u64, group: CgroupIndex, shared: Option<DomainIndex>) {
    let hogs = m.count(0, m.cpus() + 1);
    m.hogs(hogs, &format!("c{number}-hog"), group);
    for at in 0..m.count(1, 3) {
        let run = Length::Fixed(m.us(100, 5_000));
        let sleep = Length::Fixed(m.us(500, 20_000));
        m.task(
            &format!("c{number}-sleeper{at}"),
            group,
            sleeper(run, sleep),
        );
    }
    if m.random.chance(if shared.is_some() { 0.8 } else { 0.4 }) {
        let domain = shared.unwrap_or_else(|| m.domain(MS));
        members(m, &format!("c{number}-member"), group, domain);
    }
}

/// A few members of a domain: by due times, or always with work.
fn members(m: &mut Maker<'_>, name: &str, group: CgroupIndex, domain: DomainIndex) {
    let count = m.count(1, 4);
    let run_ns = m.us(200, 1_000);
    let program = match m.random.between(0, 3) {
        0 => best_effort(domain, run_ns, 0),
        1 => polls(
            Some(domain),
            run_ns,
            Due::In(Length::Fixed(m.us(2_000, 20_000))),
        ),
        _ => {
            let load = 0.05 + 0.2 * m.random.unit();
            m.player(load, Some(domain))
        }
    };
    m.tasks(count, name, group, &program);
}

/// Members that take turns, together or each in its domain, plain programs in their cgroup, and hogs.
pub fn turns(m: &mut Maker<'_>) {
    let group = match m.random.chance(0.5) {
        true => {
            let weight = m.weight();
            m.cgroup(0, "u", weight)
        }
        false => 0,
    };
    let is_one = m.random.chance(0.7);
    let (run_ns, pause_ns) = (m.us(300, 2_000), m.us(1_000, 15_000));
    let mut domain = m.domain(2 * MS);
    for number in 0..m.count(1, 3 * m.cpus().min(4)) {
        if !is_one && number > 0 {
            domain = m.domain(2 * MS);
        }
        let due = Due::In(Length::Fixed(pause_ns));
        m.task(
            &format!("m-{number}"),
            group,
            polls(Some(domain), run_ns, due),
        );
    }
    if m.random.chance(0.5) {
        members(m, "other", group, domain);
    }
    if m.random.chance(0.6) {
        let run = Length::Fixed(m.us(500, 2_000));
        let sleep = Length::Fixed(m.us(2_000, 20_000));
        m.task("plain", group, sleeper(run, sleep));
    }
    if m.random.chance(0.25) {
        washer(m);
    }
    let hogs = m.count(1, 2 * m.cpus() + 1);
    m.hogs(hogs, "hog", 0);
}

/// Leaves its domain for another one again and again.
fn washer(m: &mut Maker<'_>) {
    let mut steps = Vec::new();
    for _ in 0..m.count(2, 8) {
        let domain = m.domain(2 * MS);
        let turn = vec![
            Step::Run(Length::Fixed(MS)),
            Step::Poll {
                due: Due::In(Length::Fixed(0)),
                best_effort: None,
            },
        ];
        let turns = Step::Loop {
            times: Some(m.count(2, 10)),
            steps: turn,
        };
        steps.extend([Step::Join(domain), turns, Step::Leave]);
    }
    m.task("washer", 0, Program::Steps(vec![cycle(steps)]));
}

/// Rented shares: unequal rates of one class or two, which are full or nearly so, beside more work than there are CPUs.
pub fn promises(m: &mut Maker<'_>) {
    const ONE: u64 = 1_000_000;
    let mut rates = Rates {
        classes: Classes::by_default(m.setup.machine.cpus()),
        reserved: Vec::new(),
    };
    for class in 0..m.count(1, 2) as usize {
        let part = *m.random.pick(&[50, 80, 95]);
        let mut left = [ONE / 2, ONE / 4][class] * m.cpus() / 100 * part;
        for number in 0..12 {
            let wanted = *m
                .random
                .pick(&[50_000, 100_000, 200_000, 300_000, 500_000, 700_000, 900_000]);
            let rate = left.min(wanted);
            if rate < 30_000 {
                break;
            }
            left -= rate;
            let period_ns = *m.random.pick(&[5 * MS, 10 * MS, 30 * MS, 100 * MS]);
            let name = format!("{}-{number}", ["guaranteed", "adaptive"][class]);
            m.task(&name, 0, Program::Hog).start_ns = Some(0);
            let reserve = Reserve {
                class,
                rate,
                period_ns,
            };
            rates.reserved.push((m.setup.tasks.len() - 1, reserve));
        }
    }
    m.setup.rates = Some(rates);
    let hogs = m.count(m.cpus(), 3 * m.cpus());
    m.hogs(hogs, "hog", 0);
}

/// Weights and numbers at the ends of what is legal.
pub fn extremes(m: &mut Maker<'_>) {
    if m.random.chance(0.5) {
        let count = m.count(50, 400);
        m.hogs(count, "many", 0);
        for number in 0..m.count(1, 3) {
            let nice = *m.random.pick(&[-20, 10, 19, 19]);
            m.task(&format!("odd-{number}"), 0, Program::Hog).nice = nice;
        }
        return;
    }
    let mut parent = 0;
    for depth in 0..m.count(1, 4) {
        for (side, weight) in [("heavy", 10_000), ("light", 1)] {
            let group = m.cgroup(parent, &format!("{side}{depth}"), weight);
            let count = m.count(1, m.cpus());
            m.hogs(count, &format!("{side}{depth}"), group);
        }
        parent = m.random.between(0, m.setup.cgroups.len() as u64) as CgroupIndex;
    }
    let nice = m.random.between(0, 40) as i32 - 20;
    m.task("nice", parent, Program::Hog).nice = nice;
}
