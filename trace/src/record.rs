// SPDX-License-Identifier: MIT OR Apache-2.0
//! One record, with types. Bytes that mean nothing are no record: whoever wrote them may be hostile.

use std::fmt;

use consort_abi::*;

use crate::{interval, Interval, Reason, Role};

/// Bytes of a record, in files and in memory.
pub const RECORD_BYTES: usize = CONSORT_TRACE_RECORD_BYTES as usize;
const COMMAND_BYTES: usize = CONSORT_TRACE_COMMAND_BYTES as usize;
const LABEL_BYTES: usize = CONSORT_TRACE_LABEL_BYTES as usize;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// On CLOCK_MONOTONIC; in the simulator, of virtual time.
    pub at_ns: u64,
    /// [`What::Switch`]: the CPU that switches; [`What::Wake`]: on which the thread was put. `None`: it is not known.
    pub cpu: Option<u16>,
    /// The thread that it is about; of a switch the next one. 0: none.
    pub tid: i32,
    /// Its process.
    pub pid: i32,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A CPU gives itself to another thread.
    Switch {
        prev_tid: i32,
        prev_pid: i32,
        left: Left,
        reason: Reason,
        /// The kernel's, of the next one: 120 is nice 0, below 100 is real time.
        priority: i32,
        /// What interrupts took of the previous one's run.
        interrupted_ns: u64,
        /// The next one's.
        command: String,
    },
    /// A thread wants a CPU from now on.
    Wake {
        by_tid: i32,
        is_new: bool,
        command: String,
    },
    /// A member broke its domain's contract: `enum consort_why`, and by how much it polled too late.
    Demote { why: u32, late_us: u32 },
    /// A program begins a due event.
    Due { due_ns: u64 },
    /// What a program says of itself.
    Event { label: Label, value: i64 },
    /// What became of an interval of a group's member.
    Interval(Interval),
    /// How a role is called: "group/member".
    Role { of: Role, label: Label },
    /// Records that are missing.
    Lost { source: Source, count: u64 },
    /// The last one of a whole file.
    End,
}

/// How a thread left its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// It could go on. It may have yielded, where nobody can tell.
    Preempted,
    Yielded,
    Slept,
    Ended,
}

impl Left {
    pub fn word(self) -> &'static str {
        match self {
            Left::Preempted => "preempted",
            Left::Yielded => "yielded",
            Left::Slept => "slept",
            Left::Ended => "ended",
        }
    }

    /// Whether it still wants a CPU.
    pub fn waits(self) -> bool {
        matches!(self, Left::Preempted | Left::Yielded)
    }
}

/// Where there was no room for records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Scheduler,
    Programs,
    File,
}

impl Source {
    pub const ALL: [Source; 3] = [Source::Scheduler, Source::Programs, Source::File];

    pub fn word(self) -> &'static str {
        match self {
            Source::Scheduler => "scheduler",
            Source::Programs => "programs",
            Source::File => "file",
        }
    }
}

/// `family/name` of a program's event.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(String);

impl Label {
    /// Cut to what a record holds.
    pub fn new(family: &str, name: &str) -> Label {
        let bytes = text_bytes::<LABEL_BYTES>(&format!("{family}/{name}"));
        Label(text(&bytes))
    }

    pub fn family(&self) -> &str {
        self.0.split_once('/').map_or("", |(family, _)| family)
    }

    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(_, name)| name)
    }

    /// Whether its values are times: by convention names say so at their ends.
    pub fn is_time(&self) -> bool {
        self.0.ends_with("_ns")
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Label {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

impl Record {
    /// What a record of a file, or of a ring, says. `None`: it is of no known kind, or a number in it is out of range.
    pub fn parse(bytes: &[u8; RECORD_BYTES]) -> Option<Record> {
        // SAFETY: integers and bytes alone, of which any bytes are a value, and as many as it has.
        let raw: consort_trace_record = unsafe {
            bytes
                .as_ptr()
                .cast::<consort_trace_record>()
                .read_unaligned()
        };
        let what = what(&raw)?;
        Some(Record {
            at_ns: raw.at_ns,
            cpu: Some(raw.cpu).filter(|cpu| u32::from(*cpu) != CONSORT_TRACE_NO_CPU),
            tid: raw.tid,
            pid: raw.pid,
            what,
        })
    }

    pub fn to_bytes(&self) -> [u8; RECORD_BYTES] {
        let mut raw = consort_trace_record {
            at_ns: self.at_ns,
            cpu: self.cpu.unwrap_or(CONSORT_TRACE_NO_CPU as u16),
            tid: self.tid,
            pid: self.pid,
            ..Default::default()
        };
        fill(&mut raw, &self.what);
        // SAFETY: as many bytes; those between fields are 0, as `default` makes them.
        unsafe { std::mem::transmute(raw) }
    }
}

fn what(raw: &consort_trace_record) -> Option<What> {
    // SAFETY: each member of the union consists of integers and bytes, of which any bytes are a value.
    Some(match (u32::from(raw.kind), &raw.__bindgen_anon_1) {
        (CONSORT_TRACE_SWITCH, it) => {
            let it = unsafe { &it.switched };
            What::Switch {
                prev_tid: it.prev_tid,
                prev_pid: it.prev_pid,
                left: left(it.left)?,
                reason: Reason::of_number(it.reason)?,
                priority: it.priority,
                interrupted_ns: it.interrupted_ns,
                command: text(&bytes_of(&it.command)),
            }
        }
        (CONSORT_TRACE_WAKE, it) => {
            let it = unsafe { &it.woken };
            What::Wake {
                by_tid: it.by_tid,
                is_new: it.is_new != 0,
                command: text(&bytes_of(&it.command)),
            }
        }
        (CONSORT_TRACE_DEMOTE, it) => What::Demote {
            why: unsafe { it.demoted.why },
            late_us: unsafe { it.demoted.late_us },
        },
        (CONSORT_TRACE_DUE, it) => What::Due {
            due_ns: unsafe { it.due.due_ns },
        },
        (CONSORT_TRACE_EVENT, it) => What::Event {
            label: Label(text(&bytes_of(unsafe { &it.event.label }))),
            value: unsafe { it.event.value },
        },
        (CONSORT_TRACE_INTERVAL, it) => interval::parse(it)?,
        (CONSORT_TRACE_ROLE, it) => What::Role {
            of: Role {
                group: unsafe { it.role.group },
                role: u16::try_from(unsafe { it.role.role }).ok()?,
            },
            label: Label(text(&bytes_of(unsafe { &it.role.label }))),
        },
        (CONSORT_TRACE_LOST, it) => What::Lost {
            source: *Source::ALL.get(unsafe { it.lost.source } as usize)?,
            count: unsafe { it.lost.count },
        },
        (CONSORT_TRACE_END, _) => What::End,
        _ => return None,
    })
}

fn fill(raw: &mut consort_trace_record, what: &What) {
    let it = &mut raw.__bindgen_anon_1;
    let kind = match what {
        What::Switch {
            prev_tid,
            prev_pid,
            left,
            reason,
            priority,
            interrupted_ns,
            command,
        } => {
            // SAFETY: members of a union whose bytes are all written, here and below.
            let it = unsafe { &mut it.switched };
            it.prev_tid = *prev_tid;
            it.prev_pid = *prev_pid;
            it.left = *left as u16;
            it.reason = reason.number();
            it.priority = *priority;
            it.interrupted_ns = *interrupted_ns;
            it.command = chars(text_bytes::<COMMAND_BYTES>(command));
            CONSORT_TRACE_SWITCH
        }
        What::Wake {
            by_tid,
            is_new,
            command,
        } => {
            let it = unsafe { &mut it.woken };
            it.by_tid = *by_tid;
            it.is_new = u32::from(*is_new);
            it.command = chars(text_bytes::<COMMAND_BYTES>(command));
            CONSORT_TRACE_WAKE
        }
        What::Demote { why, late_us } => {
            let it = unsafe { &mut it.demoted };
            (it.why, it.late_us) = (*why, *late_us);
            CONSORT_TRACE_DEMOTE
        }
        What::Due { due_ns } => {
            it.due.due_ns = *due_ns;
            CONSORT_TRACE_DUE
        }
        What::Event { label, value } => {
            let it = unsafe { &mut it.event };
            it.value = *value;
            it.label = chars(text_bytes::<LABEL_BYTES>(label.as_str()));
            CONSORT_TRACE_EVENT
        }
        What::Interval(it) => {
            interval::fill(&mut raw.__bindgen_anon_1, it);
            CONSORT_TRACE_INTERVAL
        }
        What::Role { of, label } => {
            let it = unsafe { &mut it.role };
            (it.group, it.role) = (of.group, of.role.into());
            it.label = chars(text_bytes::<LABEL_BYTES>(label.as_str()));
            CONSORT_TRACE_ROLE
        }
        What::Lost { source, count } => {
            let it = unsafe { &mut it.lost };
            (it.source, it.count) = (*source as u32, *count);
            CONSORT_TRACE_LOST
        }
        What::End => CONSORT_TRACE_END,
    };
    raw.kind = kind as u16;
}

fn left(number: u16) -> Option<Left> {
    Some(match u32::from(number) {
        CONSORT_TRACE_PREEMPTED => Left::Preempted,
        CONSORT_TRACE_YIELDED => Left::Yielded,
        CONSORT_TRACE_SLEPT => Left::Slept,
        CONSORT_TRACE_ENDED => Left::Ended,
        _ => return None,
    })
}

fn bytes_of<const N: usize>(chars: &[std::ffi::c_char; N]) -> [u8; N] {
    chars.map(|char| char as u8)
}

fn chars<const N: usize>(bytes: [u8; N]) -> [std::ffi::c_char; N] {
    bytes.map(|byte| byte as std::ffi::c_char)
}

/// Up to the first 0, without what would confuse a terminal.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(&bytes[..end]);
    text.chars().filter(|char| !char.is_control()).collect()
}

/// Cut between characters, with zeros behind it.
pub(crate) fn text_bytes<const N: usize>(text: &str) -> [u8; N] {
    let mut end = text.len().min(N);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut bytes = [0; N];
    bytes[..end].copy_from_slice(&text.as_bytes()[..end]);
    bytes
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Became, Miss};
    use proptest::prelude::*;

    fn kept(what: What) {
        let record = Record {
            at_ns: 17,
            cpu: Some(3),
            tid: 4711,
            pid: 4700,
            what,
        };
        assert_eq!(Record::parse(&record.to_bytes()), Some(record));
    }

    #[test]
    fn what_is_written_is_read() {
        kept(What::Switch {
            prev_tid: 1,
            prev_pid: 2,
            left: Left::Ended,
            reason: Reason::Borrowed,
            priority: -1,
            interrupted_ns: 5,
            command: "exactly sixteen.".to_owned(),
        });
        kept(What::Wake {
            by_tid: 0,
            is_new: true,
            command: String::new(),
        });
        kept(What::Demote {
            why: 2,
            late_us: 70,
        });
        kept(What::Due { due_ns: 16 });
        kept(What::Event {
            label: Label::new("decoder", "frame_ns"),
            value: i64::MIN,
        });
        kept(What::Lost {
            source: Source::File,
            count: 1,
        });
        kept(What::End);
        let of = Role { group: 3, role: 31 };
        for became in [
            Became::Began { late_ns: 5 },
            Became::Kept,
            Became::Missed(Miss::Share),
            Became::Passed {
                count: 7,
                why: Miss::Vacant,
            },
            Became::Dropped,
        ] {
            kept(What::Interval(Interval {
                of,
                from_ns: 1,
                until_ns: u64::MAX,
                became,
            }));
        }
        let label = Label::new("video", "decoder");
        kept(What::Role { of, label });
    }

    #[test]
    fn labels_are_cut_between_characters_and_split_at_the_first_slash() {
        let label = Label::new("a", &"\u{e4}".repeat(40));
        assert_eq!((label.as_str().len(), label.family()), (32, "a"));
        let odd = Label::new("ab", &"\u{e4}".repeat(40));
        assert_eq!(odd.as_str().len(), 31, "half a character is none");
        let label = Label::new("x", "y/z_ns");
        assert_eq!(
            (label.family(), label.name(), label.is_time()),
            ("x", "y/z_ns", true)
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_record_or_none(bytes: Vec<u8>) {
            let mut record = [0; RECORD_BYTES];
            let length = bytes.len().min(RECORD_BYTES);
            record[..length].copy_from_slice(&bytes[..length]);
            for kind in 0..10 {
                record[8] = kind;
                record[9] = 0;
                if let Some(parsed) = Record::parse(&record) {
                    prop_assert!(Record::parse(&parsed.to_bytes()).is_some());
                }
            }
        }
    }
}
