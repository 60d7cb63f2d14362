// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort serve`.

use std::{fs, io::IsTerminal};

use consort_daemon::{
    ejection::{Mode, Restarts},
    limits::Limits,
    listen::socket_path,
    Config, End, Host,
};
use consort_kernel::{Options, SafeScheduler, Scheduler, TunablesChange};
use tracing::{info, level_filters::LevelFilter};

use crate::{
    args::{LogLevel, ServeArgs},
    failure::Failure,
};

/// Serves until a signal comes, or until the kernel has ejected the scheduler for good.
pub fn serve(args: &ServeArgs) -> Result<(), Failure> {
    start_log(args.log);
    warn_about_namespace();
    let options = Options {
        partial: args.partial,
        watchdog_ms: args.watchdog_ms,
        tunables: TunablesChange {
            granularity_ns: args.granularity,
            min_slice_ns: args.min_slice,
        },
    };
    let config = Config {
        socket: socket_path(),
        limits: Limits::default(),
        classes: args.classes.clone(),
        restarts: Restarts {
            most: args.restarts,
            ..Restarts::default()
        },
    };
    let load = |mode| -> Result<Box<dyn Host>, consort_kernel::Error> {
        Ok(match mode {
            Mode::Full => Box::new(Scheduler::load(options)?),
            Mode::Safe => Box::new(SafeScheduler::load(options)?),
        })
    };
    match consort_daemon::serve(&config, load)? {
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

fn start_log(level: LogLevel) {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
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
