// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two algorithms of 004, as published, to be studied: RC, and FRC, from which Consort's tree descends.
//!
//! Problem  A thread has reserved a rate r, with a period p.
//! Rule     Each thread has a finish value: when what it has run would be done at its rate. Running for x adds x / r.
//!          RC: a thread that wakes is at least at the present time; the thread whose period ends first runs, of those in
//!          which finish values lie. FRC: a thread that wakes is at least a quantum after the smallest finish value; the
//!          smallest runs. Threads are compared when one wakes, when one sleeps, and at ticks.
//! Bound    RC: Theorem 1, for punctual threads; a thread that has run on a CPU that nobody else wanted is punished for it when
//!          others come. FRC: Lemma 1, finish values of runnable threads are within q / r of each other.
//! Source   004 section 2, Figure 2; effective rates as in section 3.
//! Limits   One level: no proxied classes. A thread that has reserved nothing shares the class flexible, by nice values; cgroups
//!          mean nothing. A task that is forked has no part in its parent's rate. One queue for all CPUs. No credits.

use std::collections::BTreeSet;

use super::{runtime_ns, tell_idle, weights::of_nice};
use crate::{
    error::Error,
    ffi::SCX_KICK_PREEMPT,
    kernel::{Kernel, SLICE_INFINITE},
    rates::{RateRequest, Reserve, ROOT},
    scheduler::Scheduler,
    setup::Cpu,
    trace::{TaskId, What},
};
use consort_rates::admission::{Ledger, Reservation, UserLimits};
use consort_rates::classes::Classes;
use consort_rates::rate::{Rate, MILLION};

/// One tick of 250 Hz.
const QUANTUM_NS: u64 = 4_000_000;
/// Of who has reserved nothing.
const PERIOD_NS: u64 = 30_000_000;

/// Who goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    Rc,
    Frc,
}

#[derive(Debug, Clone, Default)]
struct Thread {
    /// `finish(Q)`, in ns of real time for RC; only differences count for FRC.
    finish_ns: u64,
    /// `start(Q)`: since when it has its rate.
    start_ns: u64,
    /// Its CPU time when it was last charged.
    charged_ns: u64,
    /// Its part of the class flexible; 0: it has reserved, or is not there.
    weight: u64,
    is_runnable: bool,
    /// Under which it waits.
    key: Option<(u64, u64)>,
}

/// See the module.
#[derive(Debug)]
pub struct RateControlled {
    algorithm: Algorithm,
    quantum_ns: u64,
    ledger: Ledger<TaskId>,
    threads: Vec<Thread>,
    /// Of the threads that have reserved nothing.
    flexible_weight: u64,
    /// The finish value of whoever slept last, with nobody left to run.
    left_ns: u64,
    /// Value, turn, thread: who waits.
    waiting: BTreeSet<(u64, u64, TaskId)>,
    turns: u64,
    /// What each CPU's thread had run when it was chosen.
    began_ns: Vec<u64>,
}

impl RateControlled {
    /// With quanta of this length, 4 ms if none is given.
    pub fn new(algorithm: Algorithm, quantum_ns: Option<u64>) -> Self {
        Self {
            algorithm,
            quantum_ns: quantum_ns.unwrap_or(QUANTUM_NS),
            ledger: Ledger::new(Classes::none(1), UserLimits::default()),
            threads: Vec::new(),
            flexible_weight: 0,
            left_ns: 0,
            waiting: BTreeSet::new(),
            turns: 0,
            began_ns: Vec::new(),
        }
    }

    fn thread(&mut self, task: TaskId) -> &mut Thread {
        &mut self.threads[task as usize]
    }

    fn reservation(&self, task: TaskId) -> Option<&Reservation<TaskId>> {
        self.ledger.get(self.ledger.find(&task)?)
    }

    /// `r(Q)`, the effective rate.
    fn rate(&self, task: TaskId) -> Rate {
        let rate = match self.reservation(task) {
            Some(held) => self.ledger.effective(held.class, held.rate),
            None => {
                let (weight, all) = (self.threads[task as usize].weight, self.flexible_weight);
                let flexible = self.ledger.classes().flexible();
                flexible.share(Rate(weight), Rate(all)).min(Rate::ONE)
            }
        };
        rate.max(Rate(1))
    }

    fn lasting_ns(&self, task: TaskId, ran_ns: u64) -> u64 {
        (u128::from(ran_ns) * u128::from(MILLION) / u128::from(self.rate(task).0)) as u64
    }

    /// What the threads have run on their CPUs is added to their finish values.
    fn charge_running(&mut self, k: &Kernel) {
        for cpu in 0..k.machine.cpus() {
            if let Some(task) = k.current(cpu) {
                self.charge(k, task, cpu);
            }
        }
    }

    fn charge(&mut self, k: &Kernel, task: TaskId, cpu: Cpu) {
        let runtime_ns = runtime_ns(k, task, cpu);
        let ran_ns = runtime_ns.saturating_sub(self.threads[task as usize].charged_ns);
        let lasting_ns = self.lasting_ns(task, ran_ns);
        let thread = self.thread(task);
        thread.finish_ns = thread.finish_ns.saturating_add(lasting_ns);
        thread.charged_ns = thread.charged_ns.max(runtime_ns);
    }

    /// L1 to L3 of FRC, L1 and L2 of RC.
    fn unblock(&mut self, k: &Kernel, task: TaskId) {
        let least_ns = match self.algorithm {
            Algorithm::Rc => k.now_ns(),
            Algorithm::Frc => {
                let runnable = self.threads.iter().filter(|thread| thread.is_runnable);
                let first_ns = runnable.map(|thread| thread.finish_ns).min();
                // Figure 2b says nothing of the least of none: it is still what it was. Were it 0, a thread that has run alone
                // would wait until all who come while it sleeps have caught up.
                first_ns.unwrap_or(self.left_ns) + self.lasting_ns(task, self.quantum_ns)
            }
        };
        let thread = self.thread(task);
        thread.finish_ns = thread.finish_ns.max(least_ns);
        thread.is_runnable = true;
    }

    /// The end of the period in which the finish value lies, or that value itself.
    fn value(&self, task: TaskId) -> u64 {
        let thread = &self.threads[task as usize];
        match self.algorithm {
            Algorithm::Frc => thread.finish_ns,
            Algorithm::Rc => {
                let held = self.reservation(task);
                let period_ns = held.map_or(PERIOD_NS, |held| held.period_ns);
                let ended = thread.finish_ns.saturating_sub(thread.start_ns) / period_ns;
                thread.start_ns.saturating_add((ended + 1) * period_ns)
            }
        }
    }

    fn wait(&mut self, task: TaskId) {
        self.forget(task);
        self.turns += 1;
        let (value, turn) = (self.value(task), self.turns);
        self.waiting.insert((value, turn, task));
        self.thread(task).key = Some((value, turn));
    }

    fn forget(&mut self, task: TaskId) {
        if let Some((value, turn)) = self.thread(task).key.take() {
            self.waiting.remove(&(value, turn, task));
        }
    }

    fn first_for(&self, k: &Kernel, cpu: Cpu) -> Option<TaskId> {
        let mut all = self.waiting.iter().map(|(_, _, task)| *task);
        all.find(|task| k.may_run_on(*task, cpu))
    }

    /// Of the CPUs where the thread may run, the one whose thread is to go last, if after it.
    fn to_preempt(&self, k: &Kernel, task: TaskId) -> Option<Cpu> {
        let usable = (0..k.machine.cpus()).filter(|cpu| k.may_run_on(task, *cpu));
        let known = |task: &TaskId| self.threads[*task as usize].is_runnable;
        let valued = usable.filter_map(|cpu| {
            let current = k.current(cpu).filter(known)?;
            Some((self.value(current), cpu))
        });
        let (value, cpu) = valued.max()?;
        (value > self.value(task)).then_some(cpu)
    }

    /// Its part of the class flexible, if it has reserved nothing.
    fn weigh(&mut self, k: &Kernel, task: TaskId, is_there: bool) {
        let weight = match is_there && self.reservation(task).is_none() {
            true => of_nice(k.nice(task)),
            false => 0,
        };
        let old = std::mem::replace(&mut self.thread(task).weight, weight);
        self.flexible_weight = self.flexible_weight + weight - old;
    }

    fn reserve(&mut self, k: &Kernel, task: TaskId, wanted: Reserve) -> Result<(), String> {
        let old = self.ledger.find(&task);
        let rate = Rate(wanted.rate);
        let admitted = self.ledger.admit(ROOT, wanted.class, rate, old);
        admitted.map_err(|refusal| refusal.text)?;
        let number = old.unwrap_or_else(|| self.ledger.next_number());
        self.ledger.insert(number, wanted.of(task));
        self.thread(task).start_ns = k.now_ns();
        self.weigh(k, task, true);
        Ok(())
    }

    fn release(&mut self, k: &Kernel, task: TaskId) -> Result<(), String> {
        let held = self.ledger.find(&task);
        let number = held.ok_or_else(|| format!("{} has no reservation", k.task_name(task)))?;
        self.ledger.remove(number);
        self.weigh(k, task, true);
        Ok(())
    }
}

impl Scheduler for RateControlled {
    fn name(&self) -> &'static str {
        match self.algorithm {
            Algorithm::Rc => "rc",
            Algorithm::Frc => "frc",
        }
    }

    fn begin(&mut self, k: &mut Kernel) -> Result<(), Error> {
        let classes = k.setup.rates.as_ref().map(|rates| rates.classes.clone());
        let classes = classes.unwrap_or_else(|| Classes::none(k.machine.cpus()));
        self.ledger = Ledger::new(classes, UserLimits::default());
        self.began_ns = vec![0; k.machine.cpus() as usize];
        Ok(())
    }

    fn init_task(&mut self, k: &mut Kernel, task: TaskId) -> bool {
        let index = task as usize;
        if index >= self.threads.len() {
            self.threads.resize(index + 1, Thread::default());
        }
        self.threads[index] = Thread {
            start_ns: k.now_ns(),
            charged_ns: k.runtime_ns(task),
            ..Thread::default()
        };
        true
    }

    fn enable(&mut self, k: &mut Kernel, task: TaskId) {
        self.thread(task).charged_ns = k.runtime_ns(task);
        self.weigh(k, task, true);
    }

    fn disable(&mut self, k: &mut Kernel, task: TaskId) {
        self.forget(task);
        self.thread(task).is_runnable = false;
        self.weigh(k, task, false);
    }

    fn exit_task(&mut self, k: &mut Kernel, task: TaskId) {
        self.disable(k, task);
        if let Some(number) = self.ledger.find(&task) {
            self.ledger.remove(number);
        }
    }

    fn set_weight(&mut self, k: &mut Kernel, task: TaskId) {
        self.charge_running(k);
        self.weigh(k, task, true);
    }

    fn begin_task(&mut self, k: &mut Kernel, task: TaskId) {
        let setup = std::rc::Rc::clone(&k.setup);
        let of = k.tasks[task as usize].of;
        let planned = setup.rates.iter().flat_map(|rates| &rates.reserved);
        for (_, wanted) in planned.filter(|(index, _)| *index == of) {
            if let Err(text) = self.reserve(k, task, *wanted) {
                k.emit(What::Refused {
                    task,
                    text,
                    is_reservation: true,
                });
            }
        }
    }

    fn ask_rate(
        &mut self,
        k: &mut Kernel,
        task: TaskId,
        request: RateRequest,
    ) -> Result<(), String> {
        self.charge_running(k);
        match request {
            RateRequest::Reserve(wanted) => self.reserve(k, task, wanted),
            RateRequest::Release => self.release(k, task),
            RateRequest::Lend { .. } | RateRequest::Recollect { .. } => {
                Err(format!("{} knows no credits", self.name()))
            }
        }
    }

    fn select_cpu(&mut self, k: &mut Kernel, task: TaskId, prev_cpu: Cpu, wake_flags: u64) -> Cpu {
        k.select_cpu_dfl(task, prev_cpu, wake_flags).0
    }

    fn enqueue(&mut self, k: &mut Kernel, task: TaskId, _flags: u64) {
        let cpu = k.cpu_of(task);
        self.charge_running(k);
        self.charge(k, task, cpu);
        let has_woken = !self.threads[task as usize].is_runnable;
        if has_woken {
            self.unblock(k, task);
        }
        self.wait(task);
        if k.current(cpu).is_none() {
            return;
        }
        tell_idle(k, task);
        if let Some(cpu) = self.to_preempt(k, task).filter(|_| has_woken) {
            k.kick(cpu, u64::from(SCX_KICK_PREEMPT));
        }
    }

    fn quiescent(&mut self, k: &mut Kernel, task: TaskId, _flags: u64) {
        let cpu = k.cpu_of(task);
        self.charge(k, task, cpu);
        self.forget(task);
        self.thread(task).is_runnable = false;
        if !self.threads.iter().any(|thread| thread.is_runnable) {
            self.left_ns = self.left_ns.max(self.threads[task as usize].finish_ns);
        }
    }

    fn dispatch(&mut self, k: &mut Kernel, cpu: Cpu, prev: Option<TaskId>) {
        self.charge_running(k);
        let goes_on = prev.filter(|task| k.is_queued(*task));
        let first = self.first_for(k, cpu);
        let value = |task: Option<TaskId>| task.map(|task| self.value(task));
        let chosen = match (first, goes_on) {
            // Equals take turns.
            (Some(_), Some(_)) if value(first) <= value(goes_on) => first,
            (first, None) => first,
            (_, goes_on) => goes_on,
        };
        let Some(task) = chosen else {
            return;
        };
        self.began_ns[cpu as usize] = k.runtime_ns(task);
        if chosen == goes_on {
            k.set_slice(task, SLICE_INFINITE);
        } else {
            self.forget(task);
            k.insert_local(task, SLICE_INFINITE, 0);
        }
    }

    fn tick(&mut self, k: &mut Kernel, cpu: Cpu, task: TaskId) {
        self.charge_running(k);
        let ran_ns = k
            .runtime_ns(task)
            .saturating_sub(self.began_ns[cpu as usize]);
        // To the nearest tick: a quantum is a number of them.
        let is_over = ran_ns + k.costs.tick_period_ns / 2 >= self.quantum_ns;
        let first = self.first_for(k, cpu).map(|first| self.value(first));
        if is_over && first.is_some_and(|first| first <= self.value(task)) {
            k.kick(cpu, u64::from(SCX_KICK_PREEMPT));
        }
    }
}
