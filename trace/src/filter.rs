// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which records are wanted.

use std::str::FromStr;

use consort_abi::*;

use crate::{
    record::{Record, What},
    Threads,
};

/// The kinds of records that one may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Switch,
    Wake,
    Demote,
    Interval,
    Due,
    Event,
}

const ALL: [(Kind, u32, &str); 6] = [
    (Kind::Switch, CONSORT_TRACE_SWITCH, "switch"),
    (Kind::Wake, CONSORT_TRACE_WAKE, "wake"),
    (Kind::Demote, CONSORT_TRACE_DEMOTE, "demote"),
    (Kind::Interval, CONSORT_TRACE_INTERVAL, "interval"),
    (Kind::Due, CONSORT_TRACE_DUE, "due"),
    (Kind::Event, CONSORT_TRACE_EVENT, "event"),
];

/// Kinds of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kinds(u32);

impl Kinds {
    pub const ALL: Kinds = Kinds(
        1 << CONSORT_TRACE_SWITCH
            | 1 << CONSORT_TRACE_WAKE
            | 1 << CONSORT_TRACE_DEMOTE
            | 1 << CONSORT_TRACE_INTERVAL
            | 1 << CONSORT_TRACE_DUE
            | 1 << CONSORT_TRACE_EVENT,
    );
    /// What the scheduler tells.
    const OF_SCHEDULER: u32 = 1 << CONSORT_TRACE_SWITCH
        | 1 << CONSORT_TRACE_WAKE
        | 1 << CONSORT_TRACE_DEMOTE
        | 1 << CONSORT_TRACE_INTERVAL;

    pub fn has(self, kind: Kind) -> bool {
        ALL.iter()
            .any(|(it, number, _)| *it == kind && self.0 & 1 << number != 0)
    }

    /// Those of the scheduler, a bit for each `enum consort_trace_kind`.
    pub fn of_scheduler(self) -> u32 {
        self.0 & Kinds::OF_SCHEDULER
    }

    /// Those that programs write.
    pub fn of_programs(self) -> bool {
        self.has(Kind::Due) || self.has(Kind::Event)
    }

    /// Whether a record is of one of them. Losses are always wanted.
    pub fn keeps(self, what: &What) -> bool {
        match what {
            What::Switch { .. } => self.has(Kind::Switch),
            What::Wake { .. } => self.has(Kind::Wake),
            What::Demote { .. } => self.has(Kind::Demote),
            What::Due { .. } => self.has(Kind::Due),
            What::Event { .. } => self.has(Kind::Event),
            What::Interval(_) => self.has(Kind::Interval),
            // What others are called by, or miss.
            What::Role { .. } | What::Lost { .. } | What::End => true,
        }
    }
}

/// Words with commas between them.
impl FromStr for Kinds {
    type Err = String;

    fn from_str(text: &str) -> Result<Kinds, String> {
        let mut kinds = 0;
        for word in text.split(',') {
            let found = ALL.iter().find(|(.., it)| *it == word);
            let (_, number, _) = found.ok_or_else(|| {
                format!(
                    "{word:?} is no kind of records: expected some of switch,wake,demote,interval,due,event"
                )
            })?;
            kinds |= 1 << number;
        }
        Ok(Kinds(kinds))
    }
}

/// What a reader wants to see of a trace. Waits are made from all records, whatever is shown.
#[derive(Debug, Clone)]
pub struct Filter {
    pub kinds: Kinds,
    /// A thread or process by its number, or commands that contain this.
    pub of: Option<String>,
    /// Labels that begin with this.
    pub label: Option<String>,
    /// After the trace's first record.
    pub from_ns: u64,
    pub to_ns: u64,
}

impl Default for Filter {
    fn default() -> Filter {
        Filter {
            kinds: Kinds::ALL,
            of: None,
            label: None,
            from_ns: 0,
            to_ns: u64::MAX,
        }
    }
}

impl Filter {
    /// Whether a record is wanted that happened `after_ns` after the first one.
    pub fn keeps(&self, record: &Record, after_ns: u64, threads: &Threads) -> bool {
        if matches!(record.what, What::Lost { .. }) {
            return true;
        }
        let concerns = match record.what {
            What::Switch {
                prev_tid, prev_pid, ..
            } => {
                self.is_of(record.tid, record.pid, threads)
                    || self.is_of(prev_tid, prev_pid, threads)
            }
            _ => self.is_of(record.tid, record.pid, threads),
        };
        concerns
            && self.kinds.keeps(&record.what)
            && (self.from_ns..=self.to_ns).contains(&after_ns)
            && self.has_label(&record.what)
    }

    /// Whether a thread is wanted.
    pub fn is_of(&self, tid: i32, pid: i32, threads: &Threads) -> bool {
        let Some(of) = &self.of else {
            return true;
        };
        match of.parse::<i32>() {
            // The scheduler does not know the process of each thread.
            Ok(number) if pid == 0 => {
                number == tid || threads.get(tid).is_some_and(|it| it.pid == number)
            }
            Ok(number) => number == tid || number == pid,
            Err(_) => threads.command(tid).contains(of.as_str()),
        }
    }

    fn has_label(&self, what: &What) -> bool {
        match (&self.label, what) {
            (Some(wanted), What::Event { label, .. }) => label.as_str().starts_with(wanted),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::tests::event;

    #[test]
    fn kinds_are_words_with_commas() {
        let kinds: Kinds = "switch,event".parse().unwrap();
        assert!(kinds.has(Kind::Switch) && kinds.has(Kind::Event) && !kinds.has(Kind::Wake));
        assert_eq!(
            (kinds.of_scheduler(), kinds.of_programs()),
            (1 << CONSORT_TRACE_SWITCH, true)
        );
        let error = "switch,sleep".parse::<Kinds>().unwrap_err();
        assert!(
            error.contains("\"sleep\"") && error.contains("demote"),
            "{error}"
        );
    }

    #[test]
    fn records_are_wanted_by_thread_label_and_time() {
        let mut threads = Threads::default();
        let record = event(10, 0);
        threads.name(7, 7, "player");
        let keeps = |filter: Filter| filter.keeps(&record, 10, &threads);
        let of = |text: &str| Filter {
            of: Some(text.to_owned()),
            ..Filter::default()
        };
        assert!(keeps(of("7")) && keeps(of("play")) && !keeps(of("8")) && !keeps(of("hog")));
        let label = |text: &str| Filter {
            label: Some(text.to_owned()),
            ..Filter::default()
        };
        assert!(keeps(label("test")) && keeps(label("test/value")) && !keeps(label("other")));
        assert!(!keeps(Filter {
            from_ns: 11,
            ..Filter::default()
        }));
        assert!(!keeps(Filter {
            to_ns: 9,
            ..Filter::default()
        }));
    }
}
