// SPDX-License-Identifier: MIT OR Apache-2.0
//! When an event of the kernel happened, as the kernel notes it, by CLOCK_MONOTONIC.

use consort_bench_player::error::Error;
use std::path::Path;

const TRACING: &str = "/sys/kernel/tracing";
/// Of each CPU: enough for all that an experiment asks for.
const BUFFER_KIB: &str = "16384";
const US_PER_S: u64 = 1_000_000;

/// When an event happened, and in which thread.
#[derive(Debug, PartialEq, Eq)]
pub struct Occurrence {
    pub tid: u32,
    pub at_us: u64,
}

/// The occurrences of one event, noted as long as this is there.
pub struct Events {
    event: &'static str,
}

impl Events {
    /// Notes `event` ("system/name") from now on, where the kernel's `filter` lets it pass.
    ///
    /// # Errors
    /// When there is no such event, or the kernel does not understand the filter.
    pub fn note(event: &'static str, filter: Option<&str>) -> Result<Self, Error> {
        write("trace_clock", "mono")?;
        write("buffer_size_kb", BUFFER_KIB)?;
        write("trace", "")?;
        let events = Self { event };
        if let Some(filter) = filter {
            write(&format!("events/{event}/filter"), filter)?;
        }
        write(&format!("events/{event}/enable"), "1")?;
        Ok(events)
    }

    /// All that was noted so far.
    ///
    /// # Errors
    /// When what was noted cannot be read, or was more than there is room for.
    pub fn occurrences(&self) -> Result<Vec<Occurrence>, Error> {
        let path = Path::new(TRACING).join("trace");
        let text = std::fs::read_to_string(&path)
            .map_err(|source| Error::io(format!("read {}", path.display()), source))?;
        if lost(&text) {
            return Err(Error::Usage(format!(
                "{} happened more often than {BUFFER_KIB} KiB have room for",
                self.event
            )));
        }
        let name = self.event.rsplit('/').next().unwrap_or_default();
        Ok(text
            .lines()
            .filter_map(|line| occurrence(line, name))
            .collect())
    }

    pub fn stop(&self) {
        // One that stays does no harm: the guest is about to end.
        let _ = write(&format!("events/{}/enable", self.event), "0");
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Of a head such as `# entries-in-buffer/entries-written: 2/3   #P:1`.
fn lost(text: &str) -> bool {
    let numbers = text
        .lines()
        .find_map(|line| line.strip_prefix("# entries-in-buffer/entries-written: "))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|word| word.split_once('/'));
    numbers.is_some_and(|(kept, written)| kept != written)
}

/// Of a line such as `ffplay-121 [000] DBZff 8.585712: called: (0x7fae2dfb2350)`.
fn occurrence(line: &str, name: &str) -> Option<Occurrence> {
    let before = line.split_once(&format!(": {name}: "))?.0;
    let (thread, rest) = before.split_once(" [")?;
    let (seconds, us) = rest.rsplit(' ').next()?.split_once('.')?;
    Some(Occurrence {
        tid: thread.trim_end().rsplit_once('-')?.1.parse().ok()?,
        at_us: seconds.parse::<u64>().ok()? * US_PER_S + us.parse::<u64>().ok()?,
    })
}

/// Writes a file of the kernel's tracing.
///
/// # Errors
/// When the kernel refuses.
pub fn write(file: &str, text: &str) -> Result<(), Error> {
    let path = Path::new(TRACING).join(file);
    std::fs::write(&path, text)
        .map_err(|source| Error::io(format!("write {}", path.display()), source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_where_is_read() {
        let line = "      My play-er-121     [000] DBZff     8.585712: called: (0x7fae2dfb2350)";
        let read = Occurrence {
            tid: 121,
            at_us: 8_585_712,
        };
        assert_eq!(occurrence(line, "called"), Some(read));
        assert_eq!(occurrence(line, "sched_switch"), None);
        let head = "# entries-in-buffer/entries-written: 2/2   #P:1";
        assert_eq!(occurrence(head, "called"), None);
    }

    #[test]
    fn what_was_lost_is_known() {
        let head = |numbers: &str| {
            format!("# tracer: nop\n#\n# entries-in-buffer/entries-written: {numbers}   #P:1\n")
        };
        assert!(!lost(&head("2/2")) && lost(&head("2/3")) && !lost(""));
    }
}
