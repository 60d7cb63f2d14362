// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs written as steps.

use super::client::{Next, NEVER};
use super::locks::Wanted;
use super::shared::{pass, wake, Passed};
use super::{At, Behaviour, Do, UNTIL_WOKEN};
use crate::ffi::cpumask;
use crate::kernel::NEVER_NS;
use crate::profile::Profile;
use crate::setup::{Due, Length, Step};
use crate::trace::What;
use std::collections::BTreeMap;

/// Steps without nesting.
enum Op {
    Step(Step),
    /// None: for ever. `end` is the op after the loop's last.
    Begin {
        times: Option<u64>,
        end: usize,
    },
    End {
        begin: usize,
    },
}

pub(crate) struct Steps {
    ops: Vec<Op>,
    at: usize,
    /// Turns left of each loop that is being run, by its begin.
    turns: BTreeMap<usize, u64>,
    /// A due event to be served when the program goes on.
    due_ns: Option<u64>,
    /// Draws of lengths that depend on those before, by the op that draws.
    films: BTreeMap<usize, (Profile, u64)>,
    draws: BTreeMap<usize, usize>,
    /// Events of each mark that have been served, by its op.
    marks: BTreeMap<usize, u64>,
}

fn flatten(steps: &[Step], ops: &mut Vec<Op>) {
    for step in steps {
        let Step::Loop { times, steps } = step else {
            ops.push(Op::Step(step.clone()));
            continue;
        };
        let begin = ops.len();
        ops.push(Op::End { begin });
        flatten(steps, ops);
        ops.push(Op::End { begin });
        ops[begin] = Op::Begin {
            times: *times,
            end: ops.len(),
        };
    }
}

impl Steps {
    pub fn new(steps: &[Step]) -> Self {
        let mut ops = Vec::new();
        flatten(steps, &mut ops);
        Self {
            ops,
            at: 0,
            turns: BTreeMap::new(),
            due_ns: None,
            films: BTreeMap::new(),
            draws: BTreeMap::new(),
            marks: BTreeMap::new(),
        }
    }

    /// The next step, loops followed.
    fn advance(&mut self) -> Option<Step> {
        match self.ops.get(self.at)? {
            Op::Step(step) => {
                let step = step.clone();
                self.at += 1;
                Some(step)
            }
            Op::Begin { times, end } => {
                let left = self
                    .turns
                    .entry(self.at)
                    .or_insert(times.unwrap_or(u64::MAX));
                if *left == 0 {
                    self.turns.remove(&self.at);
                    self.at = *end;
                } else {
                    *left -= u64::from(times.is_some());
                    self.at += 1;
                }
                None
            }
            Op::End { begin } => {
                self.at = *begin;
                None
            }
        }
    }

    fn draw(&mut self, at: &mut At<'_>, length: &Length) -> u64 {
        let op = self.at;
        match length {
            Length::Fixed(ns) => *ns,
            Length::Uniform { min_ns, max_ns } => at.random.between(*min_ns, max_ns + 1),
            Length::Normal {
                mean_ns,
                deviation_ns,
            } => (*mean_ns as f64 + at.random.normal() * *deviation_ns as f64).max(0.0) as u64,
            Length::Exponential { mean_ns } => {
                (-(1.0 - at.random.unit()).ln() * *mean_ns as f64) as u64
            }
            Length::Vbr { mean_ns } => {
                let seed = u64::from(at.task) + 1;
                let (film, frame) = self
                    .films
                    .entry(op)
                    .or_insert_with(|| (Profile::new(seed, *mean_ns), 0));
                *frame += 1;
                film.cost_ns(*frame - 1)
            }
            Length::Series(lengths) => {
                let draw = self.draws.entry(op).or_insert(0);
                *draw += 1;
                lengths
                    .get((*draw - 1) % lengths.len().max(1))
                    .copied()
                    .unwrap_or(0)
            }
        }
    }

    fn poll(&mut self, at: &mut At<'_>, due: &Due, best_effort: Option<(u32, u64)>) -> Do {
        let now_ns = at.now_ns();
        let due_ns = match due {
            Due::Never => NEVER,
            Due::In(length) => now_ns + self.draw(at, length),
            Due::Timer {
                timer,
                period_ns,
                absolute,
            } => {
                at.k.shared
                    .next_of_timer(*timer, *period_ns, *absolute, now_ns)
            }
            Due::Raw(due_ns) => *due_ns,
        };
        let next = Next {
            due_ns,
            best_effort,
        };
        let todo = at.poll_at(next, now_ns);
        if matches!(todo, Do::Sleep(_)) && due_ns != NEVER {
            self.due_ns = Some(due_ns);
        }
        todo
    }

    /// An item was passed on; else the task waits, and tries again.
    fn pass(&mut self, at: &mut At<'_>, passed: Option<Passed>) -> Do {
        let Some(passed) = passed else {
            self.at -= 1;
            return Do::Sleep(UNTIL_WOKEN);
        };
        if let Some(producer) = passed.producer {
            at.publish(producer, 0, i64::from(passed.level));
        }
        pass(passed.woken)
    }

    fn take(&mut self, at: &mut At<'_>, step: Step) -> Do {
        let task = at.task;
        match step {
            Step::Tell(tell) => {
                at.tell(tell);
                Do::Again
            }
            Step::State { variable, value } => {
                at.publish(task, variable as usize, value);
                Do::Again
            }
            Step::Put { queue } => {
                let capacity = at.k.setup.queues[queue as usize];
                let passed = at.k.shared.put(queue, capacity, task);
                self.pass(at, passed)
            }
            Step::Take { queue } => {
                let passed = at.k.shared.take(queue, task);
                self.pass(at, passed)
            }
            Step::Mark {
                first_ns,
                period_ns,
            } => {
                let served = self.marks.entry(self.at).or_default();
                let due_ns = first_ns + *served * period_ns;
                *served += 1;
                at.served(due_ns);
                Do::Again
            }
            Step::Run(length) => Do::Work(self.draw(at, &length)),
            Step::Sleep(length) => Do::Sleep(at.now_ns() + self.draw(at, &length)),
            Step::Timer {
                timer,
                period_ns,
                absolute,
            } => {
                let now_ns = at.now_ns();
                let due_ns =
                    at.k.shared
                        .next_of_timer(timer, period_ns, absolute, now_ns);
                self.due_ns = Some(due_ns);
                Do::Sleep(due_ns)
            }
            Step::Yield => Do::Yield,
            Step::Lock(lock) => Do::Lock(Wanted {
                lock,
                until_ns: NEVER_NS,
            }),
            Step::LockFor { lock, timeout } => Do::Lock(Wanted {
                lock,
                until_ns: at.now_ns() + self.draw(at, &timeout),
            }),
            Step::Unlock(lock) => wake(at.k.give_lock(lock, task).into_iter().collect()),
            Step::Wait { condition, lock } => Do::Await { condition, lock },
            Step::Signal(condition) => wake(at.k.signal(condition, 1)),
            Step::Broadcast(condition) => wake(at.k.signal(condition, usize::MAX)),
            Step::Barrier { barrier, tasks } => match at.k.shared.barrier(barrier, tasks, task) {
                Some(others) => wake(others),
                None => Do::Sleep(UNTIL_WOKEN),
            },
            Step::Suspend => {
                at.k.shared.suspend(task);
                Do::Sleep(UNTIL_WOKEN)
            }
            Step::Resume(index) => {
                let tasks = &at.k.tasks;
                wake(at.k.shared.resume(|it| tasks[it as usize].of == index))
            }
            Step::Fork(index) => Do::Fork(index),
            Step::Nice(nice) => Do::Nice(nice),
            Step::Slice(slice_ns) => Do::Slice(slice_ns),
            Step::Policy(policy) => Do::Policy(policy),
            Step::Affinity(cpus) => Do::Affinity(cpumask::of(cpus)),
            Step::MigrateDisable => Do::MigrateDisable,
            Step::MigrateEnable => Do::MigrateEnable,
            Step::Cgroup(cgroup) => Do::Cgroup(cgroup),
            Step::Exec => Do::Exec,
            Step::Join(domain) => {
                at.k.tasks[task as usize].slack_ns = 0;
                Do::Join(domain)
            }
            Step::Leave => Do::Leave,
            Step::Rates(request) => Do::Rate(request),
            Step::Poll { due, best_effort } => self.poll(at, &due, best_effort),
            Step::Exit(work) => {
                self.at = self.ops.len();
                match self.draw(at, &work) {
                    0 => Do::Exit,
                    work_ns => Do::ExitAfter(work_ns),
                }
            }
            Step::Loop { .. } => Do::Again, // flattened away
        }
    }
}

impl Behaviour for Steps {
    fn next(&mut self, at: &mut At<'_>) -> Do {
        if let Some(due_ns) = self.due_ns.take() {
            let task = at.task;
            at.k.emit(What::Served { task, due_ns });
        }
        if self.at >= self.ops.len() {
            return Do::Exit;
        }
        match self.advance() {
            Some(step) => self.take(at, step),
            None => Do::Again,
        }
    }
}
