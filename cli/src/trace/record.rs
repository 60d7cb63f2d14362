// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort trace record`.

use std::{
    env,
    fs::File,
    io::{self, BufWriter, Write},
    os::unix::{
        fs::{fchown, MetadataExt, OpenOptionsExt},
        process::ExitStatusExt,
    },
    path::Path,
    process::{Child, ExitCode},
    sync::atomic::{AtomicI32, Ordering},
    thread::sleep,
    time::{Duration, Instant},
};

use super::{args::RecordArgs, names};
use crate::{
    failure::Failure,
    run::{command_of, failed_to_run},
    table::count,
};
use consort_kernel::{attached_scheduler, kernel_release, trace::Recording, Error as KernelError};
use consort_trace::{Header, Kind, Kinds, Rings, Source, Writer, RINGS_VARIABLE};
use nix::{
    sys::signal::{kill, sigaction, SaFlags, SigAction, SigHandler, SigSet, Signal},
    sys::time::TimeValLike,
    time::{clock_gettime, ClockId},
    unistd::{geteuid, Pid},
};

/// Between two looks into the rings: they hold what is written in seconds.
const LOOK: Duration = Duration::from_millis(20);
/// Between two looks for rings of programs that were killed, in looks.
const RECLAIM_LOOKS: u64 = 50;
const BUFFER_BYTES: usize = 1 << 20;

/// The last signal that asked for the end; 0: none has.
static ASKED_BY: AtomicI32 = AtomicI32::new(0);

/// Asked to end more often than that, the recorder does not wait for the command.
const ASKED_MOST: u32 = 2;

extern "C" fn ask(signal: libc::c_int) {
    ASKED_BY.store(signal, Ordering::Relaxed);
}

/// Records, and returns what the command exited with.
pub fn record(args: &RecordArgs) -> Result<ExitCode, Failure> {
    let mut recorder = Recorder::start(args)?;
    catch_signals()?;
    let mut child = match args.command.is_empty() {
        true => None,
        false => Some(recorder.start_command(args)?),
    };
    let status = recorder.watch(args, child.as_mut());
    // Whatever became of the recorder, the command is not left alone.
    let status = match (status, child) {
        (Ok(status), _) => status,
        (Err(failure), child) => {
            // Nobody records any more: programs need not try.
            drop(recorder);
            if let Some(mut child) = child {
                while let Ok(None) = child.try_wait() {
                    pass_on(ASKED_BY.swap(0, Ordering::Relaxed), &child);
                    sleep(LOOK);
                }
            }
            return Err(failure);
        }
    };
    recorder.finish(args)?;
    Ok(ExitCode::from(status))
}

fn catch_signals() -> Result<(), Failure> {
    let action = SigAction::new(SigHandler::Handler(ask), SaFlags::empty(), SigSet::empty());
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        // SAFETY: the handler stores a number, and nothing else.
        let caught = unsafe { sigaction(signal, &action) };
        caught.map_err(|errno| Failure::Record(io::Error::from(errno)))?;
    }
    Ok(())
}

struct Recorder {
    kernel: Option<Recording>,
    rings: Option<Rings>,
    writer: Writer<BufWriter<File>>,
    written: u64,
    began: Instant,
}

impl Recorder {
    fn start(args: &RecordArgs) -> Result<Recorder, Failure> {
        let kinds = args.only;
        let wants_programs = kinds.of_programs() && !args.command.is_empty();
        let start_ns = now_ns();
        let header = Header::of_machine(start_ns, &system());
        if kinds.of_scheduler() == 0 && !wants_programs {
            return Err(Failure::NothingToRecord);
        }
        // First what may be refused: the file of another trace is not touched in vain.
        let kernel = match kinds.of_scheduler() {
            0 => None,
            _ => Some(Recording::start(kinds).map_err(|error| match error {
                KernelError::NotPermitted if !args.command.is_empty() => Failure::RecordNeedsRoot,
                error => error.into(),
            })?),
        };
        let rings = match wants_programs {
            true => Some(Rings::new(start_ns).map_err(Failure::Record)?),
            false => None,
        };
        let file = open(&args.output).and_then(|file| {
            let to = BufWriter::with_capacity(BUFFER_BYTES, file);
            Writer::new(to, &header, args.limit << 20)
        });
        Ok(Recorder {
            kernel,
            rings,
            writer: file.map_err(writing(args))?,
            written: 0,
            began: Instant::now(),
        })
    }

    fn start_command(&self, args: &RecordArgs) -> Result<Child, Failure> {
        let mut command = command_of(&args.command)?;
        match &self.rings {
            Some(rings) => command.env(RINGS_VARIABLE, rings.variable()),
            // That of a recorder which records this one.
            None => command.env_remove(RINGS_VARIABLE),
        };
        let spawned = command.spawn();
        spawned.map_err(|source| failed_to_run(&command, source))
    }

    /// Until the command ends, or the time is over, or somebody asks for the end. What to exit with.
    fn watch(&mut self, args: &RecordArgs, mut child: Option<&mut Child>) -> Result<u8, Failure> {
        let end = args.time.map(|ns| self.began + Duration::from_nanos(ns));
        let (mut looks, mut asked) = (0, 0);
        loop {
            self.look(args)?;
            looks += 1;
            if let (Some(rings), 0) = (&mut self.rings, looks % RECLAIM_LOOKS) {
                rings.reclaim();
            }
            let asked_by = ASKED_BY.swap(0, Ordering::Relaxed);
            match &mut child {
                Some(child) => {
                    pass_on(asked_by, child);
                    asked += u32::from(asked_by != 0);
                    // It does not hear: the trace ends without it.
                    if asked > ASKED_MOST {
                        return Ok(128u8.saturating_add(asked_by as u8));
                    }
                    if let Some(status) = child.try_wait().map_err(Failure::Record)? {
                        return Ok(exit_code(status));
                    }
                }
                None if asked_by != 0 => return Ok(0),
                None => {}
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            match left {
                Some(Duration::ZERO) => return Ok(0),
                Some(left) => sleep(left.min(LOOK)),
                None => sleep(LOOK),
            }
        }
    }

    /// Writes what has come since the last time.
    fn look(&mut self, args: &RecordArgs) -> Result<(), Failure> {
        let (writer, written) = (&mut self.writer, &mut self.written);
        let mut failed = None;
        let mut take = |record: &[u8; 64]| {
            *written += 1;
            if let Err(error) = writer.write_bytes(record) {
                failed.get_or_insert(error);
            }
        };
        if let Some(kernel) = &self.kernel {
            kernel.drain(&mut take)?;
        }
        if let Some(rings) = &mut self.rings {
            let kinds = args.only;
            rings.drain(now_ns, |record| {
                if is_wanted(kinds, record) {
                    take(record);
                }
            });
        }
        failed.map_or(Ok(()), |error| Err(writing(args)(error)))
    }

    /// What is still in the rings, and what is missing; says how it went.
    fn finish(mut self, args: &RecordArgs) -> Result<(), Failure> {
        if self.kernel.is_some() && args.only.has(Kind::Interval) {
            for record in names::records(now_ns()) {
                self.writer.write(&record).map_err(writing(args))?;
            }
            // The daemon has had the scheduler look at all intervals; that is told when the daemon's CPU switches, or ticks.
            sleep(LOOK);
        }
        self.look(args)?;
        let seen = self
            .kernel
            .as_ref()
            .map(Recording::seen)
            .unwrap_or_default();
        let of_programs = self.rings.as_ref().map_or(0, Rings::lost);
        let lost = [
            (Source::Scheduler, seen.unrecorded),
            (Source::Programs, of_programs),
        ];
        let finished = self.writer.finish(now_ns(), &lost);
        let of_file = finished.map_err(writing(args))?;
        let all = [seen.unrecorded, of_programs, of_file];
        let lost = all.iter().fold(0u64, |sum, it| sum.saturating_add(*it));
        let (records, path) = (
            count(self.written - of_file, "record"),
            args.output.display(),
        );
        // The trace says it, too.
        let _ = writeln!(io::stderr(), "consort: {records} in {path}, {lost} lost");
        Ok(())
    }
}

/// A trace tells what everybody on the machine does: it is the caller's alone, also where sudo made that root. In somebody
/// else's folder a link may lead anywhere, and a file be read and written by whoever made it.
fn open(path: &Path) -> io::Result<File> {
    let of_sudo = |name| env::var(name).ok()?.parse::<u32>().ok();
    let caller = match (geteuid().is_root(), of_sudo("SUDO_UID")) {
        (true, Some(uid)) => Some((uid, of_sudo("SUDO_GID"))),
        _ => None,
    };
    let mut options = File::options();
    options.write(true).create(true).mode(0o600);
    let file = options.custom_flags(libc::O_NOFOLLOW).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Ok(file);
    }
    let is_own = found.uid() == geteuid().as_raw();
    if !is_own && caller.is_none_or(|(uid, _)| uid != found.uid()) {
        return Err(io::Error::other("the file is another user's"));
    }
    if let (true, Some((uid, gid))) = (is_own, caller) {
        fchown(&file, Some(uid), gid)?;
    }
    file.set_len(0)?;
    Ok(file)
}

/// A terminal's Ctrl-C reaches the command by itself, and what is sent to the recorder alone is passed on.
fn pass_on(asked_by: i32, child: &Child) {
    if asked_by == libc::SIGTERM {
        // It may have ended meanwhile.
        let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
    }
}

/// As shells do.
fn exit_code(status: std::process::ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Of a program's records, which all are due events or events of its own.
fn is_wanted(kinds: Kinds, record: &[u8; 64]) -> bool {
    consort_trace::Record::parse(record).is_some_and(|record| kinds.keeps(&record.what))
}

fn system() -> String {
    let scheduler = attached_scheduler().unwrap_or_else(|| "stock scheduler".to_owned());
    format!("Linux {}, {scheduler}", kernel_release())
}

fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |time| time.num_nanoseconds());
    u64::try_from(time).unwrap_or_default()
}

fn writing(args: &RecordArgs) -> impl Fn(io::Error) -> Failure + '_ {
    |source| Failure::Write {
        path: args.output.clone(),
        source,
    }
}
