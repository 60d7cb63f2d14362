// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace in the JSON trace event format, which Perfetto (ui.perfetto.dev) and chrome://tracing open: a track for each
//! CPU and each thread, and a counter for each of a program's labels.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io::{self, Write},
};

use serde_json::{json, Value};

use crate::{
    record::{Record, What},
    table::why_word,
    Became, Filter, Interval, Miss, Reason, Role, Roles, Threads, Trace, Waits,
};

/// The group of CPUs, a "process" in the format: no process has this number.
const CPUS: i64 = 1 << 32;
/// That of groups' members with intervals, the same.
const ROLES: i64 = CPUS + 1;

/// Writes the records that `filter` wants, in microseconds after the first one.
///
/// # Errors
/// `to` cannot be written to.
pub fn write_perfetto(trace: &Trace, filter: &Filter, to: impl Write) -> io::Result<()> {
    let mut export = Export {
        to,
        begin_ns: trace.span_ns().0,
        filter,
        threads: Threads::default(),
        roles: Roles::of(trace),
        tracks: BTreeMap::new(),
        waits: Waits::default(),
        running: BTreeMap::new(),
        named: HashSet::new(),
        processes: HashMap::new(),
        is_first: true,
    };
    export.write(trace)
}

struct Export<'a, W: Write> {
    to: W,
    begin_ns: u64,
    filter: &'a Filter,
    threads: Threads,
    roles: Roles,
    /// Those of roles that have one.
    tracks: BTreeMap<Role, i64>,
    waits: Waits,
    /// Each CPU's thread, its process, since when, and why.
    running: BTreeMap<u16, (i32, i32, u64, Reason)>,
    named: HashSet<(i64, i64)>,
    processes: HashMap<i32, i32>,
    is_first: bool,
}

impl<W: Write> Export<'_, W> {
    fn write(&mut self, trace: &Trace) -> io::Result<()> {
        let (begin_ns, end_ns) = trace.span_ns();
        let head = json!({"system": trace.header.system, "begin_ns": begin_ns});
        write!(
            self.to,
            "{{\"displayTimeUnit\":\"ns\",\"otherData\":{head},\"traceEvents\":["
        )?;
        for record in trace.records() {
            self.follow(&record)?;
        }
        for (cpu, (tid, pid, since_ns, reason)) in std::mem::take(&mut self.running) {
            self.run(cpu, tid, pid, since_ns, end_ns, reason)?;
        }
        self.to.write_all(b"\n]}\n")?;
        self.to.flush()
    }

    fn follow(&mut self, record: &Record) -> io::Result<()> {
        if let Some(tid) = self.threads.follow(record) {
            self.name_thread(tid, record.pid)?;
        }
        if let Some(since_ns) = self.waits.follow(record) {
            if self.wants(record, since_ns, record.tid, record.pid) {
                self.slice(
                    i64::from(record.pid),
                    i64::from(record.tid),
                    "waits",
                    since_ns,
                    record.at_ns,
                    json!({}),
                )?;
            }
        }
        if let What::Switch {
            reason, prev_tid, ..
        } = &record.what
        {
            let Some(cpu) = record.cpu else {
                return Ok(());
            };
            let next = (record.tid, record.pid, record.at_ns, *reason);
            // Records in between are missing if it is another one.
            let last = self.running.insert(cpu, next);
            if let Some((tid, pid, since_ns, why)) = last.filter(|it| it.0 == *prev_tid) {
                self.run(cpu, tid, pid, since_ns, record.at_ns, why)?;
            }
            return Ok(());
        }
        let after_ns = record.at_ns - self.begin_ns;
        match self.filter.keeps(record, after_ns, &self.threads) {
            true => self.instant(record),
            false => Ok(()),
        }
    }

    /// Whether an interval of a thread is wanted, that began at `since_ns`.
    fn wants(&self, record: &Record, since_ns: u64, tid: i32, pid: i32) -> bool {
        let after = |at_ns: u64| at_ns.saturating_sub(self.begin_ns);
        self.filter.kinds.keeps(&record.what)
            && self.filter.is_of(tid, pid, &self.threads)
            && after(record.at_ns) >= self.filter.from_ns
            && after(since_ns) <= self.filter.to_ns
    }

    /// A thread's time on a CPU: on the CPU's track, and on its own.
    fn run(
        &mut self,
        cpu: u16,
        tid: i32,
        pid: i32,
        since_ns: u64,
        until_ns: u64,
        reason: Reason,
    ) -> io::Result<()> {
        let after = |at_ns: u64| at_ns.saturating_sub(self.begin_ns);
        let is_in_time =
            after(until_ns) >= self.filter.from_ns && after(since_ns) <= self.filter.to_ns;
        let is_wanted = self.filter.kinds.has(crate::Kind::Switch)
            && self.filter.is_of(tid, pid, &self.threads);
        if tid == 0 || !is_in_time || !is_wanted {
            return Ok(());
        }
        self.name_track(CPUS, i64::from(cpu) + 1, &format!("CPU {cpu}"))?;
        let name = match self.threads.command(tid) {
            "" => format!("thread {tid}"),
            command => format!("{command}[{tid}]"),
        };
        let args = json!({"tid": tid, "pid": pid, "why": reason.word()});
        self.slice(CPUS, i64::from(cpu) + 1, &name, since_ns, until_ns, args)?;
        let (pid, tid) = (i64::from(pid), i64::from(tid));
        self.slice(
            pid,
            tid,
            &format!("on CPU {cpu}"),
            since_ns,
            until_ns,
            json!({"why": reason.word()}),
        )
    }

    fn instant(&mut self, record: &Record) -> io::Result<()> {
        let (name, args) = match &record.what {
            What::Wake { by_tid, is_new, .. } => ("wakes", json!({"by": by_tid, "new": is_new})),
            What::Demote { why, late_us } => (
                "demoted",
                json!({"why": why_word(*why), "late_us": late_us}),
            ),
            What::Due { due_ns } => {
                let late_ns = record.at_ns.saturating_sub(*due_ns);
                ("due event", json!({"tardiness_us": us(late_ns)}))
            }
            What::Event { label, value } => {
                self.counter(record, label.as_str(), *value)?;
                (label.as_str(), json!({"value": value}))
            }
            What::Lost { source, count } => {
                ("records lost", json!({"of": source.word(), "count": count}))
            }
            What::Interval(it) => return self.interval(record, it),
            What::Switch { .. } | What::Role { .. } | What::End => return Ok(()),
        };
        let ts = self.ts(record.at_ns);
        self.event(json!({
            "ph": "i", "s": "t", "pid": record.pid, "tid": record.tid, "name": name, "args": args, "ts": ts,
        }))
    }

    /// On its role's track: when its thread got the CPU in it, and when it was over what had become of it.
    fn interval(&mut self, record: &Record, interval: &Interval) -> io::Result<()> {
        let next = self.tracks.len() as i64 + 1;
        let track = *self.tracks.entry(interval.of).or_insert(next);
        let label = self.roles.label(interval.of);
        self.name_track(ROLES, track, label.as_str())?;
        let tid = record.tid;
        let (name, args) = match interval.became {
            Became::Began { late_ns } => ("runs", json!({"tid": tid, "late_us": us(late_ns)})),
            Became::Passed { count, why } => ("missed", json!({"count": count, "why": why.word()})),
            became => {
                let why = became.why().map(Miss::word);
                let args = json!({"tid": tid, "why": why});
                let from_ns = interval.from_ns.max(self.begin_ns);
                let until_ns = interval.until_ns.min(record.at_ns);
                return self.slice(ROLES, track, became.word(), from_ns, until_ns, args);
            }
        };
        let ts = self.ts(record.at_ns);
        self.event(json!({
            "ph": "i", "s": "t", "pid": ROLES, "tid": track, "name": name, "args": args, "ts": ts,
        }))
    }

    fn counter(&mut self, record: &Record, name: &str, value: i64) -> io::Result<()> {
        let ts = self.ts(record.at_ns);
        self.event(
            json!({"ph": "C", "pid": record.pid, "name": name, "args": {"value": value}, "ts": ts}),
        )
    }

    fn slice(
        &mut self,
        group: i64,
        track: i64,
        name: &str,
        from_ns: u64,
        to_ns: u64,
        args: Value,
    ) -> io::Result<()> {
        let (ts, dur) = (self.ts(from_ns), us(to_ns.saturating_sub(from_ns)));
        self.event(json!({
            "ph": "X", "pid": group, "tid": track, "name": name, "args": args, "ts": ts, "dur": dur,
        }))
    }

    fn name_thread(&mut self, tid: i32, pid: i32) -> io::Result<()> {
        let command = self.threads.command(tid).to_owned();
        // A process is called as its first thread is.
        if tid == pid && self.processes.insert(pid, tid).is_none() {
            self.event(json!({
                "ph": "M", "pid": pid, "name": "process_name", "args": {"name": command},
            }))?;
        }
        self.name_track(i64::from(pid), i64::from(tid), &command)
    }

    /// Once; of a thread that changes its name, the first one.
    fn name_track(&mut self, group: i64, track: i64, name: &str) -> io::Result<()> {
        if !self.named.insert((group, track)) {
            return Ok(());
        }
        for (own, name) in [(CPUS, "CPUs"), (ROLES, "groups")] {
            if group == own && self.named.insert((own, 0)) {
                self.event(
                    json!({"ph": "M", "pid": own, "name": "process_name", "args": {"name": name}}),
                )?;
            }
        }
        self.event(json!({
            "ph": "M", "pid": group, "tid": track, "name": "thread_name", "args": {"name": name},
        }))
    }

    fn ts(&self, at_ns: u64) -> f64 {
        us(at_ns.saturating_sub(self.begin_ns))
    }

    fn event(&mut self, event: Value) -> io::Result<()> {
        let separator = if std::mem::take(&mut self.is_first) {
            "\n"
        } else {
            ",\n"
        };
        write!(self.to, "{separator}{event}")
    }
}

/// Microseconds, a fifth of a nanosecond more than they are: viewers multiply and cut off, and a slice that began a
/// nanosecond early would overlap the one before, and be dropped.
fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0 + 0.0002
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        file::tests::event,
        interval::tests::{interval, name},
        report::tests::traced,
        waits::tests::two_tasks,
    };

    fn exported(records: &[Record], filter: &Filter) -> Vec<Value> {
        let mut text = Vec::new();
        write_perfetto(&traced(records), filter, &mut text).unwrap();
        let all: Value = serde_json::from_slice(&text).unwrap();
        all["traceEvents"].as_array().unwrap().clone()
    }

    /// Names, begins and lengths in ns of a track's slices.
    fn slices(events: &[Value], group: i64, track: i64) -> Vec<(String, u64, u64)> {
        let ns = |it: &Value| (it.as_f64().unwrap() * 1000.0) as u64;
        let of = |it: &&Value| it["ph"] == "X" && it["pid"] == group && it["tid"] == track;
        let all = events.iter().filter(of);
        all.map(|it| {
            (
                it["name"].as_str().unwrap().to_owned(),
                ns(&it["ts"]),
                ns(&it["dur"]),
            )
        })
        .collect()
    }

    #[test]
    fn cpus_and_threads_have_tracks() {
        let events = exported(&two_tasks(), &Filter::default());
        let cpu = slices(&events, CPUS, 1);
        let expected = [
            ("task1[1]", 0, 100),
            ("task2[2]", 100, 100),
            ("task1[1]", 200, 100),
        ];
        assert_eq!(
            cpu,
            expected.map(|(name, at, long)| (name.to_owned(), at, long))
        );
        let two = slices(&events, 2, 2);
        let expected = [("waits", 50, 50), ("on CPU 0", 100, 100)];
        assert_eq!(
            two,
            expected.map(|(name, at, long)| (name.to_owned(), at, long))
        );
        let named = |name: &str| {
            events
                .iter()
                .any(|it| it["ph"] == "M" && it["args"]["name"] == name)
        };
        assert!(
            ["CPUs", "CPU 0", "task1", "task2"].into_iter().all(named),
            "{events:?}"
        );
    }

    #[test]
    fn a_programs_events_are_counters() {
        let events = exported(&[event(10, 5), event(20, 6)], &Filter::default());
        let values: Vec<i64> = events
            .iter()
            .filter(|it| it["ph"] == "C" && it["name"] == "test/value")
            .map(|it| it["args"]["value"].as_i64().unwrap())
            .collect();
        assert_eq!(values, [5, 6]);
    }

    #[test]
    fn a_groups_member_has_a_track_of_intervals() {
        let records = [
            interval(150, Became::Began { late_ns: 50 }),
            interval(200, Became::Kept),
            name("video/decoder"),
        ];
        let events = exported(&records, &Filter::default());
        assert_eq!(
            slices(&events, ROLES, 1),
            [("kept".to_owned(), 0, 50)],
            "what was before the first record is not on the track"
        );
        let named = |name: &str| events.iter().any(|it| it["args"]["name"] == name);
        assert!(named("groups") && named("video/decoder"), "{events:?}");
        let runs = events.iter().find(|it| it["name"] == "runs").unwrap();
        assert_eq!((&runs["pid"], &runs["tid"]), (&json!(ROLES), &json!(1)));
    }

    #[test]
    fn filters_hold_for_intervals() {
        let filter = Filter {
            of: Some("2".to_owned()),
            ..Filter::default()
        };
        let events = exported(&two_tasks(), &filter);
        assert_eq!(slices(&events, CPUS, 1).len(), 1);
        assert!(slices(&events, 1, 1).is_empty());
    }
}
