// SPDX-License-Identifier: GPL-2.0-only
//! Records which of the scheduler's callbacks the kernel calls, about whom, and who runs when: what the simulator's
//! model of the kernel is held to.

mod skeleton;

use std::{
    error::Error,
    mem::MaybeUninit,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    process::ExitCode,
    time::Duration,
};

use libbpf_rs::{
    query::{ProgInfoIter, ProgInfoQueryOptions},
    skel::{OpenSkel, Skel, SkelBuilder},
    OpenProgramMut, ProgramType,
};
use skeleton::{types, RecorderSkel, RecorderSkelBuilder};

const USAGE: &str = "\
Usage: consort-bench-recorder SECONDS

Records for so long which callbacks of the loaded Consort scheduler are called, and switches, a line each:
  NANOSECONDS CALLBACK TASK
  NANOSECONDS switch FROM TO       FROM is followed by + if it could have gone on
A task is what follows c: in its name, or #PID for others, or - for none.
Needs root. Says on standard error when it has begun.
";
/// The kernel keeps so much of a program's name.
const KERNEL_NAME_BYTES: usize = 15;
const NAMES: [&str; 5] = ["select_cpu", "enqueue", "dispatch", "quiescent", "switch"];
/// Of the processes that carry a scenario out: others are known by their numbers.
const PREFIX: &str = "c:";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seconds = match arguments.as_slice() {
        [seconds] => seconds.parse::<f64>().ok(),
        _ => None,
    };
    let Some(duration) = seconds.and_then(|it| Duration::try_from_secs_f64(it).ok()) else {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    };
    match record(duration) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("consort-bench-recorder: {error}");
            ExitCode::FAILURE
        }
    }
}

fn record(duration: Duration) -> Result<String, Box<dyn Error>> {
    let mut storage = MaybeUninit::uninit();
    let mut open = RecorderSkelBuilder::default().open(&mut storage)?;
    let progs = &mut open.progs;
    // The targets must stay open until the programs are loaded.
    let _targets = [
        aim(&mut progs.record_select_cpu, "consort_select_cpu")?,
        aim(&mut progs.record_enqueue, "consort_enqueue")?,
        aim(&mut progs.record_dispatch, "consort_dispatch")?,
        aim(&mut progs.record_quiescent, "consort_quiescent")?,
    ];
    let mut skeleton = open.load()?;
    skeleton.attach()?;
    eprintln!("recording");
    std::thread::sleep(duration);
    entries(&skeleton)
}

/// Has `program` run whenever the scheduler's function `name` is called.
fn aim(program: &mut OpenProgramMut<'_>, name: &str) -> Result<OwnedFd, Box<dyn Error>> {
    let target = find(name)?;
    program.set_attach_target(target.as_raw_fd(), Some(name.to_owned()))?;
    Ok(target)
}

fn find(name: &str) -> Result<OwnedFd, Box<dyn Error>> {
    let known = &name[..name.len().min(KERNEL_NAME_BYTES)];
    let mut all = ProgInfoIter::with_query_opts(ProgInfoQueryOptions::default());
    let found = all.find(|it| it.ty == ProgramType::StructOps && it.name == *known);
    let id = found
        .ok_or_else(|| format!("there is no program {name} in the kernel: is Consort loaded?"))?
        .id;
    // SAFETY: takes a number, returns a descriptor or an error.
    let fd = unsafe { libbpf_sys::bpf_prog_get_fd_by_id(id) };
    if fd < 0 {
        return Err(format!("{name}: {}", std::io::Error::last_os_error()).into());
    }
    // SAFETY: nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn entries(skeleton: &RecorderSkel<'_>) -> Result<String, Box<dyn Error>> {
    let bss = skeleton.maps.bss_data.as_deref().ok_or("no records")?;
    let count = usize::try_from(bss.nr_records)?;
    if count > bss.records.len() {
        return Err(format!("{count} records: expected at most {}", bss.records.len()).into());
    }
    Ok(bss.records[..count].iter().map(line).collect())
}

fn line(record: &types::record) -> String {
    let what = NAMES
        .get(record.what as usize)
        .copied()
        .unwrap_or("unknown");
    let (at_ns, task) = (record.at_ns, name(&record.task));
    if what != "switch" {
        return format!("{at_ns} {what} {task}\n");
    }
    let goes_on = if record.prev_state == 0 { "+" } else { "" };
    match record.prev.pid {
        0 => format!("{at_ns} switch - {task}\n"),
        _ => format!("{at_ns} switch {}{goes_on} {task}\n", name(&record.prev)),
    }
}

fn name(named: &types::named) -> String {
    let bytes = named.comm.iter().map(|byte| *byte as u8);
    let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
    let name = String::from_utf8_lossy(&bytes);
    match (name.strip_prefix(PREFIX), named.pid) {
        (Some(name), _) => name.to_owned(),
        (None, 0) => "-".to_owned(),
        (None, pid) => format!("#{pid}"),
    }
}
