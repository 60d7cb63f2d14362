// SPDX-License-Identifier: GPL-2.0 OR MIT
//! One CPU over seconds of virtual time, with programs that keep the contract and programs that do not.
//!
//! Members run one event at a time and poll when it ends. Outsiders are preempted when they are to be compared, and
//! when a member becomes due that may borrow.

use crate::{host::Host, policy::*};

/// The shortest time that anybody runs: timers do not fire sooner.
pub const RUN_LEAST_NS: u64 = 1000;

#[derive(Clone, Debug)]
pub enum Program {
    /// Does as it is told: due events in turn, best-effort events while it has any.
    Honest {
        period_ns: u64,
        due_cost_ns: u64,
        /// Of one best-effort event; 0: it has none, and sleeps.
        best_cost_ns: u64,
        priority: u32,
    },
    /// Publishes a due time long past, always.
    Liar { cost_ns: u64 },
    /// Publishes the time of its poll, or one a little ahead, as its due time, always.
    Eager { cost_ns: u64, ahead_ns: u64 },
    /// One due event in each period; those that it has missed it gives up.
    Audio { period_ns: u64, cost_ns: u64 },
    /// No member; runs whenever it may.
    Hog,
    /// No member; works for a while, and sleeps for a while.
    Editor { works_ns: u64, sleeps_ns: u64 },
}

pub struct Thread {
    pub program: Program,
    due_ns: u64,
    /// It has not polled yet since it joined.
    is_new: bool,
    /// When its event ends, while it runs.
    ends_ns: u64,
    served: u64,
    /// How much CPU time an editor will have had when it sleeps again.
    sleeps_after_ns: u64,
    /// How late its latest due event was.
    pub tardiness_max_ns: u64,
    pub waited_max_ns: u64,
}

pub struct Cpu {
    pub h: Host,
    pub threads: Vec<Thread>,
    compare_at_ns: u64,
}

impl Cpu {
    /// The host has slices.
    pub fn new(h: Host) -> Self {
        Cpu {
            h,
            threads: Vec::new(),
            compare_at_ns: u64::MAX,
        }
    }

    /// `first_due_ns` is relative to now.
    pub fn add(&mut self, program: Program, domain: Option<usize>, first_due_ns: u64) -> usize {
        self.add_to(None, program, domain, first_due_ns)
    }

    /// The same in another account than the root.
    pub fn add_to(
        &mut self,
        home: Option<usize>,
        program: Program,
        domain: Option<usize>,
        first_due_ns: u64,
    ) -> usize {
        let t = self.h.add_task(home, domain, u64::from(WEIGHT_ONE));

        self.threads.push(Thread {
            program,
            due_ns: self.h.now_ns + first_due_ns,
            is_new: domain.is_some(),
            ends_ns: 0,
            served: 0,
            sleeps_after_ns: 0,
            tardiness_max_ns: 0,
            waited_max_ns: 0,
        });
        if domain.is_some() {
            // It has said nothing yet, and must run to do so.
            self.h.publish(t, self.h.now_ns, PRIORITY_NONE, 0);
        }
        self.h.wake(t);
        t
    }

    /// The chosen task begins its next event.
    fn begin(&mut self) {
        self.compare_at_ns = self.h.compare_at_ns(self.h.place.quantum_ns);
        let Some(t) = self.h.running else { return };
        let (now_ns, thread) = (self.h.now_ns, &mut self.threads[t]);

        if thread.ends_ns > now_ns && !matches!(thread.program, Program::Editor { .. }) {
            return;
        }
        let waited_ns = now_ns - self.h.tasks[t].waits_since_ns.min(now_ns);
        thread.waited_max_ns = thread.waited_max_ns.max(waited_ns);
        let cost_ns = match thread.program {
            _ if std::mem::take(&mut thread.is_new) => 0,
            Program::Honest {
                period_ns,
                due_cost_ns,
                ..
            } if thread.due_ns <= now_ns => {
                thread.tardiness_max_ns = thread.tardiness_max_ns.max(now_ns - thread.due_ns);
                thread.due_ns += period_ns;
                due_cost_ns
            }
            Program::Honest { best_cost_ns, .. } => {
                thread.served += u64::from(best_cost_ns > 0);
                best_cost_ns
            }
            Program::Audio { period_ns, cost_ns } => {
                let late_ns = now_ns.saturating_sub(thread.due_ns);
                thread.tardiness_max_ns = thread.tardiness_max_ns.max(late_ns);
                thread.due_ns += period_ns * (1 + late_ns / period_ns);
                cost_ns
            }
            Program::Liar { cost_ns } | Program::Eager { cost_ns, .. } => cost_ns,
            Program::Editor { works_ns, .. } => {
                let ran_ns = self.h.tasks[t].ran_ns;
                if thread.sleeps_after_ns <= ran_ns {
                    thread.sleeps_after_ns = ran_ns + works_ns;
                }
                thread.sleeps_after_ns - ran_ns
            }
            Program::Hog => u64::MAX - now_ns,
        };
        thread.ends_ns = now_ns + cost_ns.max(RUN_LEAST_NS);
    }

    fn compare(&mut self) {
        let before = self.h.running;

        self.h.dispatch();
        if let (Some(t), true) = (self.h.running, before == self.h.running) {
            // Who goes on has not waited.
            self.h.tasks[t].waits_since_ns = self.h.now_ns;
        }
        self.begin();
    }

    /// The running member's event is over: it tells what comes next, and sleeps if nothing can run now.
    fn poll(&mut self, t: usize) {
        let thread = &self.threads[t];

        match thread.program {
            Program::Honest {
                best_cost_ns,
                priority,
                ..
            } => {
                let priority = if best_cost_ns > 0 {
                    priority
                } else {
                    PRIORITY_NONE
                };
                let sleeps = best_cost_ns == 0 && thread.due_ns > self.h.now_ns;
                self.h.publish(t, thread.due_ns, priority, thread.served);
                if sleeps {
                    self.h.sleep();
                }
            }
            Program::Liar { .. } => self.h.publish(t, 1, PRIORITY_NONE, 0),
            Program::Eager { ahead_ns, .. } => {
                self.h
                    .publish(t, self.h.now_ns + ahead_ns, PRIORITY_NONE, 0)
            }
            Program::Audio { .. } => {
                let sleeps = thread.due_ns > self.h.now_ns;
                self.h.publish(t, thread.due_ns, PRIORITY_NONE, 0);
                if sleeps {
                    self.h.sleep();
                }
            }
            Program::Hog | Program::Editor { .. } => (),
        }
        self.compare();
    }

    /// An outsider that has run until it is to be compared, or to sleep.
    fn stop(&mut self, t: usize) {
        let thread = &mut self.threads[t];

        if let Program::Editor { sleeps_ns, .. } = thread.program {
            if self.h.tasks[t].ran_ns >= thread.sleeps_after_ns {
                thread.due_ns = self.h.now_ns + sleeps_ns;
                self.h.sleep();
            }
        }
        self.compare();
    }

    fn next_wake(&self) -> Option<(u64, usize)> {
        let asleep = (0..self.threads.len()).filter(|&t| !self.h.is_active(t));

        asleep.map(|t| (self.threads[t].due_ns, t)).min()
    }

    fn is_outsider(&self, t: usize) -> bool {
        self.h.tasks[t].domain.is_none()
    }

    /// A sleeper wakes at its due time; an outsider that runs is preempted for it.
    fn wake(&mut self, t: usize) {
        // Who wakes is to find virtual times as they are.
        self.h.settle();
        self.h.wake(t);
        match self.h.running {
            Some(r) if !self.is_outsider(r) => self.begin(),
            _ => self.compare(),
        }
    }

    /// The time at which something happens next, not before `RUN_LEAST_NS` if it is a timer.
    fn stops_at_ns(&self) -> u64 {
        match self.h.running {
            Some(t) if self.is_outsider(t) => {
                let compare_at_ns = self.compare_at_ns.max(self.h.now_ns + RUN_LEAST_NS);
                compare_at_ns.min(self.threads[t].ends_ns)
            }
            Some(t) => self.threads[t].ends_ns,
            None => u64::MAX,
        }
    }

    /// Runs until something happens.
    pub fn step(&mut self) {
        if self.h.running.is_none() && !self.h.place.waiters.first.is_null() {
            return self.compare();
        }
        let stops_at_ns = self.stops_at_ns();
        if let Some((at_ns, t)) = self.next_wake().filter(|w| w.0 <= stops_at_ns) {
            self.h.pass(at_ns.saturating_sub(self.h.now_ns));
            return self.wake(t);
        }
        assert!(stops_at_ns < u64::MAX, "nobody runs, and nobody will");
        self.h.pass(stops_at_ns - self.h.now_ns);
        match self.h.running {
            Some(t) if self.is_outsider(t) => self.stop(t),
            Some(t) => self.poll(t),
            None => self.compare(),
        }
    }
}
