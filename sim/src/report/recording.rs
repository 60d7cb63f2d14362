// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run's trace in the form that machines' traces have: `consort trace` reads both.

use std::io::{self, Write};

use consort_trace::{
    Became, Header, Interval, Label, Left, Reason, Record, Role, Source, What as Recorded, Writer,
};

use crate::{
    ffi, groups,
    setup::{Cpu, Setup},
    trace::{self, Event, Observer, TaskId, What},
};

/// Writes a run's records as they come. Task 0 is thread 1: thread 0 is nobody.
#[derive(Debug)]
pub struct Recording<W: Write> {
    writer: Writer<W>,
    names: Vec<String>,
    /// What each task was made from.
    of: Vec<usize>,
    /// Why the next switch of a CPU is to whom.
    picked: Vec<Option<(TaskId, Reason)>>,
    failed: Option<io::Error>,
}

impl<W: Write> Recording<W> {
    /// `system`: what is simulated. A file gets no longer than `bytes_max`.
    ///
    /// # Errors
    /// `to` cannot be written to.
    pub fn new(setup: &Setup, system: &str, to: W, bytes_max: u64) -> io::Result<Self> {
        let mut writer = Writer::new(to, &Header::of_simulator(system), bytes_max)?;
        for record in names_of_roles(setup) {
            writer.write(&record)?;
        }
        Ok(Self {
            writer,
            names: setup.tasks.iter().map(|task| task.name.clone()).collect(),
            of: Vec::new(),
            picked: vec![None; setup.machine.cpus() as usize],
            failed: None,
        })
    }

    /// Ends the trace. Returns how many records it had no room for.
    ///
    /// # Errors
    /// Something could not be written.
    pub fn finish(self, end_ns: u64) -> io::Result<u64> {
        match self.failed {
            Some(error) => Err(error),
            None => self.writer.finish(end_ns, &[]),
        }
    }

    fn name_of(&self, task: TaskId) -> String {
        let of = self.of.get(task as usize);
        let name = of.and_then(|of| self.names.get(*of));
        name.cloned().unwrap_or_else(|| format!("task {task}"))
    }

    fn write(&mut self, at_ns: u64, cpu: Cpu, task: Option<TaskId>, what: Recorded) {
        if self.failed.is_some() {
            return;
        }
        let tid = task.map_or(0, number);
        let record = Record {
            at_ns,
            cpu: u16::try_from(cpu).ok(),
            tid,
            pid: tid,
            what,
        };
        self.failed = self.writer.write(&record).err();
    }

    fn created(&mut self, task: TaskId, of: usize) {
        let index = task as usize;
        if index >= self.of.len() {
            self.of.resize(index + 1, usize::MAX);
        }
        self.of[index] = of;
    }

    fn switch(&mut self, event: &Event, prev: Option<(TaskId, trace::Left)>, next: Option<TaskId>) {
        let picked = self
            .picked
            .get_mut(event.cpu as usize)
            .and_then(Option::take);
        let reason = match (next, picked) {
            (None, _) => Reason::Idle,
            (Some(next), Some((task, reason))) if task == next => reason,
            // A model of another scheduler, or of a class above.
            _ => Reason::Stock,
        };
        let prev_tid = prev.map_or(0, |(task, _)| number(task));
        let what = Recorded::Switch {
            prev_tid,
            prev_pid: prev_tid,
            left: prev.map_or(Left::Preempted, |(_, left)| left_of(left)),
            reason,
            priority: 120,
            interrupted_ns: 0,
            command: next.map_or_else(String::new, |task| self.name_of(task)),
        };
        self.write(event.at_ns, event.cpu, next, what);
    }
}

impl<W: Write> Observer for Recording<W> {
    fn event(&mut self, event: &Event) {
        let at_ns = event.at_ns;
        match event.what {
            What::Created { task, of } => self.created(task, of),
            What::Picked { task, reason } => {
                if let Some(picked) = self.picked.get_mut(event.cpu as usize) {
                    *picked = reason_of(reason).map(|reason| (task, reason));
                }
            }
            // One that goes on has not switched.
            What::Switch { prev, next } if prev.map(|(task, _)| task) == next => {}
            What::Switch { prev, next } => self.switch(event, prev, next),
            What::Woken { task, on } => {
                let what = Recorded::Wake {
                    by_tid: 0,
                    is_new: false,
                    command: self.name_of(task),
                };
                self.write(at_ns, on, Some(task), what);
            }
            What::Demoted { task, why, late_us } => {
                self.write(
                    at_ns,
                    event.cpu,
                    Some(task),
                    Recorded::Demote { why, late_us },
                );
            }
            What::Interval { task, interval } => {
                if let Some(recorded) = interval_of(&interval) {
                    self.write(
                        interval.at_ns,
                        event.cpu,
                        task,
                        Recorded::Interval(recorded),
                    );
                }
            }
            What::IntervalsLost(count) => {
                let source = Source::Scheduler;
                self.write(at_ns, event.cpu, None, Recorded::Lost { source, count });
            }
            What::Served { task, due_ns } => {
                self.write(at_ns, event.cpu, Some(task), Recorded::Due { due_ns });
            }
            What::Frame { task, shown } => {
                self.event_of(event, task, "player", "frame_shown", shown)
            }
            What::Polled {
                task,
                entered_kernel,
            } => self.event_of(
                event,
                task,
                "consort",
                "poll_entered_kernel",
                entered_kernel,
            ),
            _ => {}
        }
    }
}

impl<W: Write> Recording<W> {
    /// What a program on a machine would say of itself.
    fn event_of(&mut self, event: &Event, task: TaskId, family: &str, name: &str, value: bool) {
        let what = Recorded::Event {
            label: Label::new(family, name),
            value: i64::from(value),
        };
        self.write(event.at_ns, event.cpu, Some(task), what);
    }
}

fn number(task: TaskId) -> i32 {
    i32::try_from(task).unwrap_or(i32::MAX - 1) + 1
}

/// The members of the setup's groups, as its file calls them.
fn names_of_roles(setup: &Setup) -> impl Iterator<Item = Record> + '_ {
    let groups = (0..).zip(&setup.groups);
    groups.flat_map(move |(group, it)| {
        (0..).zip(&it.roles).map(move |(role, terms)| Record {
            at_ns: 0,
            cpu: None,
            tid: 0,
            pid: 0,
            what: Recorded::Role {
                of: Role { group, role },
                label: Label::new(&it.name, &setup.tasks[terms.task].name),
            },
        })
    })
}

/// None: its numbers mean nothing.
fn interval_of(it: &groups::Interval) -> Option<Interval> {
    Some(Interval {
        of: Role {
            group: u32::try_from(it.group).ok()?,
            role: u16::try_from(it.role).ok()?,
        },
        from_ns: it.from_ns,
        until_ns: it.until_ns,
        became: Became::of_numbers(it.became, it.late_ns, it.count, it.why)?,
    })
}

fn left_of(left: trace::Left) -> Left {
    match left {
        trace::Left::Preempted => Left::Preempted,
        trace::Left::Yielded => Left::Yielded,
        trace::Left::Slept => Left::Slept,
        trace::Left::Ended => Left::Ended,
    }
}

/// `enum consort_reason`; none: it is not known.
fn reason_of(reason: u32) -> Option<Reason> {
    match reason {
        ffi::CONSORT_REASON_SLICE => Some(Reason::Slice),
        ffi::CONSORT_REASON_DUE => Some(Reason::Due),
        ffi::CONSORT_REASON_BORROWED => Some(Reason::Borrowed),
        ffi::CONSORT_REASON_RESERVED => Some(Reason::Reserved),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::recorder::tests::{setup, two_tasks, MS};
    use consort_trace::{Filter, Report, Trace};

    #[test]
    fn a_run_is_read_as_a_machines_trace_is() {
        let mut bytes = Vec::new();
        let mut recording = Recording::new(&setup(), "simulated", &mut bytes, 1 << 20).unwrap();
        for event in two_tasks() {
            recording.event(&event);
        }
        assert_eq!(recording.finish(40 * MS).unwrap(), 0);
        let trace = Trace::read(&bytes[..]).unwrap();
        assert!(trace.header.is_simulated && trace.is_whole);
        let mut report = Report::of(&trace, &Filter::default());
        assert_eq!(
            (report.switches, report.wakes),
            (3, 3),
            "one that goes on is none"
        );
        let of = |report: &Report, name: &str| {
            report
                .threads
                .iter()
                .position(|it| it.command == name)
                .unwrap()
        };
        let b = of(&report, "b");
        let b = &mut report.threads[b];
        assert_eq!(
            (b.waited.ran_ns, b.waited.waits_ns.max()),
            (2 * MS, 4 * MS as i64)
        );
        assert_eq!(b.tardiness_ns.max(), 3 * MS as i64);
        let blame = b.waited.blame.sorted();
        assert_eq!((blame.len(), blame[0].1), (1, 4 * MS));
        assert_eq!(report.labels[1].label.as_str(), "player/frame_shown");
    }
}
