// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the machine did when something that a test waited for did not come: who runs, who waits, and what the scheduler
//! says of itself. A failure that comes once in a hundred runs has to tell all by itself.

use std::{collections::BTreeMap, fmt::Write, fs, process::Command, thread::sleep, time::Duration};

const TRACE: &str = "/sys/kernel/tracing";
/// For so long threads are watched.
const WATCHED: Duration = Duration::from_secs(1);

/// Nanoseconds on a CPU and waiting for one, and turns.
type Schedstat = [u64; 3];

/// Where /proc/TID/stat has the CPU, counted from the state.
const CPU_FIELD: usize = 36;

struct Thread {
    name: String,
    state: char,
    cpu: String,
    stat: Schedstat,
}

fn thread(folder: &str) -> Option<Thread> {
    let text = fs::read_to_string(format!("{folder}/stat")).ok()?;
    let (name, rest) = text.split_once('(')?.1.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let schedstat = fs::read_to_string(format!("{folder}/schedstat")).ok()?;
    let mut numbers = schedstat
        .split_whitespace()
        .filter_map(|word| word.parse().ok());
    Some(Thread {
        name: name.to_owned(),
        state: fields.first()?.chars().next()?,
        cpu: (*fields.get(CPU_FIELD)?).to_owned(),
        stat: [numbers.next()?, numbers.next()?, numbers.next()?],
    })
}

fn folders(of: &str) -> Vec<String> {
    let numbered = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        name.parse::<u32>().ok().map(|_| format!("{of}/{name}"))
    };
    let entries = fs::read_dir(of).into_iter().flatten().flatten();
    entries.filter_map(numbered).collect()
}

fn threads() -> BTreeMap<String, Thread> {
    folders("/proc")
        .iter()
        .flat_map(|process| folders(&format!("{process}/task")))
        .filter_map(|folder| thread(&folder).map(|thread| (folder, thread)))
        .collect()
}

/// Threads that ran, or that wanted to, within a second.
fn who_ran() -> String {
    let before = threads();
    sleep(WATCHED);
    let mut text = format!("threads, during {} ms:\n", WATCHED.as_millis());
    for (folder, thread) in threads() {
        let was = before.get(&folder).map_or([0; 3], |before| before.stat);
        let [ran, waited, turns] = [0, 1, 2].map(|i| thread.stat[i].saturating_sub(was[i]));
        if turns > 0 || ran > 0 || matches!(thread.state, 'R' | 'D') {
            let _ = writeln!(
                text,
                "{} {:16} {} cpu {} ran {} us waited {} us turns {turns} {}",
                folder.rsplit('/').next().unwrap_or_default(),
                thread.name,
                thread.state,
                thread.cpu,
                ran / 1000,
                waited / 1000,
                where_it_sleeps(&folder, thread.state),
            );
        }
    }
    text
}

/// The kernel's stack of a thread that cannot be interrupted.
fn where_it_sleeps(folder: &str, state: char) -> String {
    match state {
        'D' => fs::read_to_string(format!("{folder}/stack")).unwrap_or_default(),
        _ => String::new(),
    }
}

/// The kernel's account of the scheduler, with the scheduler's own words.
///
/// # Errors
/// The kernel does not write it down.
pub fn dump() -> Result<String, String> {
    if !fs::exists(format!("{TRACE}/trace")).unwrap_or(false) {
        let _ = Command::new("mount")
            .args(["-t", "tracefs", "none", TRACE])
            .status();
    }
    let event = format!("{TRACE}/events/sched_ext/sched_ext_dump/enable");
    fs::write(&event, "1")
        .and_then(|()| fs::write(format!("{TRACE}/trace"), ""))
        .and_then(|()| fs::write("/proc/sysrq-trigger", "D"))
        .map_err(|error| format!("no dump of the scheduler: {error}"))?;
    sleep(Duration::from_millis(200));
    let trace = fs::read_to_string(format!("{TRACE}/trace")).unwrap_or_default();
    let _ = fs::write(&event, "0");
    let said: Vec<&str> = trace
        .lines()
        .filter_map(|line| Some(line.split_once("sched_ext_dump: ")?.1))
        .collect();
    match said.is_empty() {
        true => Err("the kernel's dump of the scheduler is empty".to_owned()),
        false => Ok(said.join("\n")),
    }
}

pub fn diagnosis() -> String {
    let dump = dump().unwrap_or_else(|error| error);
    format!("{}the scheduler's dump:\n{dump}", who_ran())
}
