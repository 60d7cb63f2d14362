// SPDX-License-Identifier: MIT OR Apache-2.0
//! The daemon's life: one scheduler after the other, each with a server of its own, until somebody ends it or the
//! kernel has ejected one too many.

use std::{
    io,
    path::PathBuf,
    time::{Duration, Instant},
};

use consort_kernel::{Error as KernelError, ExitReport};
use nix::{
    errno::Errno,
    sys::{
        resource::{getrlimit, setrlimit, Resource},
        signal::Signal,
        signalfd::SignalFd,
    },
};
use tracing::{debug, error, info, warn};

use crate::{
    config::Division,
    dumps,
    ejection::{Ejections, Mode, Restarts, Step},
    limits::Limits,
    listen::Listener,
    lock::{Lock, LockError},
    notify::notify,
    peer::Processes,
    privileges,
    server::{Server, Stop},
    service::{Service, Totals},
    signals, Host,
};

/// Descriptors for every client that the scheduler has room for, and some.
/// Two each: its connection, and its process.
const DESCRIPTORS: u64 = 16384;

#[derive(Debug, Clone)]
pub struct Config {
    pub socket: PathBuf,
    pub limits: Limits,
    /// The operator's file, which is read again on demand; `None`: the default one, if there is one.
    pub classes: Option<PathBuf>,
    /// What it says when the daemon starts.
    pub division: Division,
    pub restarts: Restarts,
    /// Give up what serving does not need.
    pub drops_privileges: bool,
}

/// Why the daemon stopped serving.
#[derive(Debug)]
pub enum End {
    Signal(Signal),
    /// The scheduler is out of the kernel; programs run under the stock scheduler.
    Ejected {
        /// The last one.
        mode: Mode,
        report: ExitReport,
        /// Since the daemon started.
        count: u64,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Kernel(#[from] KernelError),
    #[error("cannot listen at {}: {source}", path.display())]
    Listen {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot take up reservations from {}: {source}", path.display())]
    Journal {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the daemon's event loop failed: {0}")]
    Loop(#[from] Errno),
}

/// Takes the lock, loads a scheduler by calling `load`, and serves until a signal (TERM or INT;
/// HUP lets it read the file again). When the kernel ejects the scheduler, calls `load` again as [`crate::ejection`] has it. The scheduler is unloaded when this returns.
///
/// # Errors
/// When another daemon runs, the scheduler cannot be loaded, or the socket cannot be made.
pub fn serve(
    config: &Config,
    mut load: impl FnMut(Mode) -> Result<Box<dyn Host>, KernelError>,
) -> Result<End, ServeError> {
    let _lock = Lock::take(&config.socket)?;
    // Before loading: a signal that comes while loading must unload, too.
    let signals = signals::blocked()?;
    raise_descriptor_limit();
    let mut host = load(Mode::Full)?;
    let mut life = Life {
        config,
        signals,
        division: config.division.clone(),
        started: Instant::now(),
        totals: Totals::default(),
        ejections: Ejections::new(config.restarts),
    };
    loop {
        let mode = host.mode();
        let report = match life.serve_one(host)? {
            Stop::Signal(signal) => return Ok(End::Signal(signal)),
            Stop::Exited(report) => report,
        };
        host = match life.eject(mode, &report) {
            Step::End => {
                let count = life.ejections.count;
                return Ok(End::Ejected {
                    mode,
                    report,
                    count,
                });
            }
            Step::Load { mode, after } => {
                life.announce(mode, after);
                if let Some(signal) = life.pause(after)? {
                    return Ok(End::Signal(signal));
                }
                let host = load_again(mode, &mut load)?;
                life.read_again(host.cpus());
                host
            }
        }
    }
}

/// Safe mode asks less of the kernel, which may be short of memory now.
fn load_again(
    mode: Mode,
    load: &mut impl FnMut(Mode) -> Result<Box<dyn Host>, KernelError>,
) -> Result<Box<dyn Host>, KernelError> {
    match load(mode) {
        Err(error @ KernelError::Busy { .. }) => Err(error),
        Err(error) if mode == Mode::Full => {
            warn!(%error, "the scheduler cannot be loaded again: safe mode instead");
            load(Mode::Safe)
        }
        loaded => loaded,
    }
}

/// What outlasts a scheduler.
struct Life<'a> {
    config: &'a Config,
    signals: SignalFd,
    division: Division,
    started: Instant,
    totals: Totals,
    ejections: Ejections,
}

impl Life<'_> {
    /// Serves programs until the scheduler or the daemon shall end; unloads the scheduler.
    fn serve_one(&mut self, host: Box<dyn Host>) -> Result<Stop, ServeError> {
        let socket = &self.config.socket;
        let listener = Listener::open(socket).map_err(|source| ServeError::Listen {
            path: socket.clone(),
            source,
        })?;
        let mode = host.mode();
        let mut service = Service::new(host, Processes::default(), self.config.limits);
        service.started = self.started;
        service.file = self.config.classes.clone();
        service.totals = self.totals;
        service.ejections = self.ejections.clone();
        // In safe mode the journal stays as it is: the next full scheduler takes its reservations up.
        if mode == Mode::Full {
            let journal = socket.with_extension("journal");
            let opened = service.open_reservations(self.division.clone(), &journal);
            opened.map_err(|source| ServeError::Journal {
                path: journal,
                source,
            })?;
            service.open_groups(&socket.with_extension("groups"));
        }
        // Only now: what was done up to here, nobody waits for.
        raise_priority();
        if self.config.drops_privileges {
            privileges::drop_most();
        }
        let pause = self.config.limits.pause;
        let mut server = Server::new(service, listener, &self.signals, pause)?;
        info!(socket = %socket.display(), "serving");
        notify(match mode {
            Mode::Full => "READY=1\nSTATUS=serving",
            Mode::Safe => "READY=1\nSTATUS=safe mode: fair shares only",
        });
        let stop = server.run()?;
        self.totals = server.service.totals;
        if let Stop::Signal(_) = stop {
            notify("STOPPING=1");
        }
        Ok(stop)
    }

    /// Says why the scheduler has gone, keeps what the kernel said of it, and returns what to do.
    fn eject(&mut self, mode: Mode, report: &ExitReport) -> Step {
        let dump = match report.dump.is_empty() {
            true => None,
            false => dumps::keep(&self.config.socket, report)
                .inspect_err(|error| {
                    warn!(%error, "cannot keep the kernel's dump; here it is");
                    report.dump.lines().for_each(|line| error!("{line}"));
                })
                .ok(),
        };
        error!(
            reason = report.reason,
            details = report.message,
            kind = report.kind,
            dump = dump.as_deref().map(tracing::field::debug),
            ?mode,
            "the kernel ejected the scheduler: everything runs under the stock scheduler now"
        );
        let step = self.ejections.note(Instant::now(), mode, report, dump);
        if step == Step::End {
            let reason = &report.reason;
            notify(&format!(
                "STOPPING=1\nSTATUS=the scheduler was ejected: {reason}"
            ));
        }
        step
    }

    /// Waits for so long, or until a signal ends the daemon; the file is read again after it anyway.
    fn pause(&self, after: Duration) -> Result<Option<Signal>, Errno> {
        let until = Instant::now() + after;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match signals::wait(&self.signals, left)? {
                Some(Signal::SIGHUP) => {}
                outcome => return Ok(outcome),
            }
        }
    }

    /// The operator's file may have changed since the daemon started; a bad one changes nothing.
    fn read_again(&mut self, cpus: u32) {
        match Division::read(self.config.classes.as_deref(), cpus) {
            Ok(division) => self.division = division,
            Err(error) => {
                warn!(%error, "the file of classes and limits cannot be used: what it said before holds")
            }
        }
    }

    fn announce(&self, mode: Mode, after: Duration) {
        match mode {
            Mode::Full => warn!(?after, "the scheduler will be loaded again"),
            Mode::Safe => warn!(
                ?after,
                "it would be ejected again: safe mode comes instead, with fair shares, and neither domains nor \
                 reservations, until the daemon is restarted"
            ),
        }
        notify("STATUS=the scheduler was ejected, and will be loaded again");
    }
}

fn raise_descriptor_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| {
        if soft >= DESCRIPTORS {
            return Ok(());
        }
        setrlimit(Resource::RLIMIT_NOFILE, DESCRIPTORS, hard.max(DESCRIPTORS))
            .or_else(|_| setrlimit(Resource::RLIMIT_NOFILE, hard, hard))
    });
    if let Err(error) = raised {
        warn!(%error, "cannot raise the limit of open files: fewer programs can connect");
    }
}

/// Programs wait for the daemon's answers, which must not queue behind all that is runnable: it runs in a real-time
/// class, above what Consort schedules. What users can make it do is bounded by their share of its time.
fn raise_priority() {
    const NICE: libc::c_int = -10;
    let lowest = libc::sched_param { sched_priority: 1 };
    let policy = libc::SCHED_RR | libc::SCHED_RESET_ON_FORK;
    // SAFETY: 0 is this thread, and the parameters are a valid struct.
    if unsafe { libc::sched_setscheduler(0, policy, &lowest) } == 0 {
        return;
    }
    debug!(error = %io::Error::last_os_error(), "no real-time class for the daemon: a nice value instead");
    // SAFETY: 0 is this process, and no memory is involved.
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) } != 0 {
        warn!(error = %io::Error::last_os_error(), "cannot raise the daemon's priority: joining may take long under load");
    }
}
