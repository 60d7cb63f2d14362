// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trace files: a header, and records.

use std::{
    fs::File,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use consort_abi::*;

use crate::record::{self, Record, Source, What, RECORD_BYTES};

const HEADER_BYTES: usize = CONSORT_TRACE_HEADER_BYTES as usize;

/// What a file begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Of the simulator; else of a machine.
    pub is_simulated: bool,
    /// When recording began.
    pub start_ns: u64,
    /// The same moment on CLOCK_REALTIME; simulated: 0.
    pub start_realtime_ns: u64,
    /// What was traced, such as `Linux 7.2.13`.
    pub system: String,
}

impl Header {
    /// Of a trace of this machine that begins at `start_ns`, which is now.
    pub fn of_machine(start_ns: u64, system: &str) -> Header {
        let realtime = SystemTime::now().duration_since(UNIX_EPOCH);
        Header {
            is_simulated: false,
            start_ns,
            start_realtime_ns: realtime.map_or(0, |time| time.as_nanos() as u64),
            system: system.to_owned(),
        }
    }

    pub fn of_simulator(system: &str) -> Header {
        Header {
            is_simulated: true,
            start_ns: 0,
            start_realtime_ns: 0,
            system: system.to_owned(),
        }
    }

    fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let system = record::text_bytes::<{ CONSORT_TRACE_SYSTEM_BYTES as usize }>(&self.system);
        let raw = consort_trace_header {
            magic: CONSORT_TRACE_MAGIC,
            version: CONSORT_TRACE_VERSION as u16,
            record_bytes: RECORD_BYTES as u16,
            is_simulated: u32::from(self.is_simulated),
            reserved: 0,
            start_ns: self.start_ns,
            start_realtime_ns: self.start_realtime_ns,
            system: system.map(|byte| byte as std::ffi::c_char),
        };
        // SAFETY: as many bytes, none of them between fields.
        unsafe { std::mem::transmute(raw) }
    }

    fn parse(bytes: &[u8; HEADER_BYTES]) -> Result<Header, String> {
        // SAFETY: integers and bytes alone, of which any bytes are a value, and as many as it has.
        let raw: consort_trace_header = unsafe {
            bytes
                .as_ptr()
                .cast::<consort_trace_header>()
                .read_unaligned()
        };
        if raw.magic != CONSORT_TRACE_MAGIC {
            return Err("it is no trace: expected a file that `consort trace record` or `consort sim run --trace` wrote on a machine of this byte order".to_owned());
        }
        if u32::from(raw.version) != CONSORT_TRACE_VERSION
            || usize::from(raw.record_bytes) != RECORD_BYTES
        {
            return Err(format!(
                "it is of version {}, and this command reads version {CONSORT_TRACE_VERSION}: use the consort that wrote it",
                raw.version
            ));
        }
        Ok(Header {
            is_simulated: raw.is_simulated != 0,
            start_ns: raw.start_ns,
            start_realtime_ns: raw.start_realtime_ns,
            system: record::text(&raw.system.map(|char| char as u8)),
        })
    }
}

/// Writes a trace as it comes. What would be more than `bytes_max` is counted instead.
#[derive(Debug)]
pub struct Writer<W: Write> {
    to: W,
    records_left: u64,
    /// Records that the file has no room for.
    unwritten: u64,
    last_ns: u64,
}

/// How much is kept for what ends a file: losses, and the end.
const RECORDS_OF_END: u64 = 4;

impl<W: Write> Writer<W> {
    /// # Errors
    /// `to` cannot be written to.
    pub fn new(mut to: W, header: &Header, bytes_max: u64) -> io::Result<Writer<W>> {
        to.write_all(&header.to_bytes())?;
        let bytes = bytes_max.saturating_sub(HEADER_BYTES as u64);
        let records = (bytes / RECORD_BYTES as u64).saturating_sub(RECORDS_OF_END);
        Ok(Writer {
            to,
            records_left: records,
            unwritten: 0,
            last_ns: header.start_ns,
        })
    }

    /// # Errors
    /// It cannot be written.
    pub fn write(&mut self, record: &Record) -> io::Result<()> {
        self.last_ns = self.last_ns.max(record.at_ns);
        self.write_bytes(&record.to_bytes())
    }

    /// A record as a ring has it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_bytes(&mut self, record: &[u8; RECORD_BYTES]) -> io::Result<()> {
        if self.records_left == 0 {
            self.unwritten += 1;
            return Ok(());
        }
        self.records_left -= 1;
        self.to.write_all(record)
    }

    /// Ends the file with what is missing in it, each by its source, and says how many records the file itself had no
    /// room for.
    ///
    /// # Errors
    /// Something could not be written.
    pub fn finish(mut self, at_ns: u64, lost: &[(Source, u64)]) -> io::Result<u64> {
        self.records_left = RECORDS_OF_END;
        let at_ns = at_ns.max(self.last_ns);
        let unwritten = self.unwritten;
        let of_file = [(Source::File, unwritten)];
        for (source, count) in lost.iter().chain(&of_file) {
            if *count > 0 {
                self.write(&about_file(
                    at_ns,
                    What::Lost {
                        source: *source,
                        count: *count,
                    },
                ))?;
            }
        }
        self.write(&about_file(at_ns, What::End))?;
        self.to.flush()?;
        Ok(unwritten)
    }
}

fn about_file(at_ns: u64, what: What) -> Record {
    Record {
        at_ns,
        cpu: None,
        tid: 0,
        pid: 0,
        what,
    }
}

/// A trace, read.
#[derive(Debug)]
pub struct Trace {
    pub header: Header,
    /// Those that were understood, sorted by time.
    records: Vec<[u8; RECORD_BYTES]>,
    /// Records that mean nothing to this reader.
    pub strange: u64,
    /// Its recorder came to its end, and said what is missing.
    pub is_whole: bool,
}

impl Trace {
    /// In order of time.
    pub fn records(&self) -> impl Iterator<Item = Record> + '_ {
        self.records.iter().filter_map(Record::parse)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// When the first and the last of them happened; when recording began, if there is none.
    pub fn span_ns(&self) -> (u64, u64) {
        let at = |record: Option<&[u8; RECORD_BYTES]>| record.map_or(self.header.start_ns, at_ns);
        (at(self.records.first()), at(self.records.last()))
    }

    /// Reads a trace: its header, and all records into memory.
    ///
    /// # Errors
    /// In words: it cannot be read, or is none.
    pub fn read(mut from: impl Read) -> Result<Trace, String> {
        let mut header = [0; HEADER_BYTES];
        from.read_exact(&mut header)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => "it is no trace: it is too short".to_owned(),
                _ => error.to_string(),
            })?;
        let mut trace = Trace {
            header: Header::parse(&header)?,
            records: Vec::new(),
            strange: 0,
            is_whole: false,
        };
        let mut record = [0; RECORD_BYTES];
        loop {
            match from.read_exact(&mut record) {
                Ok(()) => trace.add(record),
                // Half a record: who wrote it was killed.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
                Err(error) => return Err(error.to_string()),
            }
        }
        trace.records.sort_by_key(at_ns);
        Ok(trace)
    }

    fn add(&mut self, bytes: [u8; RECORD_BYTES]) {
        match Record::parse(&bytes).map(|record| record.what) {
            None => self.strange += 1,
            Some(What::End) => self.is_whole = true,
            Some(_) => self.records.push(bytes),
        }
    }
}

/// The field that each record begins with.
fn at_ns(record: &[u8; RECORD_BYTES]) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *record;
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

#[derive(Debug, thiserror::Error)]
#[error("cannot read {}: {why}", path.display())]
pub struct ReadError {
    pub path: PathBuf,
    pub why: String,
}

/// Reads a trace file.
///
/// # Errors
/// It is not there, cannot be read, or is no trace.
pub fn read(path: &Path) -> Result<Trace, ReadError> {
    let failed = |why| ReadError {
        path: path.to_owned(),
        why,
    };
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    Trace::read(io::BufReader::with_capacity(1 << 20, file)).map_err(failed)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record::Label;

    pub fn event(at_ns: u64, value: i64) -> Record {
        Record {
            at_ns,
            cpu: None,
            tid: 7,
            pid: 7,
            what: What::Event {
                label: Label::new("test", "value"),
                value,
            },
        }
    }

    fn written(records: &[Record], bytes_max: u64) -> (Vec<u8>, u64) {
        let mut bytes = Vec::new();
        let header = Header::of_machine(5, "Linux 7.2.13");
        let mut writer = Writer::new(&mut bytes, &header, bytes_max).unwrap();
        for record in records {
            writer.write(record).unwrap();
        }
        let unwritten = writer.finish(0, &[(Source::Programs, 0)]).unwrap();
        (bytes, unwritten)
    }

    #[test]
    fn records_come_back_in_order_of_time() {
        let (bytes, unwritten) = written(&[event(30, 3), event(10, 1), event(20, 2)], 1 << 20);
        let trace = Trace::read(&bytes[..]).unwrap();
        let values: Vec<u64> = trace.records().map(|record| record.at_ns).collect();
        assert_eq!((values, trace.span_ns()), (vec![10, 20, 30], (10, 30)));
        assert_eq!((unwritten, trace.is_whole, trace.strange), (0, true, 0));
        assert_eq!(trace.header.system, "Linux 7.2.13");
        assert!(trace.header.start_realtime_ns > 1_000_000_000);
    }

    #[test]
    fn a_full_file_counts_what_it_has_no_room_for() {
        let records: Vec<Record> = (0..20).map(|at| event(at, 0)).collect();
        let (bytes, unwritten) = written(&records, 64 * 16);
        assert_eq!(unwritten, 10);
        assert!(bytes.len() <= 64 * 16);
        let trace = Trace::read(&bytes[..]).unwrap();
        let last = trace.records().last().unwrap();
        let expected = What::Lost {
            source: Source::File,
            count: 10,
        };
        assert_eq!(
            (last.what, trace.len(), trace.is_whole),
            (expected, 11, true)
        );
    }

    #[test]
    fn a_file_that_was_cut_is_read_up_to_there() {
        let (mut bytes, _) = written(&[event(1, 1), event(2, 2)], 1 << 20);
        bytes.truncate(128 + 64 + 63);
        let trace = Trace::read(&bytes[..]).unwrap();
        assert_eq!((trace.len(), trace.is_whole), (1, false));
    }

    #[test]
    fn what_is_no_trace_is_refused_in_words() {
        let (bytes, _) = written(&[], 1 << 20);
        let refusal = |bytes: &[u8]| Trace::read(bytes).unwrap_err();
        assert!(refusal(&bytes[..10]).contains("too short"));
        assert!(refusal(&[b'x'; 128]).contains("consort trace record"));
        let mut newer = bytes.clone();
        newer[4] = 9;
        assert!(refusal(&newer).contains("version 9"));
        let mut strange = bytes;
        strange.splice(128..128, [0xff; 64]);
        assert_eq!(Trace::read(&strange[..]).unwrap().strange, 1);
    }
}
