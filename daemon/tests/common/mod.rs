// SPDX-License-Identifier: MIT OR Apache-2.0
//! A host that records what it is told, processes that exist on paper, and a program that talks to a daemon.
#![allow(dead_code, unused_imports)] // Each test file uses its part.

mod host;
mod program;

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    thread::JoinHandle,
};

use consort_abi::CONSORT_HELLO;
use consort_daemon::{
    ejection::{Mode, Restarts},
    limits::Limits,
    serve, Config, End, Host, ServeError,
};
use consort_kernel::ExitReport;

pub use host::{first_thread, FakeGroup, FakeHost, FakeLoader, Promise, Record};
pub use program::{gettid, join, leave, request, Program};

/// A fresh folder, removed when it is dropped.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("consort-test-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Writes the files of a thread as /proc has them; `numbers` are its numbers, outermost namespace first. The `stat` in the
/// folder of its number is a link to its own.
pub fn write_thread(proc_root: &Path, pid: i32, numbers: &[i32], uid: u32, start: u64) {
    let tid = numbers[0];
    let folder = proc_root.join(tid.to_string());
    let folders = [
        proc_root.join(format!("{pid}/task/{tid}")),
        folder.join(format!("task/{tid}")),
        folder.clone(),
    ];
    let list: Vec<String> = numbers.iter().map(i32::to_string).collect();
    let status = format!(
        "Name:\tx\nTgid:\t{pid}\nPPid:\t1\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nNSpid:\t{}\n",
        list.join("\t")
    );
    let between = "0 ".repeat(18);
    let policy_normal = 0;
    let stat = format!("{tid} (a) b) S {between}{start} {between}{policy_normal} 0\n");
    for folder in &folders {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("status"), &status).unwrap();
        fs::write(folder.join("comm"), "x\n").unwrap();
    }
    for folder in &folders[..2] {
        fs::write(folder.join("stat"), &stat).unwrap();
    }
    let _ = symlink(format!("task/{tid}/stat"), folder.join("stat"));
}

/// A daemon in a thread, with a fake host.
pub struct Daemon {
    pub host: FakeHost,
    pub config: Config,
    thread: Option<JoinHandle<Result<End, ServeError>>>,
    _folder: Folder,
}

impl Daemon {
    pub fn start() -> Self {
        Self::with_limits(Limits::default())
    }

    pub fn with_limits(limits: Limits) -> Self {
        Self::with(limits, Folder::new())
    }

    /// A daemon whose files are in `folder`.
    pub fn in_folder(folder: Folder) -> Self {
        Self::with(Limits::default(), folder)
    }

    fn with(limits: Limits, folder: Folder) -> Self {
        let config = Config {
            socket: folder.0.join("consort.sock"),
            limits,
            classes: None,
            division: consort_daemon::config::Division::by_default(1),
            restarts: quick_restarts(),
            drops_privileges: false,
            replaces: false,
        };
        let host = FakeHost::default();
        let (of_thread, for_thread) = (config.clone(), host.clone());
        let thread = std::thread::spawn(move || serve(&of_thread, |mode| for_thread.load(mode)));
        let daemon = Daemon {
            host,
            config,
            thread: Some(thread),
            _folder: folder,
        };
        while Program::try_connect(&daemon.config.socket).is_none() {
            std::thread::yield_now();
        }
        daemon
    }

    pub fn connect(&self) -> Program {
        Program::try_connect(&self.config.socket).unwrap()
    }

    /// A program that has its page.
    pub fn hello(&self) -> Program {
        let program = self.connect();
        let reply = program.ask(&request(CONSORT_HELLO));
        assert_eq!(reply.error, 0, "{}", reply.text);
        assert!(reply.page.is_some());
        program
    }

    /// Lets the fake scheduler leave the kernel.
    pub fn eject(&self, report: ExitReport) {
        self.host.record().exit = Some(report);
    }

    /// The same, and waits until the daemon has loaded one again.
    pub fn eject_and_await(&self, report: ExitReport) {
        let loads = self.host.record().loads.len();
        self.eject(report);
        self.wait_until("loaded again", |record| record.loads.len() > loads);
        while Program::try_connect(&self.config.socket).is_none() {
            std::thread::yield_now();
        }
    }

    /// Why the daemon ended.
    pub fn end(mut self) -> Result<End, ServeError> {
        self.thread.take().unwrap().join().unwrap()
    }

    /// Lets another daemon take over.
    pub fn replace(&self) -> JoinHandle<Result<End, ServeError>> {
        let config = Config {
            replaces: true,
            ..self.config.clone()
        };
        let loader = FakeLoader(self.host.clone());
        std::thread::spawn(move || serve(&config, loader))
    }

    /// The same of one that another daemon follows: its folder stays until that one has ended, too.
    pub fn end_beside(mut self) -> Result<End, ServeError> {
        let ended = self.thread.take().unwrap().join().unwrap();
        std::mem::forget(self);
        ended
    }

    /// Waits until `done` holds; the daemon notices hang-ups and dead threads on its own time.
    pub fn wait_until(&self, what: &str, done: impl Fn(&Record) -> bool) {
        for _ in 0..10_000 {
            if done(&self.host.record()) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        panic!("never happened: {what}");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.host.unload(unloaded());
            let _ = thread.join();
        }
    }
}

/// Tests do not wait for a second.
pub fn quick_restarts() -> Restarts {
    Restarts {
        pause: std::time::Duration::from_millis(1),
        ..Restarts::default()
    }
}

pub fn stall(message: &str) -> ExitReport {
    ExitReport {
        kind: 1026,
        exit_code: 0,
        reason: "runnable task stall".to_owned(),
        message: message.to_owned(),
        dump: "CPU states".to_owned(),
    }
}

pub fn unloaded() -> ExitReport {
    ExitReport {
        kind: 64,
        exit_code: 0,
        reason: "unregistered".to_owned(),
        message: String::new(),
        dump: String::new(),
    }
}
