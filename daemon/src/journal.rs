// SPDX-License-Identifier: MIT OR Apache-2.0
//! The journal: what was admitted, so that it is again after the daemon has been killed.
//!
//! One JSON text a line, appended and written through before a program is told that it has a reservation. A line
//! without its end was never acknowledged, and counts for nothing. The first line has the version of the form. A line
//! that cannot be read, be it a later version's, counts for nothing either, and costs no other line: the whole file is
//! then kept aside for whoever wants to look. It lies beside the socket, in a folder that a reboot empties, as it does
//! processes.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use tracing::warn;

use crate::{
    admission::Range,
    classes::Classes,
    credits::{Credit, Credits},
    targets::Target,
};

/// Rises when entries change their meaning. Version 1 had no line that said so, and `Credits` instead of `Lent`.
const VERSION: u32 = 2;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Entry {
    /// The first one.
    Journal {
        version: u32,
    },
    /// The same number again replaces what was reserved.
    Reserve {
        number: u32,
        uid: u32,
        class: String,
        /// Millionths of one CPU.
        rate: u64,
        #[serde(default)]
        auto: Option<Range>,
        period_ns: u64,
        target: Target,
        /// When it began, in clock ticks after boot: children from before have no part in it.
        #[serde(default)]
        since: u64,
        /// For a cgroup: the Unix groups of who has asked, those that had limits.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        groups: Vec<u32>,
    },
    Release {
        number: u32,
    },
    /// All that is lent, by whom and to whom; in version 1.
    Credits {
        credits: Credits,
    },
    /// Credits that are other ones now; a rate of 0: that one has gone.
    Lent {
        changes: Vec<Credit>,
    },
    /// The machine was divided otherwise than `file` says; forgotten when the file has changed.
    Classes {
        file: Classes,
        now: Classes,
    },
}

/// Lines that say nothing new are tolerated until there are so many, or so many bytes.
const STALE_LINES_MAX: usize = 10_000;
const STALE_BYTES_MAX: u64 = 4 << 20;
/// More than an entry takes that holds.
const ENTRY_BYTES: u64 = 4096;

#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    length: u64,
    lines: usize,
}

impl Journal {
    /// Reads what an earlier daemon left; [`Journal::rewrite`] then says what still holds. What cannot be read is kept
    /// aside. What can be read counts, also where nothing more can be written: on a disk that is full or read-only.
    pub fn open(path: &Path) -> (Vec<Entry>, io::Result<Journal>) {
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return (Vec::new(), Err(error)),
        };
        let (entries, unknown) = parse(&text);
        if unknown > 0 {
            keep_aside(path, unknown);
        }
        let journal = Journal::go_on(path, &text, entries.len());
        (entries, journal)
    }

    /// A journal that says `text`, to be appended to.
    fn go_on(path: &Path, text: &[u8], lines: usize) -> io::Result<Journal> {
        let length = whole_lines(text).len() as u64;
        let mut journal = Journal {
            path: path.to_owned(),
            file: open_own(path, text)?,
            length,
            lines,
        };
        if length < text.len() as u64 {
            // A line without its end would swallow the next one. To cut it off takes no room.
            journal.file.set_len(length)?;
        }
        if length == 0 {
            journal.append(&Entry::Journal { version: VERSION })?;
        }
        Ok(journal)
    }

    /// Appends an entry, and returns when it will survive.
    ///
    /// # Errors
    /// When the file cannot be written; it then says what it said before.
    pub fn append(&mut self, entry: &Entry) -> io::Result<()> {
        let line = line(entry)?;
        let written = self
            .file
            .write_all(&line)
            .and_then(|()| self.file.sync_data());
        match written {
            Ok(()) => {
                self.length += line.len() as u64;
                self.lines += 1;
                Ok(())
            }
            Err(error) => {
                self.file.set_len(self.length)?;
                Err(error)
            }
        }
    }

    /// Whether most of it may be out of date, with so many entries still holding.
    pub fn is_stale(&self, holding: usize) -> bool {
        self.lines > STALE_LINES_MAX + 2 * holding
            || self.length > STALE_BYTES_MAX + ENTRY_BYTES * holding as u64
    }

    /// Replaces the whole journal at once, or not at all.
    ///
    /// # Errors
    /// When a new file cannot be written or put in the old one's place; when it is there, and may not survive the machine.
    pub fn rewrite(&mut self, entries: &[Entry]) -> io::Result<()> {
        let path = self.path.with_extension("journal.new");
        let mut options = OpenOptions::new();
        options.create(true).append(true).mode(0o600);
        let mut file = options.open(&path)?;
        file.set_len(0)?;
        let mut text = line(&Entry::Journal { version: VERSION })?;
        for entry in entries
            .iter()
            .filter(|entry| !matches!(entry, Entry::Journal { .. }))
        {
            text.append(&mut line(entry)?);
        }
        let written = file.write_all(&text).and_then(|()| file.sync_data());
        if let Err(error) = written {
            // On a full disk others need the room.
            let _ = file.set_len(0);
            return Err(error);
        }
        fs::rename(&path, &self.path)?;
        // From here on this is the journal, whatever else fails: the file before has no name any more.
        self.file = file;
        (self.length, self.lines) = (text.len() as u64, entries.len());
        match self.path.parent().filter(|folder| folder.is_dir()) {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    }
}

/// Opens the journal. One that is another user's, such as root's who has started a daemon by hand, is copied.
fn open_own(path: &Path, text: &[u8]) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(0o600);
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
        opened => return opened,
    }
    let new = path.with_extension("journal.new");
    let mut file = options.open(&new)?;
    file.set_len(0)?;
    file.write_all(text)?;
    fs::rename(&new, path)?;
    Ok(file)
}

fn line(entry: &Entry) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(entry)?;
    line.push(b'\n');
    Ok(line)
}

/// Without a last line that has no end.
fn whole_lines(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| *byte == b'\n');
    &text[..end.map_or(0, |end| end + 1)]
}

/// The whole lines that can be read, and how many could not.
fn parse(text: &[u8]) -> (Vec<Entry>, usize) {
    let lines = whole_lines(text).split_inclusive(|byte| *byte == b'\n');
    let read = lines.map(|line| serde_json::from_slice(line).ok());
    let (known, unknown): (Vec<_>, Vec<_>) = read.partition(Option::is_some);
    let known: Vec<Entry> = known.into_iter().flatten().collect();
    let version = known.iter().find_map(|entry| match entry {
        Entry::Journal { version } => Some(*version),
        _ => None,
    });
    if let Some(version) = version.filter(|version| *version > VERSION) {
        warn!(
            version,
            own = VERSION,
            "the journal is a later version's: what is known of it is taken up"
        );
        return (known, unknown.len().max(1));
    }
    (known, unknown.len())
}

/// A copy of the journal for its operator. Without it, what could be read is taken up all the same.
fn keep_aside(path: &Path, unknown: usize) {
    let copy = path.with_extension("journal.bad");
    match fs::copy(path, &copy) {
        Ok(_) => {
            warn!(unknown, copy = %copy.display(), "lines of the journal cannot be read: a copy is kept")
        }
        Err(error) => {
            warn!(unknown, %error, "lines of the journal cannot be read, and it cannot be copied")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// In memory where that is possible: each step is written through.
    fn path(name: &str) -> PathBuf {
        let memory = PathBuf::from("/dev/shm");
        let folder = match memory.is_dir() {
            true => memory,
            false => std::env::temp_dir(),
        };
        folder.join(format!("consort-journal-{name}-{}", std::process::id()))
    }

    /// Its entries, without the first one.
    fn said(path: &Path) -> Vec<Entry> {
        let (entries, _) = Journal::open(path);
        let said = entries.into_iter();
        said.filter(|entry| !matches!(entry, Entry::Journal { .. }))
            .collect()
    }

    fn reserve(number: u32) -> Entry {
        Entry::Reserve {
            number,
            uid: 1000,
            class: "guaranteed".to_owned(),
            rate: 300_000,
            auto: None,
            period_ns: 33_000_000,
            target: Target::Process { pid: 7, start: 99 },
            since: 7,
            groups: Vec::new(),
        }
    }

    /// Killed in the middle of any write: every line that was acknowledged is there, and a further one follows it.
    #[test]
    fn a_line_that_was_cut_off_counts_for_nothing() {
        let path = path("cut");
        let classes = Classes::by_default(2);
        let all = [
            reserve(1),
            Entry::Classes {
                file: classes.clone(),
                now: classes.without(1),
            },
            Entry::Release { number: 1 },
            reserve(2),
        ];
        let bytes: Vec<u8> = all.iter().flat_map(|entry| line(entry).unwrap()).collect();
        let mut acknowledged = 0;
        for cut in 0..=bytes.len() {
            if cut > 0 && bytes[cut - 1] == b'\n' {
                acknowledged += 1;
            }
            fs::write(&path, &bytes[..cut]).unwrap();
            let (entries, journal) = Journal::open(&path);
            assert_eq!(entries, all[..acknowledged], "cut at {cut}");
            journal.unwrap().append(&reserve(9)).unwrap();
            assert_eq!(
                said(&path)[..acknowledged],
                all[..acknowledged],
                "cut at {cut}"
            );
            assert_eq!(said(&path)[acknowledged..], [reserve(9)], "cut at {cut}");
        }
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn rewriting_keeps_what_holds() {
        let path = path("rewrite");
        let _ = fs::remove_file(&path);
        let (entries, journal) = Journal::open(&path);
        let mut journal = journal.unwrap();
        assert_eq!(entries, []);
        assert_eq!(said(&path), []);
        for number in 0..20 {
            journal.append(&reserve(number)).unwrap();
        }
        assert!(!journal.is_stale(0));
        journal.rewrite(&[reserve(3)]).unwrap();
        journal.append(&Entry::Release { number: 3 }).unwrap();
        assert_eq!(said(&path), [reserve(3), Entry::Release { number: 3 }]);
        fs::remove_file(&path).unwrap();
    }

    /// A daemon may be out of descriptors when it wants to open the folder, to write the name through; here it may not read it.
    #[test]
    fn what_follows_a_new_journal_is_in_it_whatever_failed() {
        let folder = path("unreadable");
        fs::create_dir(&folder).unwrap();
        let path = folder.join("consort.journal");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o333)).unwrap();
        // As a user who is nobody special, for this thread alone.
        let appended = std::thread::spawn(move || {
            // SAFETY: plain system calls; not the C library's, which are for all threads.
            let is_plain = unsafe {
                libc::geteuid() != 0
                    || libc::syscall(libc::SYS_setresuid, 65_533, 65_533, 65_533) == 0
            };
            assert!(is_plain);
            let mut journal = Journal::open(&path).1.unwrap();
            let rewritten = journal.rewrite(&[reserve(1)]);
            assert_eq!(
                rewritten.unwrap_err().kind(),
                io::ErrorKind::PermissionDenied
            );
            journal.append(&reserve(2)).unwrap();
            said(&path)
        });
        let appended = appended.join();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(appended.unwrap(), [reserve(1), reserve(2)]);
    }

    /// A line of a later version, and one that was damaged: the others hold, and the file is kept aside.
    #[test]
    fn an_unknown_line_drops_no_other() {
        let path = path("unknown");
        let copy = path.with_extension("journal.bad");
        let lines = [
            line(&Entry::Journal {
                version: VERSION + 1,
            })
            .unwrap(),
            line(&reserve(1)).unwrap(),
            b"{\"op\":\"forbid\",\"number\":1}\n".to_vec(),
            b"\xff\x00\n".to_vec(),
            line(&reserve(2)).unwrap(),
        ];
        fs::write(&path, lines.concat()).unwrap();
        assert_eq!(said(&path), [reserve(1), reserve(2)]);
        assert_eq!(fs::read(&copy).unwrap(), lines.concat());
        fs::remove_file(&path).unwrap();
        fs::remove_file(&copy).unwrap();
    }

    #[test]
    fn many_bytes_are_stale_as_many_lines_are() {
        let path = path("bytes");
        let _ = fs::remove_file(&path);
        let mut journal = Journal::open(&path).1.unwrap();
        journal.length = STALE_BYTES_MAX + 1;
        assert!(journal.is_stale(0) && !journal.is_stale(1));
        fs::remove_file(&path).unwrap();
    }
}
