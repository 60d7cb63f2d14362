// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that waited for a CPU, for how long, and the threads that had it meanwhile.
//!
//! A wait begins when a thread wakes, or loses its CPU while it still wants one, and ends when it has one. Whoever ran on
//! that CPU meanwhile is to blame, for as long as that was, and interrupts are nobody's.

use std::collections::HashMap;

use crate::{
    record::{Record, What},
    Histogram, Reason,
};

/// A thread's time on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    pub from_ns: u64,
    pub to_ns: u64,
    /// Of that, what interrupts took.
    pub interrupted_ns: u64,
    pub tid: i32,
    pub reason: Reason,
}

impl Run {
    /// How much of it lies in a wait: its own time, and what interrupts took. Of a run that lies there in part, interrupts
    /// count in proportion.
    pub fn within(
        from_ns: u64,
        to_ns: u64,
        interrupted_ns: u64,
        since_ns: u64,
        until_ns: u64,
    ) -> (u64, u64) {
        let overlap_ns = to_ns.min(until_ns).saturating_sub(from_ns.max(since_ns));
        let ran_ns = to_ns.saturating_sub(from_ns).max(1);
        let part = u128::from(interrupted_ns.min(ran_ns)) * u128::from(overlap_ns);
        let interrupted_ns = (part / u128::from(ran_ns)) as u64;
        (overlap_ns - interrupted_ns, interrupted_ns)
    }
}

/// A thread that is to blame, and why it ran: thread 0 is nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Blamed {
    pub tid: i32,
    pub reason: Reason,
}

/// A wait looks back on so many runs, and a thread's waits tell so many apart, which are to blame: without a bound, what a
/// report needs would grow with the square of a trace.
const RUNS_MOST: usize = 1024;
const BLAMED_MOST: usize = 64;
/// All others that are to blame; no thread has this number.
pub const OTHERS: i32 = -1;

/// How long whom.
#[derive(Debug, Clone, Default)]
pub struct Blame(HashMap<Blamed, u64>);

impl Blame {
    fn add(&mut self, tid: i32, reason: Reason, ns: u64) {
        if ns > 0 {
            let mut blamed = Blamed { tid, reason };
            if self.0.len() >= BLAMED_MOST && !self.0.contains_key(&blamed) {
                blamed.tid = OTHERS;
            }
            let sum = self.0.entry(blamed).or_default();
            *sum = sum.saturating_add(ns);
        }
    }

    /// The longest first.
    pub fn sorted(&self) -> Vec<(Blamed, u64)> {
        let mut all: Vec<(Blamed, u64)> =
            self.0.iter().map(|(blamed, ns)| (*blamed, *ns)).collect();
        all.sort_by_key(|(blamed, ns)| (std::cmp::Reverse(*ns), *blamed));
        all
    }
}

/// What a thread had, and how it waited.
#[derive(Debug, Clone, Default)]
pub struct Waited {
    /// On CPUs, without what interrupts took of it.
    pub ran_ns: u64,
    /// How often it got one.
    pub switches: u64,
    /// How often it lost one that it still wanted.
    pub preemptions: u64,
    pub waits_ns: Histogram,
    pub blame: Blame,
}

#[derive(Debug, Default)]
struct Cpu {
    /// Its thread, since when, and why; none: it is not known yet.
    running: Option<(i32, u64, Reason)>,
    /// Those that are over, by time.
    runs: Vec<Run>,
}

/// Follows a trace's records in order of time.
#[derive(Debug, Default)]
pub struct Waits {
    cpus: HashMap<u16, Cpu>,
    waiting_since_ns: HashMap<i32, u64>,
    threads: HashMap<i32, Waited>,
}

impl Waits {
    /// Returns the wait that ends with this record, if there is one: since when.
    pub fn follow(&mut self, record: &Record) -> Option<u64> {
        match (&record.what, record.cpu) {
            (What::Wake { .. }, _) if record.tid != 0 => {
                self.waiting_since_ns
                    .entry(record.tid)
                    .or_insert(record.at_ns);
                None
            }
            (
                What::Switch {
                    prev_tid,
                    left,
                    interrupted_ns,
                    reason,
                    ..
                },
                Some(cpu),
            ) => {
                self.leaves(cpu, *prev_tid, record.at_ns, *interrupted_ns);
                if left.waits() && *prev_tid != 0 {
                    self.waiting_since_ns.insert(*prev_tid, record.at_ns);
                    self.threads.entry(*prev_tid).or_default().preemptions += 1;
                } else {
                    self.waiting_since_ns.remove(prev_tid);
                }
                let since_ns = self.gets(cpu, record.tid, record.at_ns);
                self.cpus.entry(cpu).or_default().running =
                    Some((record.tid, record.at_ns, *reason));
                since_ns
            }
            _ => None,
        }
    }

    /// A CPU's run is over. One that began before the trace is not known.
    fn leaves(&mut self, cpu: u16, tid: i32, now_ns: u64, interrupted_ns: u64) {
        let cpu = self.cpus.entry(cpu).or_default();
        let Some((running, from_ns, reason)) = cpu.running.take() else {
            return;
        };
        // Records in between are missing if it is another one.
        if running != tid {
            return;
        }
        let ran_ns = now_ns.saturating_sub(from_ns);
        cpu.runs.push(Run {
            from_ns,
            to_ns: now_ns,
            interrupted_ns,
            tid,
            reason,
        });
        if tid != 0 {
            let ran = &mut self.threads.entry(tid).or_default().ran_ns;
            *ran = ran.saturating_add(ran_ns.saturating_sub(interrupted_ns));
        }
    }

    /// A thread gets a CPU: its wait is over.
    fn gets(&mut self, cpu: u16, tid: i32, now_ns: u64) -> Option<u64> {
        if tid == 0 {
            return None;
        }
        let waited = self.threads.entry(tid).or_default();
        waited.switches += 1;
        let since_ns = self.waiting_since_ns.remove(&tid)?;
        waited
            .waits_ns
            .add(i64::try_from(now_ns.saturating_sub(since_ns)).unwrap_or(i64::MAX));
        let runs = self.cpus.get(&cpu).map_or(&[][..], |cpu| &cpu.runs);
        let in_wait = runs.iter().rev().take_while(|run| run.to_ns > since_ns);
        for run in in_wait.take(RUNS_MOST) {
            let (own_ns, interrupted_ns) =
                Run::within(run.from_ns, run.to_ns, run.interrupted_ns, since_ns, now_ns);
            waited.blame.add(0, Reason::Interrupt, interrupted_ns);
            // Before it got the CPU that it had lost, it did not wait for itself.
            if run.tid != tid {
                waited.blame.add(run.tid, run.reason, own_ns);
            }
        }
        Some(since_ns)
    }

    /// The threads that ran or waited.
    pub fn into_threads(self) -> HashMap<i32, Waited> {
        self.threads
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record::Left;

    pub fn switch(at_ns: u64, prev_tid: i32, left: Left, tid: i32, reason: Reason) -> Record {
        Record {
            at_ns,
            cpu: Some(0),
            tid,
            pid: tid,
            what: What::Switch {
                prev_tid,
                prev_pid: prev_tid,
                left,
                reason,
                priority: 120,
                interrupted_ns: 0,
                command: format!("task{tid}"),
            },
        }
    }

    pub fn wake(at_ns: u64, tid: i32) -> Record {
        Record {
            at_ns,
            cpu: Some(0),
            tid,
            pid: tid,
            what: What::Wake {
                by_tid: 0,
                is_new: false,
                command: format!("task{tid}"),
            },
        }
    }

    /// 1 runs from 100, 2 wakes at 150, has the CPU from 200 to 300, and 1 has it again until 400.
    pub fn two_tasks() -> Vec<Record> {
        vec![
            switch(100, 0, Left::Preempted, 1, Reason::Slice),
            wake(150, 2),
            switch(200, 1, Left::Preempted, 2, Reason::Due),
            switch(300, 2, Left::Slept, 1, Reason::Slice),
            switch(400, 1, Left::Slept, 0, Reason::Idle),
        ]
    }

    #[test]
    fn waits_are_blamed_on_who_ran() {
        let mut waits = Waits::default();
        let ended: Vec<Option<u64>> = two_tasks()
            .iter()
            .map(|record| waits.follow(record))
            .collect();
        assert_eq!(ended, [None, None, Some(150), Some(200), None]);
        let mut threads = waits.into_threads();
        let one = threads.remove(&1).unwrap();
        let two = threads.remove(&2).unwrap();
        assert_eq!(
            (one.ran_ns, two.ran_ns, one.preemptions, two.preemptions),
            (200, 100, 1, 0)
        );
        let blamed = |tid, reason| Blamed { tid, reason };
        assert_eq!(two.blame.sorted(), [(blamed(1, Reason::Slice), 50)]);
        assert_eq!(one.blame.sorted(), [(blamed(2, Reason::Due), 100)]);
        assert!(!threads.contains_key(&0), "nobody waits for nothing");
    }

    #[test]
    fn what_is_kept_of_waits_is_bounded() {
        let number = 3_000;
        let mut waits = Waits::default();
        for tid in 1..=number {
            waits.follow(&wake(tid as u64, tid));
        }
        for tid in 1..=number {
            let at_ns = 10_000 + tid as u64;
            waits.follow(&switch(at_ns, tid - 1, Left::Slept, tid, Reason::Slice));
        }
        let threads = waits.into_threads();
        let most = threads.values().map(|it| it.blame.sorted().len()).max();
        assert!(most.unwrap() <= BLAMED_MOST + 9);
        let last = threads[&number].blame.sorted();
        assert_eq!(last[0].0.tid, OTHERS, "{last:?}");
        let blamed_ns: u64 = last.iter().map(|it| it.1).sum();
        assert_eq!(blamed_ns, RUNS_MOST as u64);
    }

    #[test]
    fn interrupts_are_nobodys() {
        assert_eq!(Run::within(1_700, 2_000, 200, 1_000, 2_000), (100, 200));
        assert_eq!(Run::within(900, 1_700, 0, 1_000, 2_000), (700, 0));
        assert_eq!(Run::within(0, 900, 0, 1_000, 2_000), (0, 0));
        assert_eq!(
            Run::within(0, u64::MAX, u64::MAX, 0, u64::MAX),
            (0, u64::MAX)
        );
    }

    #[test]
    fn a_run_whose_begin_is_missing_is_not_made_up() {
        let mut waits = Waits::default();
        waits.follow(&switch(100, 0, Left::Preempted, 1, Reason::Slice));
        waits.follow(&switch(900, 5, Left::Slept, 1, Reason::Slice));
        let threads = waits.into_threads();
        assert_eq!(threads[&1].ran_ns, 0);
    }
}
