// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run's trace, in the JSON trace event format, which Perfetto (ui.perfetto.dev) and chrome://tracing open: a
//! track for each CPU, and one for each task.

use std::io::{self, Write};

use serde_json::{json, Value};

use super::intervals::{Interval, Intervals};
use crate::{
    setup::{Cpu, Setup},
    trace::{Event, Observer, TaskId, What},
};

/// The tracks' groups, "processes" in the format.
const CPUS: u32 = 1;
const TASKS: u32 = 2;
/// A trace ends here: viewers refuse larger ones.
const RECORDS_MAX: u64 = 2_000_000;

/// Writes a run's events as they come.
#[derive(Debug)]
pub struct Trace<W: Write> {
    to: W,
    names: Vec<String>,
    of: Vec<usize>,
    intervals: Intervals,
    records: u64,
    failed: Option<io::Error>,
}

impl<W: Write> Trace<W> {
    /// Writes what comes before all events.
    ///
    /// # Errors
    /// `to` cannot be written to.
    pub fn new(setup: &Setup, to: W) -> io::Result<Self> {
        let cpus = setup.machine.cpus();
        let mut trace = Self {
            to,
            names: setup.tasks.iter().map(|task| task.name.clone()).collect(),
            of: Vec::new(),
            intervals: Intervals::new(cpus as usize),
            records: 0,
            failed: None,
        };
        trace
            .to
            .write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        trace.name_track(CPUS, None, "CPUs");
        trace.name_track(TASKS, None, "tasks");
        for cpu in 0..cpus {
            trace.name_track(CPUS, Some(cpu), &format!("CPU {cpu}"));
        }
        Ok(trace)
    }

    /// Ends the trace. Returns whether it is whole: a very long one is cut.
    ///
    /// # Errors
    /// Something could not be written.
    pub fn finish(mut self, end_ns: u64) -> io::Result<bool> {
        for interval in self.intervals.finish(end_ns) {
            self.interval(&interval);
        }
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.to.write_all(b"\n]}\n")?;
        self.to.flush()?;
        Ok(self.records <= RECORDS_MAX)
    }

    fn write(&mut self, record: &Value) {
        self.records += 1;
        if self.failed.is_some() || self.records > RECORDS_MAX {
            return;
        }
        let separator = if self.records == 1 { "\n" } else { ",\n" };
        self.failed = write!(self.to, "{separator}{record}").err();
    }

    fn name_track(&mut self, group: u32, track: Option<u32>, name: &str) {
        let kind = match track {
            Some(_) => "thread_name",
            None => "process_name",
        };
        // Track 0 would be taken for the group itself.
        let track = track.map_or(0, |track| track + 1);
        self.write(
            &json!({"ph": "M", "pid": group, "tid": track, "name": kind, "args": {"name": name}}),
        );
    }

    fn name_of(&self, task: TaskId) -> String {
        let of = self.of.get(task as usize);
        of.and_then(|&of| self.names.get(of))
            .map_or_else(|| format!("task {task}"), Clone::clone)
    }

    fn interval(&mut self, interval: &Interval) {
        let task = interval.task;
        match interval.cpu {
            Some(cpu) => {
                let name = self.name_of(task);
                self.slice(CPUS, cpu, &name, interval);
                self.slice(TASKS, task, &format!("on CPU {cpu}"), interval);
            }
            None => self.slice(TASKS, task, "waits", interval),
        }
    }

    fn slice(&mut self, group: u32, track: u32, name: &str, of: &Interval) {
        self.write(&json!({
            "ph": "X", "pid": group, "tid": track + 1, "name": name, "args": {"task": of.task},
            "ts": us(of.from_ns), "dur": us(of.to_ns.saturating_sub(of.from_ns)),
        }));
    }

    fn instant(&mut self, at_ns: u64, group: u32, track: u32, name: &str, args: Value) {
        self.write(&json!({
            "ph": "i", "s": "t", "pid": group, "tid": track + 1, "name": name, "args": args, "ts": us(at_ns),
        }));
    }

    fn on_cpu(&mut self, cpu: Cpu, at_ns: u64, name: &str, args: Value) {
        self.instant(at_ns, CPUS, cpu, name, args);
    }

    fn created(&mut self, task: TaskId, of: usize) {
        let index = task as usize;
        if index >= self.of.len() {
            self.of.resize(index + 1, usize::MAX);
        }
        self.of[index] = of;
        let name = self.name_of(task);
        self.name_track(TASKS, Some(task), &name);
    }
}

/// Microseconds, a fifth of a nanosecond more than they are: viewers multiply and cut off, and a slice that began a
/// nanosecond early would overlap the one before, and be dropped.
fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0 + 0.0002
}

impl<W: Write> Observer for Trace<W> {
    fn event(&mut self, event: &Event) {
        for interval in self.intervals.follow(event) {
            self.interval(&interval);
        }
        let at_ns = event.at_ns;
        if let What::Refused { task, text, .. } = &event.what {
            self.instant(at_ns, TASKS, *task, "refused", json!({"why": text}));
        }
        match event.what {
            What::Created { task, of } => self.created(task, of),
            What::Served { task, due_ns } => {
                let late = us(at_ns.saturating_sub(due_ns));
                let args = json!({"due_us": us(due_ns), "tardiness_us": late});
                self.instant(at_ns, TASKS, task, "due event", args);
            }
            What::Frame { task, shown } => {
                let name = if shown {
                    "frame shown"
                } else {
                    "frame left out"
                };
                self.instant(at_ns, TASKS, task, name, json!({}));
            }
            What::Polled {
                task,
                entered_kernel,
            } => {
                let args = json!({"entered_kernel": entered_kernel});
                self.instant(at_ns, TASKS, task, "poll", args);
            }
            What::Membership {
                task,
                domain,
                joined,
            } => {
                let name = if joined { "joins" } else { "leaves" };
                self.instant(at_ns, TASKS, task, name, json!({"domain": domain}));
            }
            What::Migrated { task, from, to } => {
                self.instant(
                    at_ns,
                    TASKS,
                    task,
                    "migrates",
                    json!({"from": from, "to": to}),
                );
            }
            What::Callback { name, task } => {
                self.on_cpu(event.cpu, at_ns, name, json!({"task": task}))
            }
            What::TimerFired => self.on_cpu(event.cpu, at_ns, "timer", json!({})),
            What::CpuOnline(online) => {
                let name = if online { "online" } else { "offline" };
                self.on_cpu(event.cpu, at_ns, name, json!({}));
            }
            What::Fault(name) => self.on_cpu(event.cpu, at_ns, name, json!({"fault": true})),
            What::Switch { .. }
            | What::Picked { .. }
            | What::Demoted { .. }
            | What::Interval { .. }
            | What::IntervalsLost(_)
            | What::Woken { .. }
            | What::Ended { .. }
            | What::Refused { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::recorder::tests::{setup, two_tasks, MS};

    fn written() -> Value {
        let mut text = Vec::new();
        let mut trace = Trace::new(&setup(), &mut text).unwrap();
        for event in two_tasks() {
            trace.event(&event);
        }
        assert!(trace.finish(40 * MS).unwrap());
        serde_json::from_slice(&text).unwrap()
    }

    /// Names, begins and lengths in ns, as a viewer reads them.
    fn slices(trace: &Value, group: u32, track: u32) -> Vec<(&str, u64, u64)> {
        let records = trace["traceEvents"].as_array().unwrap().iter();
        records
            .filter(|it| it["ph"] == "X" && it["pid"] == group && it["tid"] == track + 1)
            .map(|it| {
                let number = |key: &str| (it[key].as_f64().unwrap() * 1000.0) as u64;
                (it["name"].as_str().unwrap(), number("ts"), number("dur"))
            })
            .collect()
    }

    #[test]
    fn cpus_show_who_runs() {
        let expected = [
            ("a", MS, 9 * MS),
            ("b", 10 * MS, 2 * MS),
            ("a", 12 * MS, 28 * MS),
        ];
        assert_eq!(slices(&written(), CPUS, 0), expected);
    }

    #[test]
    fn tasks_show_that_they_run_or_wait() {
        let expected = [
            ("waits", 6 * MS, 4 * MS),
            ("on CPU 0", 10 * MS, 2 * MS),
            ("waits", 30 * MS, 10 * MS),
        ];
        assert_eq!(slices(&written(), TASKS, 1), expected);
    }

    #[test]
    fn slices_that_touch_do_not_overlap() {
        let as_read = |ns: u64| (us(ns) * 1000.0) as u64;
        for ns in (0..5_000_000_000_000).step_by(999_999_937) {
            assert_eq!(as_read(ns), ns);
        }
    }

    #[test]
    fn tracks_have_names_and_due_events_their_tardiness() {
        let trace = written();
        let records = trace["traceEvents"].as_array().unwrap();
        let named = |name: &str| {
            records
                .iter()
                .any(|it| it["ph"] == "M" && it["args"]["name"] == name)
        };
        assert!(["CPUs", "tasks", "CPU 0", "a", "b"].into_iter().all(named));
        let due = records.iter().find(|it| it["name"] == "due event").unwrap();
        let tardiness_us = due["args"]["tardiness_us"].as_f64().unwrap();
        assert!((tardiness_us - 3_000.0).abs() < 0.001);
        assert_eq!(due["tid"], 2);
    }

    #[test]
    fn what_cannot_be_written_is_told_at_the_end() {
        struct Full(usize);
        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0 = self
                    .0
                    .checked_sub(bytes.len())
                    .ok_or(io::ErrorKind::StorageFull)?;
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut trace = Trace::new(&setup(), Full(800)).unwrap();
        for event in two_tasks() {
            trace.event(&event);
        }
        let error = trace.finish(40 * MS).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
