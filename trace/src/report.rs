// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a trace says: who waited for whom, how late due events were, how programs' values are spread, what is missing.

use std::{cmp::Reverse, collections::BTreeMap};

use serde_json::{json, Value};

use crate::{
    interval::{Intervals, OfRole, Roles},
    record::{Label, Record, Source, What},
    table::why_word,
    waits::{Waited, OTHERS},
    Filter, Histogram, Thread, Threads, Trace, Waits,
};

/// Of one thread.
#[derive(Debug)]
pub struct OfThread {
    pub tid: i32,
    pub pid: i32,
    pub command: String,
    pub waited: Waited,
    /// By how much its due events were late.
    pub tardiness_ns: Histogram,
    pub demotions: u64,
    /// Of the last one.
    pub why: &'static str,
}

/// Of one label: the values of all who used it.
#[derive(Debug)]
pub struct OfLabel {
    pub label: Label,
    pub values: Histogram,
}

/// All of it.
#[derive(Debug)]
pub struct Report {
    pub system: String,
    pub is_simulated: bool,
    /// From the first to the last record that was looked at.
    pub span_ns: u64,
    pub switches: u64,
    pub wakes: u64,
    /// Those that waited or ran, who waited longest first.
    pub threads: Vec<OfThread>,
    /// What became of the intervals of groups' members.
    pub roles: Vec<OfRole>,
    pub labels: Vec<OfLabel>,
    /// Records that are missing, by who had no room for them.
    pub lost: BTreeMap<&'static str, u64>,
    /// Records that mean nothing to this reader.
    pub strange: u64,
    /// Its recorder came to its end.
    pub is_whole: bool,
    threads_known: Threads,
}

#[derive(Default)]
struct Collected {
    threads: Threads,
    waits: Waits,
    tardiness_ns: BTreeMap<i32, Histogram>,
    demotions: BTreeMap<i32, (u64, u32)>,
    names: Roles,
    intervals: Intervals,
    labels: BTreeMap<Label, Histogram>,
    lost: BTreeMap<&'static str, u64>,
    span_ns: Option<(u64, u64)>,
    switches: u64,
    wakes: u64,
}

impl Collected {
    fn of(trace: &Trace, filter: &Filter) -> Collected {
        let mut all = Collected {
            names: Roles::of(trace),
            ..Collected::default()
        };
        for source in Source::ALL {
            all.lost.insert(source.word(), 0);
        }
        let (begin_ns, _) = trace.span_ns();
        for record in trace.records() {
            all.threads.follow(&record);
            let after_ns = record.at_ns - begin_ns;
            let is_in_time = (filter.from_ns..=filter.to_ns).contains(&after_ns);
            if is_in_time {
                all.waits.follow(&record);
                all.intervals.follow(&record);
            }
            if filter.keeps(&record, after_ns, &all.threads) {
                all.add(&record);
            }
        }
        all
    }

    fn add(&mut self, record: &Record) {
        match &record.what {
            What::Switch { .. } => self.switches += 1,
            What::Wake { .. } => self.wakes += 1,
            What::Demote { why, .. } => {
                let (count, last) = self.demotions.entry(record.tid).or_default();
                (*count, *last) = (*count + 1, *why);
            }
            What::Due { due_ns } => {
                let late_ns = record.at_ns.saturating_sub(*due_ns);
                let late_ns = i64::try_from(late_ns).unwrap_or(i64::MAX);
                self.tardiness_ns
                    .entry(record.tid)
                    .or_default()
                    .add(late_ns);
            }
            What::Event { label, value } => {
                self.labels.entry(label.clone()).or_default().add(*value)
            }
            What::Interval(interval) => {
                let label = self.names.label(interval.of);
                self.intervals.add(record, interval, label);
            }
            What::Lost { source, count } => {
                let sum = self.lost.entry(source.word()).or_default();
                *sum = sum.saturating_add(*count);
                return;
            }
            What::Role { .. } | What::End => return,
        }
        let (from_ns, _) = self.span_ns.unwrap_or((record.at_ns, 0));
        self.span_ns = Some((from_ns, record.at_ns));
    }
}

impl Report {
    /// Of the records that `filter` wants.
    pub fn of(trace: &Trace, filter: &Filter) -> Report {
        let mut all = Collected::of(trace, filter);
        let mut waited = std::mem::take(&mut all.waits).into_threads();
        let mut tids: Vec<i32> = waited.keys().copied().collect();
        tids.extend(all.tardiness_ns.keys().chain(all.demotions.keys()));
        tids.sort_unstable();
        tids.dedup();
        let of_thread = |tid: i32| {
            let known = all.threads.get(tid).cloned().unwrap_or_default();
            let (demotions, why) = all.demotions.get(&tid).copied().unwrap_or_default();
            let Thread { pid, command } = known;
            OfThread {
                tid,
                pid,
                command,
                waited: waited.remove(&tid).unwrap_or_default(),
                tardiness_ns: all.tardiness_ns.remove(&tid).unwrap_or_default(),
                demotions,
                why: if demotions > 0 { why_word(why) } else { "" },
            }
        };
        let mut threads: Vec<OfThread> = tids.into_iter().map(of_thread).collect();
        threads.retain(|it| filter.is_of(it.tid, it.pid, &all.threads));
        threads.sort_by_key(|it| (Reverse(it.waited.waits_ns.max()), it.tid));
        let labels = all.labels.into_iter();
        let (from_ns, to_ns) = all.span_ns.unwrap_or_default();
        Report {
            system: trace.header.system.clone(),
            is_simulated: trace.header.is_simulated,
            span_ns: to_ns - from_ns,
            switches: all.switches,
            wakes: all.wakes,
            threads,
            roles: all.intervals.into_roles(),
            labels: labels
                .map(|(label, values)| OfLabel { label, values })
                .collect(),
            lost: all.lost,
            strange: trace.strange,
            is_whole: trace.is_whole,
            threads_known: all.threads,
        }
    }

    /// How many records are missing.
    pub fn lost_sum(&self) -> u64 {
        self.lost
            .values()
            .fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// `command[tid]`.
    pub fn who(&self, tid: i32) -> String {
        if tid == OTHERS {
            return "others".to_owned();
        }
        format!("{}[{tid}]", self.threads_known.command(tid))
    }

    pub fn to_json(&mut self) -> Value {
        let blame = |it: &OfThread, known: &Threads| -> Vec<Value> {
            let all = it.waited.blame.sorted();
            let entry = |(blamed, ns): &(crate::Blamed, u64)| {
                let command = match blamed.tid {
                    OTHERS => "others",
                    tid => known.command(tid),
                };
                json!({"tid": blamed.tid, "command": command, "why": blamed.reason.word(), "ns": ns})
            };
            all.iter().map(entry).collect()
        };
        let known = &self.threads_known;
        let threads: Vec<Value> = self
            .threads
            .iter_mut()
            .map(|it| {
                json!({
                    "tid": it.tid, "pid": it.pid, "command": it.command, "ran_ns": it.waited.ran_ns,
                    "switches": it.waited.switches, "preemptions": it.waited.preemptions,
                    "waits_ns": spread(&mut it.waited.waits_ns), "blame": blame(it, known),
                    "tardiness_ns": spread(&mut it.tardiness_ns), "demotions": it.demotions, "why": it.why,
                })
            })
            .collect();
        let label = |it: &mut OfLabel| {
            let octaves = it.values.octaves();
            let octaves: Vec<Value> = octaves
                .iter()
                .map(|(below, count)| json!({"below": below, "count": count}))
                .collect();
            json!({
                "family": it.label.family(), "name": it.label.name(), "values": spread(&mut it.values),
                "octaves": octaves,
            })
        };
        let intervals: Vec<Value> = self.roles.iter_mut().map(of_role).collect();
        let events: Vec<Value> = self.labels.iter_mut().map(label).collect();
        json!({
            "version": 1, "system": self.system, "simulated": self.is_simulated, "span_ns": self.span_ns,
            "switches": self.switches, "wakes": self.wakes, "threads": threads, "intervals": intervals,
            "events": events,
            "lost": self.lost, "strange": self.strange, "whole": self.is_whole,
        })
    }
}

fn of_role(it: &mut OfRole) -> Value {
    let missed: BTreeMap<&str, u64> = it
        .missed
        .iter()
        .map(|(why, count)| (why.word(), *count))
        .collect();
    json!({
        "group": it.label.family(), "member": it.label.name(), "tid": it.tid, "kept": it.kept,
        "missed": missed, "dropped": it.dropped, "late_ns": spread(&mut it.late_ns),
        "fdte_s_ns": spread(&mut it.started_ns), "fdte_c_ns": spread(&mut it.completed_ns),
    })
}

/// The numbers of a table's row.
fn spread(values: &mut Histogram) -> Value {
    json!({
        "count": values.count(), "mean": values.mean(), "p50": values.percentile(50),
        "p95": values.percentile(95), "p99": values.percentile(99), "max": values.max(),
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{
        file::{tests::event, Header, Writer},
        interval::tests::{interval, name},
        waits::tests::two_tasks,
        Became, Miss, Reason,
    };
    use proptest::{collection::vec, prelude::*};

    /// What a file begins with.
    fn header() -> Vec<u8> {
        let mut bytes = Vec::new();
        Writer::new(&mut bytes, &Header::of_simulator("test"), 1 << 20).unwrap();
        bytes
    }

    /// A file of these records, read again.
    pub fn traced(records: &[Record]) -> Trace {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes, &Header::of_simulator("test"), 1 << 20).unwrap();
        for record in records {
            writer.write(record).unwrap();
        }
        writer.finish(0, &[]).unwrap();
        Trace::read(&bytes[..]).unwrap()
    }

    fn about(tid: i32, at_ns: u64, what: What) -> Record {
        Record {
            at_ns,
            cpu: None,
            tid,
            pid: tid,
            what,
        }
    }

    fn records() -> Vec<Record> {
        let mut records = two_tasks();
        records.push(about(2, 210, What::Due { due_ns: 150 }));
        records.push(about(2, 220, What::Due { due_ns: 150 }));
        records.push(about(1, 230, What::Demote { why: 1, late_us: 3 }));
        records.extend([event(300, 4), event(310, 8)]);
        let source = Source::Scheduler;
        records.push(about(0, 320, What::Lost { source, count: 5 }));
        records
    }

    #[test]
    fn a_report_says_who_waited_for_whom_and_how_late_events_were() {
        let mut report = Report::of(&traced(&records()), &Filter::default());
        let order: Vec<i32> = report.threads.iter().map(|it| it.tid).collect();
        assert_eq!(order, [1, 2], "who waited longest comes first");
        let json = report.to_json();
        let one = &json["threads"][0];
        assert_eq!(one["waits_ns"]["max"], 100);
        assert_eq!(one["blame"][0]["why"], Reason::Due.word());
        assert_eq!(
            (&one["demotions"], &one["why"]),
            (&json!(1), &json!("polled too late"))
        );
        let two = &json["threads"][1];
        assert_eq!(
            (&two["tardiness_ns"]["p50"], &two["tardiness_ns"]["max"]),
            (&json!(60), &json!(70))
        );
        assert_eq!(json["events"][0]["values"]["mean"], 6.0);
        assert_eq!(
            json["events"][0]["octaves"][0],
            json!({"below": 8, "count": 1})
        );
        assert_eq!(
            (&json["lost"]["scheduler"], report.lost_sum()),
            (&json!(5), 5)
        );
        assert_eq!((report.switches, report.wakes, report.span_ns), (4, 1, 300));
    }

    #[test]
    fn intervals_are_kept_or_missed_for_a_cause() {
        let (share, vacant) = (Miss::Share, Miss::Vacant);
        let mut records: Vec<Record> = [
            Became::Began { late_ns: 7 },
            Became::Kept,
            Became::Missed(share),
            Became::Passed {
                count: 3,
                why: share,
            },
            Became::Missed(vacant),
            Became::Dropped,
        ]
        .map(|became| interval(300, became))
        .into();
        let json = Report::of(&traced(&records), &Filter::default()).to_json();
        let nameless = &json["intervals"][0];
        assert_eq!(
            (&nameless["group"], &nameless["member"]),
            (&json!("group 1"), &json!("role 0"))
        );
        records.push(name("video/decoder"));
        let json = Report::of(&traced(&records), &Filter::default()).to_json();
        let it = &json["intervals"][0];
        assert_eq!(
            (&it["group"], &it["member"], &it["tid"]),
            (&json!("video"), &json!("decoder"), &json!(1))
        );
        assert_eq!(
            (&it["kept"], &it["missed"], &it["dropped"]),
            (&json!(1), &json!({"share": 4, "vacant": 1}), &json!(1))
        );
        assert_eq!(
            (&it["late_ns"]["count"], &it["late_ns"]["max"]),
            (&json!(1), &json!(7))
        );
        let others = Filter {
            kinds: "switch".parse().unwrap(),
            ..Filter::default()
        };
        let json = Report::of(&traced(&records), &others).to_json();
        assert_eq!(json["intervals"], json!([]));
    }

    /// In `two_tasks` 1 runs from 100 on and sleeps at 400, 2 runs from 200 to 300, when it sleeps. Both intervals begin at 100.
    #[test]
    fn an_interval_starts_with_its_thread_and_is_complete_when_that_sleeps() {
        let mut records = two_tasks();
        let begins = |at_ns: u64, tid: i32, group: u32| {
            let mut record = interval(at_ns, Became::Began { late_ns: 0 });
            record.tid = tid;
            if let What::Interval(it) = &mut record.what {
                it.of.group = group;
            }
            record
        };
        records.push(begins(205, 2, 1));
        records.push(begins(150, 1, 2));
        let json = Report::of(&traced(&records), &Filter::default()).to_json();
        let [one, two] = [0, 1].map(|index| &json["intervals"][index]);
        assert_eq!(one["fdte_s_ns"]["max"], json!(100), "{one}");
        assert_eq!(one["fdte_c_ns"]["max"], json!(200), "{one}");
        assert_eq!(two["fdte_s_ns"]["max"], json!(0), "{two}");
        assert_eq!(two["fdte_c_ns"]["max"], json!(300), "{two}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Whatever is in a file, it is shown, or is not: nothing breaks.
        #[test]
        fn any_records_have_a_report_and_exports(
            records in vec((any::<[u8; 32]>(), any::<[u8; 32]>(), 0..11u8, 0..3u8, 0..3u8), 0..40)
        ) {
            let mut bytes = header();
            for (first, last, kind, cpu, tid) in records {
                let mut record = [first, last].concat();
                (record[8], record[9], record[10], record[11]) = (kind, 0, cpu, 0);
                record[12..16].copy_from_slice(&[tid, 0, 0, 0]);
                // Some are switches between a few threads for good reasons.
                if tid > 0 {
                    record[24..36].copy_from_slice(&[cpu, 0, 0, 0, cpu, 0, 0, 0, kind % 4, 0, kind, 0]);
                }
                bytes.extend(record);
            }
            let trace = Trace::read(&bytes[..]).unwrap();
            let filter = Filter::default();
            let json = Report::of(&trace, &filter).to_json();
            prop_assert!(json["threads"].is_array());
            let (mut csv, mut perfetto) = (Vec::new(), Vec::new());
            crate::write_csv(&trace, &filter, &mut csv).unwrap();
            crate::write_perfetto(&trace, &filter, &mut perfetto).unwrap();
            prop_assert_eq!(String::from_utf8(csv).unwrap().lines().count(), trace.len() + 1);
            prop_assert!(serde_json::from_slice::<Value>(&perfetto).is_ok());
        }
    }

    #[test]
    fn filters_hold() {
        let of = Filter {
            of: Some("2".to_owned()),
            ..Filter::default()
        };
        let report = Report::of(&traced(&records()), &of);
        assert_eq!(report.threads.len(), 1);
        assert!(report.labels.is_empty());
        assert_eq!(report.lost_sum(), 5, "losses concern everybody");
        let later = Filter {
            from_ns: 205,
            ..Filter::default()
        };
        let report = Report::of(&traced(&records()), &later);
        assert_eq!(
            report.labels[0].values.count(),
            1,
            "the other one was 200 after the first record"
        );
    }
}
