// SPDX-License-Identifier: MIT OR Apache-2.0
//! The daemon's life: one scheduler after the other, each with a server of its own, until somebody ends it or the
//! kernel has ejected one too many.

use std::{
    collections::BTreeSet,
    io,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    time::{Duration, Instant},
};

use consort_kernel::{Error as KernelError, ExitReport, TunablesChange};
use nix::{
    errno::Errno,
    sys::{signal::Signal, signalfd::SignalFd},
};
use tracing::{error, info, warn};

use crate::{
    adopt,
    clients::ConnectionId,
    config::Division,
    descriptors, dumps,
    ejection::{Ejections, Mode, Restarts, Step},
    estate::{client_name, Connection, Estate, LISTENER},
    handover::{HandoverError, Successor},
    limits::Limits,
    listen::Listener,
    lock::{Lock, LockError},
    notify::{begin_aside, end_aside, notify},
    peer::Processes,
    priority, privileges,
    server::{Server, Stop, Tools},
    service::{Service, Totals},
    signals,
    store::{self, Store},
    Heir, Host, Loader, Refusal,
};

/// How long a service manager may take to close what it was told to forget.
const LETTING_GO: Duration = Duration::from_secs(5);

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
    /// Take over from the daemon that runs.
    pub replaces: bool,
}

/// Why the daemon stopped serving.
#[derive(Debug)]
pub enum End {
    Signal(Signal),
    /// Another daemon has taken over.
    Replaced,
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
    #[error(transparent)]
    Handover(#[from] HandoverError),
    #[error("cannot take programs over: {0}")]
    Adopt(Refusal),
    #[error("the daemon's event loop failed: {0}")]
    Loop(#[from] Errno),
}

/// Takes the lock, puts a scheduler in charge, and serves until a signal (TERM or INT; HUP lets it read the file again),
/// or until another daemon takes over. A scheduler that a daemon before has left is taken over, and with
/// [`Config::replaces`] that of a daemon that runs. When the kernel ejects the scheduler, another one is loaded as
/// [`crate::ejection`] has it. The scheduler is unloaded when this returns, unless another daemon has it.
///
/// # Errors
/// When another daemon runs, the scheduler cannot be loaded, or the socket cannot be made.
pub fn serve(config: &Config, mut loader: impl Loader) -> Result<End, ServeError> {
    descriptors::raise_limit();
    let (mut estate, successor) = inherit(config, &mut loader)?;
    let lock = match estate.lock.take() {
        Some(file) => Lock::inherit(file, &config.socket)?,
        None if estate.listener.is_some() => Lock::take_with_listener(&config.socket)?,
        None => Lock::take(&config.socket)?,
    };
    // Before loading: a signal that comes while loading must unload, too.
    let signals = signals::blocked()?;
    let mut life = Life {
        config,
        signals,
        lock,
        store: Store::of_the_manager(),
        is_stored: false,
        listener: None,
        division: config.division.clone(),
        tunables: None,
        started: Instant::now(),
        totals: Totals::default(),
        ejections: Ejections::new(config.restarts),
    };
    let mut host = life.begin(&mut estate, &mut loader)?;
    life.listener = estate.listener.take();
    let mut connections = std::mem::take(&mut estate.connections);
    let mut successor = successor;
    loop {
        let mode = host.mode();
        let taken_over = (std::mem::take(&mut connections), successor.take());
        let (step, report) = match life.serve_one(host, taken_over)? {
            Stop::Signal(signal) => return Ok(End::Signal(signal)),
            Stop::Replaced => return Ok(End::Replaced),
            Stop::Exited(report) => (life.eject(mode, &report), report),
            Stop::Detached(report) => (life.replaced_in_vain(mode), report),
        };
        host = match step {
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
                let host = load_again(mode, &mut loader)?;
                life.read_again(host.cpus());
                host
            }
        }
    }
}

/// What there is to be taken over: of a daemon that runs, or of one that has ended.
fn inherit(
    config: &Config,
    loader: &mut impl Loader,
) -> Result<(Estate, Option<Successor>), ServeError> {
    let left = Estate::of(store::inherited());
    if !config.replaces {
        return Ok((left, None));
    }
    let successor = Successor::connect(&config.socket)?;
    loader.prepare(&successor.running)?;
    let mut estate = successor.take_over()?;
    // A unit's own socket is better than that of a daemon which goes.
    estate.listener = left.listener.or(estate.listener);
    Ok((estate, Some(successor)))
}

/// Safe mode asks less of the kernel, which may be short of memory now.
fn load_again(mode: Mode, loader: &mut impl Loader) -> Result<Box<dyn Host>, KernelError> {
    match loader.load(mode) {
        Err(error @ KernelError::Busy { .. }) => Err(error),
        Err(error) if mode == Mode::Full => {
            warn!(%error, "the scheduler cannot be loaded again: safe mode instead");
            loader.load(Mode::Safe)
        }
        loaded => loaded,
    }
}

/// What outlasts a scheduler.
struct Life<'a> {
    config: &'a Config,
    signals: SignalFd,
    lock: Lock,
    store: Store,
    /// The store has this scheduler's descriptors.
    is_stored: bool,
    /// Of the service manager's, or of the daemon before: and whether its file goes with the daemon.
    listener: Option<(OwnedFd, bool)>,
    division: Division,
    /// Of the last full scheduler: what was set at run time holds until the daemon ends.
    tunables: Option<TunablesChange>,
    started: Instant,
    totals: Totals,
    ejections: Ejections,
}

/// Programs of another daemon's, and that daemon if it waits for a word.
type TakenOver = (Vec<Connection>, Option<Successor>);

impl Life<'_> {
    /// Puts a scheduler in charge: takes over the one that was left, if there is one.
    fn begin(
        &mut self,
        estate: &mut Estate,
        loader: &mut impl Loader,
    ) -> Result<Box<dyn Host>, KernelError> {
        let Some(kept) = estate.scheduler.take() else {
            return loader.load(Mode::Full);
        };
        let heir = Heir {
            clients: estate
                .connections
                .iter()
                .filter_map(|one| one.client)
                .collect(),
            threads: adopt::threads_of(&estate.connections),
            predecessor: estate.predecessor.take(),
        };
        let is_of_the_dead = heir.predecessor.is_none();
        let descriptors: BTreeSet<String> = kept.names().into_iter().collect();
        match loader.succeed(&kept, heir) {
            Ok(host) => {
                let names: BTreeSet<String> = host
                    .descriptors()
                    .into_iter()
                    .map(|(name, _)| name)
                    .collect();
                self.is_stored = is_of_the_dead && names == descriptors;
                if is_of_the_dead && !self.is_stored {
                    descriptors.iter().for_each(|name| self.store.forget(name));
                }
                Ok(host)
            }
            // It falls to nobody: everything begins anew.
            Err(error) if is_of_the_dead => {
                warn!("the scheduler that was left cannot be taken over: {error}. Another one is loaded");
                let connections = estate.connections.drain(..).filter_map(|one| one.client);
                connections.for_each(|client| self.store.forget(&client_name(client)));
                descriptors.iter().for_each(|name| self.store.forget(name));
                drop(kept);
                self.await_free();
                loader.load(Mode::Full)
            }
            Err(error) => Err(error),
        }
    }

    /// Until the service manager has let the scheduler go.
    fn await_free(&self) {
        let until = Instant::now() + LETTING_GO;
        while consort_kernel::attached_scheduler().is_some() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Where programs connect.
    fn listen(&self) -> io::Result<Listener> {
        let socket = &self.config.socket;
        match &self.listener {
            Some((inherited, is_own)) if !is_own || socket.exists() => {
                Listener::adopt(inherited.try_clone()?)
            }
            _ => {
                let listener = Listener::bind(socket)?;
                self.store.keep(LISTENER, listener.as_fd());
                Ok(listener)
            }
        }
    }

    /// What earlier daemons left: reservations, programs, groups; returns the connections that are listened to from now on.
    fn take_up(
        &mut self,
        service: &mut Service,
        connections: Vec<Connection>,
    ) -> Result<Vec<(ConnectionId, OwnedFd)>, ServeError> {
        let (journal, groups) = (
            self.config.socket.with_extension("journal"),
            self.config.socket.with_extension("groups"),
        );
        let left: BTreeSet<u32> = connections.iter().filter_map(|one| one.client).collect();
        let mode = service.host.mode();
        // In safe mode the journal stays as it is: the next full scheduler takes its reservations up.
        if mode == Mode::Full {
            let threads = adopt::threads_of(&connections);
            let ended = service.end_groups_left(&groups, &left, &threads);
            ended.map_err(ServeError::Kernel)?;
            let opened = service.open_reservations(self.division.clone(), &journal);
            opened.map_err(|source| ServeError::Journal {
                path: journal,
                source,
            })?;
            service.set_again(self.tunables);
        }
        let adopted = service.adopt_programs(connections, Instant::now());
        let connections = adopted.map_err(ServeError::Adopt)?;
        let numbers = connections.iter().map(|(id, _)| service.number_at(*id));
        let here: BTreeSet<u32> = numbers.flatten().collect();
        // Their numbers may soon be others'.
        let gone = left.difference(&here);
        gone.for_each(|client| self.store.forget(&client_name(*client)));
        if mode == Mode::Full {
            service.open_groups(&groups);
        }
        Ok(connections)
    }

    /// Serves programs until the scheduler or the daemon shall end; unloads the scheduler.
    fn serve_one(
        &mut self,
        host: Box<dyn Host>,
        (connections, successor): TakenOver,
    ) -> Result<Stop, ServeError> {
        let socket = &self.config.socket;
        let listener = self.listen().map_err(|source| ServeError::Listen {
            path: socket.clone(),
            source,
        })?;
        let mode = host.mode();
        let mut service = Service::new(host, Processes::default(), self.config.limits);
        service.started = self.started;
        service.set_file(self.config.classes.clone());
        service.totals = self.totals;
        service.ejections = self.ejections.clone();
        let connections = self.take_up(&mut service, connections)?;
        if self.config.drops_privileges {
            privileges::drop_most();
        }
        begin_aside();
        service.host.begin()?;
        self.store_scheduler(&service, &connections);
        let tools = Tools {
            signals: &self.signals,
            lock: &self.lock,
            store: &self.store,
            pause: self.config.limits.pause,
        };
        let mut server = Server::new(service, listener, connections, tools)?;
        if let Some(successor) = successor {
            successor.taken()?;
            if let Err(error) = self.lock.sign() {
                warn!(%error, "the lock file names the daemon before");
            }
        }
        if let Some((_, true)) = self.listener {
            server.listener.own(socket);
        }
        if let Err(error) = server.listener.sign() {
            warn!(%error, "who asks which process serves is told of the one that made the socket");
        }
        // Only now: what was done up to here, nobody waits for.
        priority::raise();
        info!(socket = %socket.display(), "serving");
        notify(match mode {
            Mode::Full => "READY=1\nSTATUS=serving",
            Mode::Safe => "READY=1\nSTATUS=safe mode: fair shares only",
        });
        let stop = server.run()?;
        self.totals = server.service.totals;
        match stop {
            Stop::Signal(_) if self.store.is_there() => {
                // The next daemon finds the socket in the store, and programs find its file.
                server.listener.hand_on();
                notify("STOPPING=1");
            }
            Stop::Signal(_) | Stop::Replaced => notify("STOPPING=1"),
            Stop::Exited(_) | Stop::Detached(_) => {
                self.tunables = server.service.tunables_set().or(self.tunables);
                server.close_all();
                if server.listener.is_own() {
                    self.listener = None;
                    self.store.forget(LISTENER);
                }
                let gone = server.service.host.descriptors().into_iter();
                gone.for_each(|(name, _)| self.store.forget(&name));
                self.is_stored = false;
            }
        }
        end_aside();
        Ok(stop)
    }

    /// Lets the service manager keep what the next daemon needs if this one is killed.
    fn store_scheduler(&mut self, service: &Service, connections: &[(ConnectionId, OwnedFd)]) {
        if std::mem::replace(&mut self.is_stored, true) {
            return;
        }
        for (name, descriptor) in service.host.descriptors() {
            self.store.keep(&name, descriptor);
        }
        for (id, socket) in connections {
            if let Some(number) = service.number_at(*id) {
                self.store
                    .keep_connection(&client_name(number), socket.as_fd());
            }
        }
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
        match report.wants_room() {
            true => info!(
                details = report.message,
                "the scheduler makes room for more CPUs: everything runs under the stock scheduler until then"
            ),
            false => error!(
                reason = report.reason,
                details = report.message,
                kind = report.kind,
                dump = dump.as_deref().map(tracing::field::debug),
                ?mode,
                "the kernel ejected the scheduler: everything runs under the stock scheduler now"
            ),
        }
        let step = self.ejections.note(Instant::now(), mode, report, dump);
        if step == Step::End {
            let reason = &report.reason;
            notify(&format!(
                "STOPPING=1\nSTATUS=the scheduler was ejected: {reason}"
            ));
        }
        step
    }

    /// Another daemon has detached the scheduler, and has ended before its own was in charge.
    fn replaced_in_vain(&self, mode: Mode) -> Step {
        warn!("the scheduler has gone with a daemon that did not take over");
        // That one's may be about to go.
        self.await_free();
        let after = Duration::ZERO;
        Step::Load { mode, after }
    }

    /// Waits for so long, or until a signal ends the daemon; the file is read again after it anyway.
    fn pause(&self, after: Duration) -> Result<Option<Signal>, Errno> {
        let until = Instant::now() + after;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match signals::wait(&self.signals, left)? {
                Some(sent) if sent.signal == Signal::SIGHUP => {}
                outcome => return Ok(outcome.map(|sent| sent.signal)),
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
            Mode::Full if after.is_zero() => {
                notify("STATUS=the scheduler is loaded again");
                return;
            }
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
