// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort serve`.

use std::{fmt::Write as _, fs, io::IsTerminal, path::Path};

use consort_daemon::{
    classes::FLEXIBLE,
    config::{Division, DEFAULT_PATH},
    ejection::{Mode, Restarts},
    limits::Limits,
    listen::socket_path,
    Config, End, Heir, Host, Loader, Running, ServeError,
};
use consort_kernel::{
    identity, Kept, Options, Prepared, SafeScheduler, Scheduler, Topology, TunablesChange,
};
use tracing::{info, level_filters::LevelFilter};
use tracing_subscriber::{layer::SubscriberExt, util::SubscriberInitExt};

use crate::{
    args::{LogLevel, ServeArgs},
    failure::Failure,
    status::print,
};

/// Says whether a file of classes is right, and how it divides this machine. Without a name it is the one that may be missing.
fn check(path: Option<&Path>) -> Result<(), Failure> {
    let division = Division::read(path, cpus()?)?;
    let classes = &division.classes;
    let told = match path.unwrap_or(Path::new(DEFAULT_PATH)) {
        missing if path.is_none() && !missing.exists() => {
            format!("{} is not there: defaults hold", missing.display())
        }
        read => format!("{} is right", read.display()),
    };
    let mut out = format!("{told}. Of {} CPUs:\n", classes.cpus);
    for (_, class) in classes.iter() {
        let admits = match class.admits() {
            Some(rate) => format!("rates of {rate} in sum"),
            None => "any rates".to_owned(),
        };
        // Writing into a String cannot fail.
        let _ = writeln!(
            out,
            "  {:<16} {} CPUs, admits {admits}",
            class.name,
            class.capacity()
        );
    }
    let _ = writeln!(out, "  {FLEXIBLE:<16} {} CPUs", classes.flexible());
    let limits = division.limits;
    let _ = writeln!(
        out,
        "Each user may have {} reservations, with rates of {} in sum; root keeps {} of what each class admits.",
        limits.reservations,
        limits.rate,
        division.roots_part
    );
    print(&out)
}

/// As the scheduler counts them.
fn cpus() -> Result<u32, Failure> {
    let topology = Topology::read().map_err(ServeError::from)?;
    Ok(u32::try_from(topology.shard_of_cpu.len()).unwrap_or(u32::MAX))
}

/// Serves until a signal comes, or until the kernel has ejected the scheduler for good.
pub fn serve(args: &ServeArgs) -> Result<(), Failure> {
    if let Some(path) = &args.check {
        return check(path.as_deref().or(args.classes.as_deref()));
    }
    start_log(args.log);
    // Before the machine is taken: a file that is wrong changes nothing.
    let division = Division::read(args.classes.as_deref(), cpus()?)?;
    warn_about_namespace();
    let options = Options {
        partial: args.partial,
        watchdog_ms: args.watchdog_ms,
        tunables: TunablesChange {
            granularity_ns: args.granularity.or(division.tunables.granularity_ns),
            min_slice_ns: args.min_slice.or(division.tunables.min_slice_ns),
        },
    };
    let config = Config {
        socket: socket_path(),
        limits: Limits::default(),
        classes: args.classes.clone(),
        division,
        restarts: Restarts {
            most: args.restarts,
            ..Restarts::default()
        },
        drops_privileges: true,
        replaces: args.replace,
    };
    let loader = Kernel {
        options,
        prepared: None,
    };
    match consort_daemon::serve(&config, loader)? {
        End::Replaced => {
            info!("another daemon has taken over");
            Ok(())
        }
        End::Signal(signal) => {
            info!(%signal, "scheduler unloaded; the stock scheduler is in charge");
            Ok(())
        }
        End::Ejected {
            mode: Mode::Safe,
            report,
            count,
        } => Err(Failure::GaveUp { report, count }),
        End::Ejected { report, .. } => Err(Failure::Ejected(report)),
    }
}

/// Puts schedulers in charge of this machine.
struct Kernel {
    options: Options,
    prepared: Option<Prepared>,
}

impl Loader for Kernel {
    fn load(&mut self, mode: Mode) -> Result<Box<dyn Host>, consort_kernel::Error> {
        Ok(match mode {
            Mode::Full => Box::new(Scheduler::load(self.options)?),
            Mode::Safe => Box::new(SafeScheduler::load(self.options)?),
        })
    }

    fn prepare(&mut self, running: &Running) -> Result<(), consort_kernel::Error> {
        let own = identity(&self.options);
        if own != running.identity {
            info!(
                running = running.identity,
                own, "another scheduler is in charge: it is exchanged"
            );
            // What was set at run time holds for the next one, as it does where the same scheduler goes on.
            let tunables = &mut self.options.tunables;
            *tunables = tunables.or(running.tunables);
            self.prepared = Some(Prepared::load(self.options)?);
        }
        Ok(())
    }

    fn succeed(&mut self, kept: &Kept, heir: Heir) -> Result<Box<dyn Host>, consort_kernel::Error> {
        let Heir {
            clients,
            threads,
            predecessor,
        } = heir;
        if kept.is(&identity(&self.options)) {
            let adopted = Scheduler::adopt(kept, self.options, &clients, predecessor)?;
            return Ok(Box::new(adopted));
        }
        let prepared = match self.prepared.take() {
            Some(prepared) => prepared,
            None => Prepared::load(self.options)?,
        };
        Ok(Box::new(prepared.follow(
            kept,
            &clients,
            &threads,
            predecessor,
        )?))
    }
}

fn start_log(level: LogLevel) {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    // Under systemd, events go to its journal with their fields; if they cannot, and elsewhere, they are lines of text.
    if std::env::var_os("JOURNAL_STREAM").is_some() {
        if let Ok(journal) = tracing_journald::layer() {
            let journal = journal.with_syslog_identifier("consort".to_owned());
            return tracing_subscriber::registry()
                .with(level)
                .with(journal)
                .init();
        }
    }
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        // When nobody reads the log any more, the scheduler stays.
        .log_internal_errors(false)
        .init();
}

/// The scheduler knows tasks by their numbers in the initial pid namespace; elsewhere nobody could join.
fn warn_about_namespace() {
    /// The inode that the kernel gives the initial pid namespace (`PROC_PID_INIT_INO`).
    const INITIAL: &str = "pid:[4026531836]";
    let namespace = fs::read_link("/proc/self/ns/pid");
    if namespace.is_ok_and(|name| name.as_os_str() != INITIAL) {
        tracing::warn!(
            "not in the initial pid namespace: programs will not be able to join domains; run outside the container"
        );
    }
}
