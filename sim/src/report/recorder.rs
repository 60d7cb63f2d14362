// SPDX-License-Identifier: MIT OR Apache-2.0
//! Follows a run and keeps what reports need: sums, and samples of due events, but not every event.

use super::intervals::{Interval, Intervals};
use crate::{
    setup::{Setup, TaskIndex},
    trace::{Event, Observer, TaskId, What},
};

/// Any second of a run begins at a multiple of this.
const STEP_NS: u64 = 10_000_000;
const NS_PER_S: u64 = 1_000_000_000;
/// Stretches of the picture of who ran when; more could not be told apart.
const STRETCHES_MAX: usize = 4_000;

/// What a task had inside the window.
#[derive(Debug, Clone, Default)]
pub struct TaskRecord {
    pub name: String,
    pub of: TaskIndex,
    pub run_ns: u64,
    /// CPU time in each second of the window.
    pub run_each_s_ns: Vec<u64>,
    /// The same for each step of [`STEP_NS`].
    run_each_step_ns: Vec<u64>,
    /// Times that it left a CPU to another task or to idleness.
    pub switches: u64,
    pub migrations: u64,
    pub wakeups: u64,
    /// Longest time that it could run and did not.
    pub wait_max_ns: u64,
    pub polls: u64,
    pub polls_in_kernel: u64,
    pub frames_shown: u64,
    pub frames_left_out: u64,
    /// One for each event served.
    pub tardiness_ns: Vec<u64>,
}

/// See the module. The window is from the warm-up to the end.
#[derive(Debug)]
pub struct Recorder {
    window_start_ns: u64,
    /// After that the scheduler is unloaded, which is no part of the run.
    duration_ns: u64,
    /// The latest time seen; at the end, the window's end.
    now_ns: u64,
    names: Vec<String>,
    tasks: Vec<TaskRecord>,
    cpus: usize,
    /// Since when each CPU is offline; none: it is not.
    offline_since_ns: Vec<Option<u64>>,
    /// What CPUs were offline for inside the window, in all.
    offline_ns: u64,
    intervals: Intervals,
    switches: u64,
    stretches: Vec<Interval>,
    refusals: Vec<String>,
    refused_reservations: usize,
    faults: u64,
}

impl Recorder {
    /// For a run of `setup` whose first `warmup_ns` do not count.
    pub fn new(setup: &Setup, warmup_ns: u64) -> Self {
        let mut offline_since_ns = vec![None; setup.machine.cpus() as usize];
        for cpu in &setup.machine.offline {
            offline_since_ns[*cpu as usize] = Some(0);
        }
        Self {
            window_start_ns: warmup_ns,
            duration_ns: setup.duration_ns,
            now_ns: 0,
            names: setup.tasks.iter().map(|task| task.name.clone()).collect(),
            tasks: Vec::new(),
            cpus: setup.machine.cpus() as usize,
            offline_since_ns,
            offline_ns: 0,
            intervals: Intervals::new(setup.machine.cpus() as usize),
            switches: 0,
            stretches: Vec::new(),
            faults: 0,
            refusals: Vec::new(),
            refused_reservations: 0,
        }
    }

    /// Ends the record at `end_ns`: running tasks ran until then, waiting ones waited until then.
    pub fn finish(&mut self, end_ns: u64) {
        self.now_ns = self.now_ns.max(end_ns);
        for interval in self.intervals.finish(self.now_ns) {
            self.count(interval);
        }
        for cpu in 0..self.cpus {
            self.follow_online(cpu, true);
        }
    }

    /// A CPU comes or goes.
    fn follow_online(&mut self, cpu: usize, online: bool) {
        let Some(since_ns) = self.offline_since_ns.get_mut(cpu) else {
            return;
        };
        let now_ns = self.now_ns;
        if !online {
            since_ns.get_or_insert(now_ns);
        } else if let Some(since_ns) = since_ns.take() {
            let from_ns = since_ns.max(self.window_start_ns);
            self.offline_ns += now_ns.saturating_sub(from_ns);
        }
    }

    /// CPU time that there was in the window: of all CPUs, while they were online.
    pub fn capacity_ns(&self) -> u64 {
        let all_ns = self.window_ns() * self.cpus as u64;
        all_ns.saturating_sub(self.offline_ns)
    }

    /// Length of the window.
    pub fn window_ns(&self) -> u64 {
        self.now_ns.saturating_sub(self.window_start_ns)
    }

    pub fn window_start_ns(&self) -> u64 {
        self.window_start_ns
    }

    pub fn tasks(&self) -> &[TaskRecord] {
        &self.tasks
    }

    /// Changes of tasks, to and from idleness included.
    pub fn switches(&self) -> u64 {
        self.switches
    }

    /// What the simulator broke on purpose.
    pub fn faults(&self) -> u64 {
        self.faults
    }

    /// What the daemon did not grant, and why.
    pub fn refusals(&self) -> &[String] {
        &self.refusals
    }

    /// How many of these were reservations, without which the run is not what the scenario says.
    pub fn refused_reservations(&self) -> usize {
        self.refused_reservations
    }

    pub fn cpus(&self) -> usize {
        self.cpus
    }

    /// Who ran when, from the window's start on.
    pub fn stretches(&self) -> &[Interval] {
        &self.stretches
    }

    fn counts(&self) -> bool {
        self.now_ns >= self.window_start_ns
    }

    /// The record of a task, made if it is new.
    fn task(&mut self, id: TaskId) -> &mut TaskRecord {
        let index = id as usize;
        if index >= self.tasks.len() {
            self.tasks.resize_with(index + 1, TaskRecord::default);
        }
        &mut self.tasks[index]
    }

    fn create(&mut self, id: TaskId, of: TaskIndex) {
        let mut name = self.names.get(of).cloned().unwrap_or_default();
        let forks = self
            .tasks
            .iter()
            .filter(|task| task.of == of && !task.name.is_empty());
        match forks.count() {
            0 => {}
            before => name = format!("{name}+{before}"),
        }
        let task = self.task(id);
        (task.name, task.of) = (name, of);
    }

    /// Counts the part of the interval that lies in the window.
    fn count(&mut self, interval: Interval) {
        let start_ns = self.window_start_ns;
        let interval = Interval {
            from_ns: interval.from_ns.max(start_ns),
            ..interval
        };
        let length_ns = interval.to_ns.saturating_sub(interval.from_ns);
        let record = self.task(interval.task);
        if interval.cpu.is_none() {
            record.wait_max_ns = record.wait_max_ns.max(length_ns);
            return;
        }
        if length_ns == 0 {
            return;
        }
        record.run_ns += length_ns;
        let (from_ns, to_ns) = (interval.from_ns - start_ns, interval.to_ns - start_ns);
        add_by(NS_PER_S, &mut record.run_each_s_ns, from_ns, to_ns);
        add_by(STEP_NS, &mut record.run_each_step_ns, from_ns, to_ns);
        if self.stretches.len() < STRETCHES_MAX {
            self.stretches.push(interval);
        }
    }

    fn count_switch(&mut self, prev: Option<TaskId>, next: Option<TaskId>) {
        if prev == next || !self.counts() {
            return;
        }
        self.switches += 1;
        if let Some(task) = prev {
            self.task(task).switches += 1;
        }
    }

    fn served(&mut self, task: TaskId, due_ns: u64) {
        // By its due time, as the experiments in guests count it.
        if due_ns >= self.window_start_ns {
            let late_ns = self.now_ns.saturating_sub(due_ns);
            self.task(task).tardiness_ns.push(late_ns);
        }
    }
}

impl Observer for Recorder {
    fn event(&mut self, event: &Event) {
        if event.at_ns > self.duration_ns {
            return;
        }
        self.now_ns = self.now_ns.max(event.at_ns);
        for interval in self.intervals.follow(event) {
            self.count(interval);
        }
        if let What::Refused {
            task,
            text,
            is_reservation,
        } = &event.what
        {
            let name = self.task(*task).name.clone();
            self.refusals.push(format!("{name}: {text}"));
            self.refused_reservations += usize::from(*is_reservation);
        }
        let one = u64::from(self.counts());
        match event.what {
            What::Created { task, of } => self.create(task, of),
            What::Switch { prev, next } => self.count_switch(prev.map(|(task, _)| task), next),
            What::Woken { task, .. } => self.task(task).wakeups += one,
            What::Migrated { task, .. } => self.task(task).migrations += one,
            What::Served { task, due_ns } => self.served(task, due_ns),
            What::Frame { task, shown: true } => self.task(task).frames_shown += one,
            What::Frame { task, shown: false } => self.task(task).frames_left_out += one,
            What::Polled {
                task,
                entered_kernel,
            } => {
                let record = self.task(task);
                record.polls += one;
                record.polls_in_kernel += u64::from(entered_kernel) * one;
            }
            What::Fault(_) => self.faults += one,
            What::CpuOnline(online) => self.follow_online(event.cpu as usize, online),
            What::Ended { .. }
            | What::Picked { .. }
            | What::Demoted { .. }
            | What::Interval { .. }
            | What::IntervalsLost(_)
            | What::Membership { .. }
            | What::Callback { .. }
            | What::Refused { .. }
            | What::TimerFired => {}
        }
    }
}

/// Adds the time from `from_ns` to `to_ns` to the steps of a length that it lies in.
fn add_by(step_ns: u64, steps: &mut Vec<u64>, from_ns: u64, to_ns: u64) {
    let mut at_ns = from_ns;
    while at_ns < to_ns {
        let step = (at_ns / step_ns) as usize;
        let end_ns = to_ns.min((step as u64 + 1) * step_ns);
        if step >= steps.len() {
            steps.resize(step + 1, 0);
        }
        steps[step] += end_ns - at_ns;
        at_ns = end_ns;
    }
}

impl TaskRecord {
    /// The least and the most CPU time of any second of a window of `window_ns`; none if it is shorter.
    pub fn any_second_ns(&self, window_ns: u64) -> Option<(u64, u64)> {
        let steps_of_second = (NS_PER_S / STEP_NS) as usize;
        let steps = (window_ns / STEP_NS) as usize;
        let ran = |step: usize| self.run_each_step_ns.get(step).copied().unwrap_or(0);
        let last = steps.checked_sub(steps_of_second)?;
        let mut sum: u64 = (0..steps_of_second).map(ran).sum();
        let (mut least, mut most) = (sum, sum);
        for first in 0..last {
            sum = sum + ran(first + steps_of_second) - ran(first);
            (least, most) = (least.min(sum), most.max(sum));
        }
        Some((least, most))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{scenario, trace::Left};

    pub const MS: u64 = 1_000_000;

    pub fn event(at_ms: u64, what: What) -> Event {
        Event {
            at_ns: at_ms * MS,
            cpu: 0,
            what,
        }
    }

    pub fn switch(at_ms: u64, prev: Option<(TaskId, Left)>, next: Option<TaskId>) -> Event {
        event(at_ms, What::Switch { prev, next })
    }

    pub fn setup() -> Setup {
        let text = r#"{"tasks": {"a": {"hog": true}, "b": {"run": 1, "sleep": 1}}}"#;
        scenario::parse("two.json", text).unwrap().setup
    }

    /// Two tasks on one CPU: `a` runs but for 10 to 12 ms, when `b`, due at 7, does; `b` wakes again at 30.
    pub fn two_tasks() -> Vec<Event> {
        vec![
            event(0, What::Created { task: 0, of: 0 }),
            event(0, What::Created { task: 1, of: 1 }),
            event(0, What::Woken { task: 0, on: 0 }),
            switch(1, None, Some(0)),
            event(6, What::Woken { task: 1, on: 0 }),
            switch(10, Some((0, Left::Preempted)), Some(1)),
            event(
                10,
                What::Served {
                    task: 1,
                    due_ns: 7 * MS,
                },
            ),
            event(
                11,
                What::Frame {
                    task: 1,
                    shown: true,
                },
            ),
            event(
                11,
                What::Polled {
                    task: 1,
                    entered_kernel: true,
                },
            ),
            switch(12, Some((1, Left::Slept)), Some(0)),
            switch(20, Some((0, Left::Preempted)), Some(0)),
            event(30, What::Woken { task: 1, on: 0 }),
        ]
    }

    fn record(warmup_ms: u64) -> Recorder {
        let mut recorder = Recorder::new(&setup(), warmup_ms * MS);
        for event in two_tasks() {
            recorder.event(&event);
        }
        recorder.finish(40 * MS);
        recorder
    }

    #[test]
    fn time_on_the_cpu_is_summed() {
        let recorder = record(0);
        let [a, b] = recorder.tasks() else {
            panic!("two tasks")
        };
        assert_eq!((a.run_ns, b.run_ns), (37 * MS, 2 * MS));
        assert_eq!((a.switches, b.switches, recorder.switches()), (1, 1, 3));
        assert_eq!((b.frames_shown, b.polls, b.polls_in_kernel), (1, 1, 1));
        assert_eq!(b.tardiness_ns, [3 * MS]);
        assert_eq!((a.name.as_str(), b.name.as_str()), ("a", "b"));
        let expected = Interval {
            cpu: Some(0),
            task: 1,
            from_ns: 10 * MS,
            to_ns: 12 * MS,
        };
        assert_eq!(recorder.stretches()[1], expected);
    }

    #[test]
    fn waits_last_from_wake_or_preemption_to_the_cpu_or_the_end() {
        let recorder = record(0);
        assert_eq!(recorder.tasks()[0].wait_max_ns, 2 * MS);
        assert_eq!(recorder.tasks()[1].wait_max_ns, 10 * MS, "30 to the end");
    }

    #[test]
    fn what_happens_before_the_window_does_not_count() {
        let recorder = record(11);
        let [a, b] = recorder.tasks() else {
            panic!("two tasks")
        };
        assert_eq!((a.run_ns, b.run_ns), (28 * MS, MS));
        assert_eq!(recorder.window_ns(), 29 * MS);
        assert_eq!((recorder.switches(), b.tardiness_ns.len()), (1, 0));
        assert_eq!(a.wait_max_ns, MS, "the part inside the window");
    }

    #[test]
    fn seconds_share_what_lies_across_them() {
        let mut seconds = Vec::new();
        add_by(NS_PER_S, &mut seconds, NS_PER_S / 2, 2 * NS_PER_S + 7);
        assert_eq!(seconds, [NS_PER_S / 2, NS_PER_S, 7]);
    }

    #[test]
    fn any_second_is_looked_at() {
        let mut record = TaskRecord::default();
        // Half a second idle, then one at work, then idle again.
        add_by(
            STEP_NS,
            &mut record.run_each_step_ns,
            NS_PER_S / 2,
            3 * NS_PER_S / 2,
        );
        assert_eq!(record.any_second_ns(4 * NS_PER_S), Some((0, NS_PER_S)));
        assert_eq!(
            record.any_second_ns(NS_PER_S),
            Some((NS_PER_S / 2, NS_PER_S / 2))
        );
        assert_eq!(record.any_second_ns(NS_PER_S / 2), None);
    }

    #[test]
    fn forks_are_told_apart() {
        let mut recorder = Recorder::new(&setup(), 0);
        for task in 0..3 {
            recorder.event(&event(0, What::Created { task, of: 1 }));
        }
        let names: Vec<&str> = recorder
            .tasks()
            .iter()
            .map(|task| task.name.as_str())
            .collect();
        assert_eq!(names, ["b", "b+1", "b+2"]);
    }
}
