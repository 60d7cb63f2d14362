// SPDX-License-Identifier: MIT OR Apache-2.0
//! The journal: what was admitted, so that it is again after the daemon has been killed.
//!
//! One JSON text a line, appended and written through before a program is told that it has a reservation. A line
//! without its end was never acknowledged, and counts for nothing. It lies beside the socket, in a folder that a reboot
//! empties, as it does processes.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{admission::Range, classes::Classes, credits::Credits, targets::Target};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Entry {
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
    },
    Release {
        number: u32,
    },
    /// Who has lent what, all of it.
    Credits {
        credits: Credits,
    },
    /// The machine was divided otherwise than `file` says; forgotten when the file has changed.
    Classes {
        file: Classes,
        now: Classes,
    },
}

/// Lines that say nothing new are tolerated until there are so many.
const STALE_LINES_MAX: usize = 10_000;

#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    length: u64,
    lines: usize,
}

impl Journal {
    /// Reads what an earlier daemon left, and begins anew with nothing: [`Journal::rewrite`] says what still holds.
    ///
    /// # Errors
    /// When the file cannot be read or made.
    pub fn open(path: &Path) -> io::Result<(Journal, Vec<Entry>)> {
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let entries = parse(&text);
        let mut options = OpenOptions::new();
        options.create(true).append(true).mode(0o600);
        let file = options.open(path)?;
        let mut journal = Journal {
            path: path.to_owned(),
            file,
            length: text.len() as u64,
            lines: entries.len(),
        };
        // A line without its end would swallow the next one.
        if !text.is_empty() && !text.ends_with(b"\n") {
            journal.rewrite(&entries)?;
        }
        Ok((journal, entries))
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
    }

    /// Replaces the whole journal at once, or not at all.
    ///
    /// # Errors
    /// When a new file cannot be written or put in the old one's place.
    pub fn rewrite(&mut self, entries: &[Entry]) -> io::Result<()> {
        let path = self.path.with_extension("journal.new");
        let mut options = OpenOptions::new();
        options.create(true).write(true).truncate(true).mode(0o600);
        let mut file = options.open(&path)?;
        let mut length = 0;
        for entry in entries {
            let line = line(entry)?;
            file.write_all(&line)?;
            length += line.len() as u64;
        }
        file.sync_data()?;
        fs::rename(&path, &self.path)?;
        if let Some(folder) = self.path.parent().filter(|folder| folder.is_dir()) {
            File::open(folder)?.sync_all()?;
        }
        self.file = OpenOptions::new().append(true).open(&self.path)?;
        (self.length, self.lines) = (length, entries.len());
        Ok(())
    }
}

fn line(entry: &Entry) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(entry)?;
    line.push(b'\n');
    Ok(line)
}

/// The whole lines that can be read, up to the first that cannot.
fn parse(text: &[u8]) -> Vec<Entry> {
    let Some(end) = text.iter().rposition(|byte| *byte == b'\n') else {
        return Vec::new();
    };
    let lines = text[..end].split(|byte| *byte == b'\n');
    lines
        .map_while(|line| serde_json::from_slice(line).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("consort-journal-{name}-{}", std::process::id()))
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
            let (mut journal, entries) = Journal::open(&path).unwrap();
            assert_eq!(entries, all[..acknowledged], "cut at {cut}");
            journal.append(&reserve(9)).unwrap();
            let (_, entries) = Journal::open(&path).unwrap();
            assert_eq!(entries.last(), Some(&reserve(9)), "cut at {cut}");
            assert_eq!(entries.len(), acknowledged + 1);
        }
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn rewriting_keeps_what_holds() {
        let path = path("rewrite");
        let _ = fs::remove_file(&path);
        let (mut journal, entries) = Journal::open(&path).unwrap();
        assert_eq!(entries, []);
        for number in 0..20 {
            journal.append(&reserve(number)).unwrap();
        }
        assert!(!journal.is_stale(0));
        journal.rewrite(&[reserve(3)]).unwrap();
        journal.append(&Entry::Release { number: 3 }).unwrap();
        let (_, entries) = Journal::open(&path).unwrap();
        assert_eq!(entries, [reserve(3), Entry::Release { number: 3 }]);
        fs::remove_file(&path).unwrap();
    }
}
