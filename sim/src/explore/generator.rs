// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random tasks, steps and actions that fit a setup.

use crate::random::Random;
use crate::setup::*;

const MS: u64 = 1_000_000;
const US: u64 = 1_000;

/// What is needed to make tasks, steps and actions that fit a setup.
pub(super) struct Generator<'a> {
    setup: &'a Setup,
    pub random: &'a mut Random,
    tasks: usize,
}

impl<'a> Generator<'a> {
    pub fn new(setup: &'a Setup, random: &'a mut Random, tasks: usize) -> Self {
        Self {
            setup,
            random,
            tasks,
        }
    }

    pub fn cpus(&mut self) -> Vec<Cpu> {
        let cpus = self.setup.machine.cpus();
        let mut some: Vec<Cpu> = (0..cpus).filter(|_| self.random.chance(0.5)).collect();
        if some.is_empty() {
            some.push(self.random.between(0, u64::from(cpus)) as Cpu);
        }
        some
    }

    fn cgroup(&mut self) -> CgroupIndex {
        self.random.between(0, self.setup.cgroups.len() as u64) as usize
    }

    pub fn domain(&mut self) -> DomainIndex {
        self.random.between(0, self.setup.domains.len() as u64) as usize
    }

    fn other_task(&mut self) -> TaskIndex {
        self.random.between(0, self.tasks as u64) as usize
    }

    fn nice(&mut self) -> i32 {
        *self.random.pick(&[0, 0, 0, -5, 5, -20, 19])
    }

    pub fn length(&mut self, max_ns: u64) -> Length {
        let max_ns = (max_ns as f64).powf(0.5 + 0.5 * self.random.unit()) as u64;
        match self.random.between(0, 3) {
            0 => Length::Fixed(max_ns),
            1 => Length::Uniform { min_ns: 0, max_ns },
            _ => Length::Exponential {
                mean_ns: max_ns / 2,
            },
        }
    }

    pub fn task(&mut self, number: usize) -> Task {
        let start_ns = match self.random.between(0, 3) {
            0 => self.random.between(0, self.setup.duration_ns / 2),
            _ => 0,
        };
        let is_realtime = self.random.chance(0.06);
        Task {
            name: format!("t{number}"),
            cgroup: if self.random.chance(0.5) {
                0
            } else {
                self.cgroup()
            },
            nice: self.nice(),
            slice_ns: None,
            policy: if is_realtime {
                *self
                    .random
                    .pick(&[Policy::Realtime, Policy::Realtime, Policy::Deadline])
            } else {
                Policy::Normal
            },
            affinity: self.random.chance(0.25).then(|| self.cpus()),
            start_ns: Some(start_ns),
            program: if is_realtime {
                self.periodic()
            } else {
                self.program()
            },
        }
    }

    /// Short work now and then: what a higher class may do without starving the rest.
    pub fn periodic(&mut self) -> Program {
        let work_ns = self.random.between(10, 2_000) * US;
        Program::Steps(vec![Step::Loop {
            times: None,
            steps: vec![
                Step::Run(Length::Uniform {
                    min_ns: 0,
                    max_ns: work_ns,
                }),
                Step::Sleep(Length::Uniform {
                    min_ns: 4 * work_ns,
                    max_ns: 8 * work_ns,
                }),
            ],
        }])
    }

    fn program(&mut self) -> Program {
        match self.random.between(0, 12) {
            0 | 1 => Program::Hog,
            2 => Program::Player(Player {
                load: 0.05 + self.random.unit() * 0.5,
                chunk_ns: *self.random.pick(&[100 * US, 1_000 * US]),
                seed: self.random.next_u64() % 100,
                first_due_ns: self.random.between(0, 100 * MS),
                domain: self.random.chance(0.8).then(|| self.domain()),
            }),
            3 => match self.random.between(0, 3) {
                0 => Program::MuteLiar {
                    domain: self.domain(),
                },
                1 => Program::PoliteLiar {
                    domain: self.domain(),
                    work_ns: self.random.between(50, 3000) * US,
                },
                _ => Program::Garbage {
                    domain: self.domain(),
                    work_ns: self.random.between(50, 3000) * US,
                },
            },
            4..=6 => self.member(),
            7 | 8 => self.periodic(),
            _ => {
                let steps = self.steps(8);
                let times = self.random.chance(0.3).then(|| self.random.between(1, 30));
                Program::Steps(vec![Step::Loop { times, steps }])
            }
        }
    }

    /// Joins, polls, perhaps leaves and joins again.
    fn member(&mut self) -> Program {
        let domain = self.domain();
        let mut body: Vec<Step> = Vec::new();
        for _ in 0..self.random.between(1, 5) {
            let due = match self.random.between(0, 4) {
                0 => Due::Never,
                1 => Due::Raw(self.random.next_u64() % (2 * self.setup.duration_ns)),
                _ => Due::In(self.length(20 * MS)),
            };
            let must_have_priority = due == Due::Never;
            let best_effort = (must_have_priority || self.random.chance(0.6)).then(|| {
                (
                    self.random.between(0, 4) as u32,
                    self.random.between(0, 100),
                )
            });
            body.push(Step::Poll { due, best_effort });
            body.push(Step::Run(self.length(2 * MS)));
            if self.random.chance(0.2) {
                body.push(self.step());
            }
        }
        if self.random.chance(0.3) {
            // From one run queue to another, with all that it owes.
            body.push(Step::Affinity(self.cpus()));
        }
        let inner = Step::Loop {
            times: Some(self.random.between(1, 50)),
            steps: body,
        };
        let mut steps = vec![Step::Join(domain), inner];
        if self.random.chance(0.7) {
            steps.push(Step::Leave);
        }
        if self.random.chance(0.3) {
            steps.push(Step::Exit(Length::Fixed(0)));
        }
        Program::Steps(vec![Step::Loop { times: None, steps }])
    }

    fn steps(&mut self, max: u64) -> Vec<Step> {
        let count = self.random.between(1, max);
        let mut steps = vec![Step::Run(self.length(5 * MS))];
        for _ in 0..count {
            let step = self.step();
            steps.push(step);
        }
        // Sections that were begun are ended, so that nobody waits for ever by the program's fault.
        if steps
            .iter()
            .any(|step| matches!(step, Step::MigrateDisable))
        {
            steps.push(Step::MigrateEnable);
            steps.push(Step::MigrateEnable);
        }
        steps
    }

    pub fn step(&mut self) -> Step {
        match self.random.between(0, 21) {
            20 => Step::Exec,
            0..=4 => Step::Run(self.length(5 * MS)),
            5..=8 => Step::Sleep(self.length(10 * MS)),
            9 | 10 => Step::Yield,
            11 => Step::Nice(self.nice()),
            12 => Step::Affinity(self.cpus()),
            13 | 14 => Step::MigrateDisable,
            15 => Step::MigrateEnable,
            16 => Step::Cgroup(self.cgroup()),
            17 => Step::Loop {
                times: Some(self.random.between(1, 5)),
                steps: vec![Step::Lock(0), Step::Run(self.length(MS)), Step::Unlock(0)],
            },
            18 => Step::Policy(*self.random.pick(&[
                Policy::Normal,
                Policy::Normal,
                Policy::Realtime,
                Policy::Deadline,
            ])),
            _ => Step::Resume(self.other_task()),
        }
    }

    /// Most of these are refused.
    fn wrong_call(&mut self) -> Call {
        let task = self.other_task();
        match self.random.between(0, 4) {
            0 => Call::Join {
                task,
                domain: self.domain(),
                slot: self.random.between(0, 100) as u32,
            },
            1 => Call::Leave { task },
            2 => Call::DestroyDomain(self.domain()),
            _ => self.reservation_call(),
        }
    }

    pub fn reservation_call(&mut self) -> Call {
        const ONE: u64 = 1 << 20;
        let (class, rate) = (self.random.between(0, 4) as u32, self.rate(ONE));
        let reservation = self.random.between(0, 4) as usize;
        match self.random.between(0, 12) {
            0 | 1 => Call::Classes {
                capacities: (0..3).map(|_| self.rate(ONE / 4)).collect(),
                orders: Vec::new(),
                flexible: self.rate(ONE / 4),
            },
            2..=4 => Call::Reserve { class, rate },
            5 => Call::ChangeReservation {
                reservation,
                class,
                rate,
            },
            6 => Call::EndReservation { reservation },
            _ => Call::AddToReservation {
                reservation,
                task: self.other_task(),
            },
        }
    }

    /// Now and then none.
    fn rate(&mut self, one: u64) -> u32 {
        if self.random.chance(0.1) {
            return 0;
        }
        self.random.between(1, one) as u32
    }

    pub fn action(&mut self) -> Action {
        let task = self.other_task();
        let what = match self.random.between(0, 15) {
            14 if self.random.chance(0.2) => ActionKind::DaemonDies {
                back_after_ns: Some(self.random.between(0, 50) * MS),
            },
            14 if self.random.chance(0.2) => ActionKind::Dump,
            14 => ActionKind::Call(self.wrong_call()),
            0 => ActionKind::CpuOffline(
                self.random.between(0, u64::from(self.setup.machine.cpus())) as Cpu,
            ),
            1 => ActionKind::CpuOnline(
                self.random.between(0, u64::from(self.setup.machine.cpus())) as Cpu,
            ),
            2 | 3 => ActionKind::Nice {
                task,
                nice: self.nice(),
            },
            4..=8 => ActionKind::Affinity {
                task,
                cpus: self.cpus(),
            },
            9 | 10 => ActionKind::MoveToCgroup {
                task,
                cgroup: self.cgroup(),
            },
            11 => ActionKind::CgroupWeight {
                cgroup: self.cgroup(),
                weight: *self.random.pick(&[1, 100, 1000]),
            },
            12 => ActionKind::Kill { task },
            _ => ActionKind::Tunables(Tunables {
                granularity_ns: Some(self.random.between(100, 20_000) * US),
                min_slice_ns: Some(self.random.between(10, 100) * US),
                window_ns: None,
            }),
        };
        Action {
            at_ns: self.random.between(0, self.setup.duration_ns),
            what,
        }
    }
}
