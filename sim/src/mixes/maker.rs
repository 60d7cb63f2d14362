// SPDX-License-Identifier: MIT OR Apache-2.0
//! What everyday mixes are made of: tasks, cgroups, domains, drawn at random.

use crate::random::Random;
use crate::setup::*;

pub const US: u64 = 1_000;
pub const MS: u64 = 1_000 * US;

pub struct Maker<'m> {
    pub setup: &'m mut Setup,
    pub random: &'m mut Random,
    timers: u32,
}

impl<'m> Maker<'m> {
    pub fn new(setup: &'m mut Setup, random: &'m mut Random) -> Self {
        Self {
            setup,
            random,
            timers: 0,
        }
    }

    pub fn cpus(&self) -> u64 {
        u64::from(self.setup.machine.cpus())
    }

    /// From `least` to `most`, both included.
    pub fn count(&mut self, least: u64, most: u64) -> u64 {
        self.random.between(least, most + 1)
    }

    pub fn us(&mut self, least: u64, most: u64) -> u64 {
        self.random.between(least, most + 1) * US
    }

    pub fn cgroup(&mut self, parent: CgroupIndex, name: &str, weight: u32) -> CgroupIndex {
        let parent_name = self.setup.cgroups[parent]
            .name
            .trim_end_matches('/')
            .to_owned();
        self.setup.cgroups.push(Cgroup {
            name: format!("{parent_name}/{name}"),
            parent: Some(parent),
            weight,
            max: None,
        });
        self.setup.cgroups.len() - 1
    }

    /// 100 mostly; else anything from 1 to 10000.
    pub fn weight(&mut self) -> u32 {
        match self.random.chance(0.5) {
            true => 100,
            false => *self.random.pick(&[1, 10, 30, 50, 200, 300, 1_000, 10_000]),
        }
    }

    pub fn domain(&mut self, event_ns: u64) -> DomainIndex {
        self.setup.domains.push(Domain {
            name: format!("d{}", self.setup.domains.len()),
            event_ns,
            order: *self.random.pick(&[0, 0, 0, 1, 2]),
            preempt: self.random.chance(0.1),
        });
        self.setup.domains.len() - 1
    }

    /// Some CPUs, at least one.
    pub fn mask(&mut self) -> Vec<Cpu> {
        let cpus = self.setup.machine.cpus();
        let first = self.random.between(0, u64::from(cpus)) as Cpu;
        let count = self.random.between(1, u64::from(cpus) + 1) as Cpu;
        let mut mask: Vec<Cpu> = (first..first + count).map(|cpu| cpu % cpus).collect();
        mask.sort_unstable();
        mask
    }

    /// A task that is there from the beginning, or comes in the first half.
    pub fn task(&mut self, name: &str, cgroup: CgroupIndex, program: Program) -> &mut Task {
        let mut task = Task::new(name, program);
        task.cgroup = cgroup;
        if self.random.chance(0.12) {
            task.start_ns = Some(self.random.between(0, self.setup.duration_ns / 2));
        }
        self.setup.tasks.push(task);
        let last = self.setup.tasks.len() - 1;
        &mut self.setup.tasks[last]
    }

    /// So many that are the same, numbered as instances are.
    pub fn tasks(&mut self, count: u64, name: &str, cgroup: CgroupIndex, program: &Program) {
        for number in 0..count {
            self.task(&format!("{name}-{number}"), cgroup, program.clone());
        }
    }

    pub fn hogs(&mut self, count: u64, name: &str, cgroup: CgroupIndex) {
        self.tasks(count, name, cgroup, &Program::Hog);
    }

    /// Another timer for each that asks.
    pub fn timer(&mut self) -> u32 {
        self.timers += 1;
        self.timers - 1
    }

    pub fn player(&mut self, load: f64, domain: Option<DomainIndex>) -> Program {
        Program::Player(Player {
            load,
            chunk_ns: *self.random.pick(&[MS, MS, 300 * US]),
            seed: self.random.next_u64() % 1000,
            first_due_ns: self.random.between(50, 100) * MS,
            domain,
        })
    }
}

/// For ever.
pub fn cycle(steps: Vec<Step>) -> Step {
    Step::Loop { times: None, steps }
}

/// Works and sleeps in turns.
pub fn sleeper(run: Length, sleep: Length) -> Program {
    Program::Steps(vec![cycle(vec![Step::Run(run), Step::Sleep(sleep)])])
}

/// Joins first if there is a domain, then works by due times.
pub fn polls(domain: Option<DomainIndex>, run_ns: u64, due: Due) -> Program {
    let join = domain.map(Step::Join);
    let body = vec![
        Step::Run(Length::Fixed(run_ns)),
        Step::Poll {
            due,
            best_effort: None,
        },
    ];
    Program::Steps(join.into_iter().chain([cycle(body)]).collect())
}

/// Always has work, and polls after each piece of it.
pub fn best_effort(domain: DomainIndex, run_ns: u64, priority: u32) -> Program {
    let body = vec![
        Step::Run(Length::Fixed(run_ns)),
        Step::Poll {
            due: Due::Never,
            best_effort: Some((priority, 0)),
        },
    ];
    Program::Steps(vec![Step::Join(domain), cycle(body)])
}
