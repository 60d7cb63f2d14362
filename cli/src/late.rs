// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort late`: who waits for a CPU for long, and who is to blame.

use std::{collections::HashMap, fmt::Write as _, fs, time::Duration};

use consort_kernel::{
    format_ns,
    late::{Began, Late, LateOptions, Run, Seen, Wait, Waits},
};
use consort_trace::Reason;
use serde_json::{json, Value};

use crate::{
    args::LateArgs,
    failure::Failure,
    status::print,
    table::{count, short_time, Paint, Side, Table},
};

/// Lines in each table.
const LINES: usize = 10;
/// Of a wait, in percent: a task that has had less is not worth a word.
const WORTH_A_WORD_PERCENT: u64 = 5;

/// Looks on for a while, and prints what it saw.
pub fn late(args: &LateArgs) -> Result<(), Failure> {
    args.pid.map_or(Ok(()), check_process)?;
    let late = Late::start(LateOptions {
        long_ns: args.over,
        pid: args.pid.unwrap_or_default(),
    })?;
    let mut waits = Vec::new();
    late.watch(Duration::from_nanos(args.time), |wait| waits.push(wait))?;
    let told = Told::of(&waits, late.tasks(), late.seen(), args);
    match args.json {
        true => print(&format!("{:#}\n", told.to_json())),
        false => print(&told.describe(Paint::for_stdout())),
    }
}

/// Nobody of a process that is not there waits: that would look like good news.
fn check_process(number: i32) -> Result<(), Failure> {
    let status = fs::read_to_string(format!("/proc/{number}/status"));
    let status = status.map_err(|_| Failure::NoProcess(number))?;
    let mut lines = status.lines();
    let pid = lines.find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
    match pid {
        Some(pid) if pid != number => Err(Failure::NoProcessButThread { tid: number, pid }),
        _ => Ok(()),
    }
}

/// Who had the CPU while somebody waited, and why.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Blamed {
    pid: i32,
    command: String,
    reason: Reason,
}

impl Blamed {
    fn of(run: &Run) -> Blamed {
        Blamed {
            pid: run.pid,
            command: run.command.clone(),
            reason: run.reason,
        }
    }

    fn interrupts() -> Blamed {
        Blamed {
            pid: 0,
            command: String::new(),
            reason: Reason::Interrupt,
        }
    }

    fn words(&self) -> String {
        let who = format!("{}[{}]", self.command, self.pid);
        match self.reason {
            Reason::Idle => "nobody, the CPU was idle".to_owned(),
            Reason::Interrupt => "interrupts".to_owned(),
            Reason::Deadline => format!("{who}, a deadline of the kernel's"),
            Reason::RealTime => format!("{who}, real time"),
            Reason::Stock => format!("{who}, its slice of the stock scheduler"),
            Reason::Slice => format!("{who}, its slice"),
            Reason::Due => format!("{who}, its due event"),
            Reason::Borrowed => format!("{who}, its due event, borrowed ahead of its share"),
            Reason::Reserved => format!("{who}, its reserved rate"),
        }
    }
}

/// How long whom, the longest first.
type Blame = Vec<(Blamed, u64)>;

fn blame<'a>(waits: impl Iterator<Item = &'a Wait>) -> Blame {
    let mut sums: HashMap<Blamed, u64> = HashMap::new();
    for wait in waits {
        for run in &wait.runs {
            let (from_ns, to_ns) = (run.from_ns, run.to_ns);
            let (own_ns, interrupted_ns) = consort_trace::Run::within(
                from_ns,
                to_ns,
                run.interrupted_ns,
                wait.since_ns,
                wait.until_ns,
            );
            *sums.entry(Blamed::interrupts()).or_default() += interrupted_ns;
            // Before it got the CPU that it had lost, it did not wait for itself.
            if run.tid != wait.tid {
                *sums.entry(Blamed::of(run)).or_default() += own_ns;
            }
        }
    }
    let mut blame: Blame = sums.into_iter().filter(|(_, ns)| *ns > 0).collect();
    blame.sort_by_key(|(blamed, ns)| (std::cmp::Reverse(*ns), blamed.reason, blamed.pid));
    blame
}

/// Those who had a part that is worth a word, and it in percent of all.
fn shares(blame: &Blame) -> impl Iterator<Item = (&Blamed, u64)> {
    let sum: u64 = blame.iter().map(|(_, ns)| ns).sum();
    let percent = move |ns: u64| (u128::from(ns) * 100 / u128::from(sum.max(1))) as u64;
    let shares = blame.iter().map(move |(blamed, ns)| (blamed, percent(*ns)));
    shares.filter(|(_, percent)| *percent >= WORTH_A_WORD_PERCENT)
}

struct Told<'a> {
    /// The longest first.
    waits: Vec<&'a Wait>,
    /// Those that waited for long, who waited longest first.
    tasks: Vec<Waits>,
    seen: Seen,
    args: &'a LateArgs,
}

impl<'a> Told<'a> {
    fn of(waits: &'a [Wait], mut tasks: Vec<Waits>, seen: Seen, args: &'a LateArgs) -> Told<'a> {
        let mut waits: Vec<&Wait> = waits.iter().collect();
        waits.sort_by_key(|wait| std::cmp::Reverse(wait.until_ns - wait.since_ns));
        tasks.retain(|task| task.long > 0);
        tasks.sort_by_key(|task| (std::cmp::Reverse(task.max_ns), task.tid));
        Told {
            waits,
            tasks,
            seen,
            args,
        }
    }

    fn blame_of(&self, tid: i32) -> Blame {
        blame(self.waits.iter().filter(|wait| wait.tid == tid).copied())
    }

    fn describe(&self, paint: Paint) -> String {
        let (over, time) = (format_ns(self.args.over), format_ns(self.args.time));
        let mut out = String::new();
        // Writing into a String cannot fail.
        if self.tasks.is_empty() {
            let _ = writeln!(
                out,
                "nobody waited for {over} or longer in {time} ({} seen)",
                count(self.seen.switches, "switch").replace("switchs", "switches")
            );
            return out;
        }
        let mut table = Table::new(&[
            ("waited", Side::Left),
            ("pid", Side::Right),
            ("thread", Side::Right),
            ("times", Side::Right),
            ("long", Side::Right),
            ("mean", Side::Right),
            ("longest", Side::Right),
            ("who had the CPU in the long ones", Side::Left),
        ]);
        for task in self.tasks.iter().take(LINES) {
            let blame = self.blame_of(task.tid);
            let words = shares(&blame)
                .take(2)
                .map(|(blamed, percent)| format!("{percent} % {}", blamed.words()));
            table.row(vec![
                task.command.clone(),
                task.pid.to_string(),
                task.tid.to_string(),
                task.number.to_string(),
                task.long.to_string(),
                short_time(task.sum_ns.checked_div(task.number).unwrap_or_default()),
                short_time(task.max_ns),
                words.collect::<Vec<_>>().join("; "),
            ]);
        }
        out.push_str(&table.text(paint));
        let more = self.tasks.len().saturating_sub(LINES);
        if more > 0 {
            let _ = writeln!(out, "and {} more", count(more as u64, "thread"));
        }
        let _ = writeln!(
            out,
            "(long: {over} or longer, of the waits in {time}; {} switches)",
            self.seen.switches
        );
        out.push('\n');
        let _ = writeln!(out, "{}", paint.heading("the longest waits"));
        for wait in self.waits.iter().take(LINES / 2) {
            self.describe_wait(&mut out, wait);
        }
        if self.seen.unseen > 0 {
            let text = format!(
                "{} could not be kept: look at one process, or ask for --over more",
                count(self.seen.unseen, "long wait")
            );
            let _ = writeln!(out, "{}", paint.bad(&text));
        }
        out
    }

    fn describe_wait(&self, out: &mut String, wait: &Wait) {
        let _ = writeln!(
            out,
            "{:>8}  {}[{}] {} on CPU {}",
            short_time(wait.until_ns - wait.since_ns),
            wait.command,
            wait.tid,
            match (wait.began, wait.goes_on) {
                (Began::Woke, false) => "woke and waited",
                (Began::Woke, true) => "woke and still waits",
                (Began::Lost, false) => "lost the CPU and waited for it again",
                (Began::Lost, true) => "lost the CPU and still waits for it",
                (Began::Before, false) => "waited from before this began",
                (Began::Before, true) => "waited all the time",
            },
            wait.cpu
        );
        for (blamed, percent) in shares(&blame(std::iter::once(wait))) {
            let _ = writeln!(out, "          {percent:>3} %  {}", blamed.words());
        }
    }

    fn to_json(&self) -> Value {
        let blamed = |blame: &Blame| -> Vec<Value> {
            let list = blame.iter().map(|(blamed, ns)| {
                json!({
                    "pid": blamed.pid, "command": blamed.command, "why": blamed.reason.word(),
                    "words": blamed.words(), "ns": ns,
                })
            });
            list.collect()
        };
        let tasks: Vec<Value> = self
            .tasks
            .iter()
            .map(|task| {
                json!({
                    "tid": task.tid, "pid": task.pid, "command": task.command, "waits": task.number,
                    "sum_ns": task.sum_ns, "max_ns": task.max_ns, "long": task.long,
                    "blame": blamed(&self.blame_of(task.tid)),
                })
            })
            .collect();
        json!({
            "version": 1, "time_ns": self.args.time, "over_ns": self.args.over, "switches": self.seen.switches,
            "unseen": self.seen.unseen, "tasks": tasks,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(tid: i32, from_ns: u64, to_ns: u64, interrupted_ns: u64, reason: Reason) -> Run {
        Run {
            from_ns,
            to_ns,
            interrupted_ns,
            tid,
            pid: tid,
            command: format!("task{tid}"),
            reason,
        }
    }

    #[test]
    fn blame_is_by_overlap_and_interrupts_are_nobodys() {
        let wait = Wait {
            since_ns: 1_000,
            until_ns: 2_000,
            tid: 9,
            pid: 9,
            cpu: 0,
            began: Began::Woke,
            goes_on: false,
            command: "film".to_owned(),
            runs: vec![
                run(1, 1_700, 2_000, 200, Reason::Slice),
                run(2, 900, 1_700, 0, Reason::Due),
                run(9, 0, 900, 0, Reason::Slice),
            ],
        };
        let blame = blame(std::iter::once(&wait));
        let told: Vec<(i32, Reason, u64)> = blame
            .iter()
            .map(|(blamed, ns)| (blamed.pid, blamed.reason, *ns))
            .collect();
        assert_eq!(
            told,
            [
                (2, Reason::Due, 700),
                (0, Reason::Interrupt, 200),
                (1, Reason::Slice, 100)
            ]
        );
        let words: Vec<_> = shares(&blame)
            .map(|(blamed, percent)| (blamed.words(), percent))
            .collect();
        assert_eq!(words[0], ("task2[2], its due event".to_owned(), 70));
    }
}
