// SPDX-License-Identifier: MIT OR Apache-2.0
//! A host that records what it is told, processes that exist on paper, and a program that talks to a daemon.
#![allow(dead_code)] // Each test file uses its part.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ffi::c_char,
    fs,
    io::IoSliceMut,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicU32, Ordering},
        Arc, Mutex, MutexGuard,
    },
    thread::JoinHandle,
};

use consort_abi::{
    consort_request, CONSORT_ABI_MAGIC, CONSORT_ABI_VERSION, CONSORT_HELLO, CONSORT_JOIN,
    CONSORT_LEAVE,
};
use consort_daemon::ClassTable;
use consort_daemon::{
    limits::Limits,
    serve,
    wire::{self, Reply, ANSWER_BYTES_MAX, REPLY_BYTES},
    Config, End, Host, ServeError,
};
use consort_kernel::{
    ClientPage, Counters, DomainOptions, Error, ExitReport, JoinArgs, LeaveArgs, ReservationUsage,
    Tunables, RATE_ONE,
};
use nix::sys::{
    memfd::{memfd_create, MFdFlags},
    socket::{
        connect, recvmsg, send, socket, AddressFamily, ControlMessageOwned, MsgFlags, SockFlag,
        SockType, UnixAddr,
    },
};

/// What the fake scheduler was told, and what it shall answer.
#[derive(Debug, Default)]
pub struct Record {
    pub domains: BTreeMap<u32, DomainOptions>,
    pub members: HashMap<i32, JoinArgs>,
    pub pages: BTreeSet<u32>,
    pub joins: u64,
    pub classes: Option<ClassTable>,
    pub reservations: BTreeMap<u32, Promise>,
    /// CPU time that each reservation has used.
    pub used_ns: HashMap<u32, u64>,
    /// Fail like a killed process after so many more calls that change something about reservations.
    pub dies_after: Option<u32>,
    pub tunables: Tunables,
    pub partial: bool,
    pub member_ends: u64,
    pub exit: Option<ExitReport>,
    /// Refuse the next calls of that name with that errno.
    pub refuse: HashMap<&'static str, i32>,
    next: u32,
}

/// A reservation as the scheduler knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise {
    pub class: u32,
    pub rate: u32,
    pub threads: BTreeSet<i32>,
}

/// Keeps the scheduler's side of the contract: members are in domains that exist, each once.
#[derive(Debug, Clone, Default)]
pub struct FakeHost(Arc<Mutex<Record>>);

impl FakeHost {
    pub fn record(&self) -> MutexGuard<'_, Record> {
        self.0.lock().unwrap()
    }

    fn refused(record: &Record, doing: &'static str) -> Result<(), Error> {
        match record.refuse.get(doing) {
            Some(errno) => Err(refusal(doing, *errno)),
            None => Ok(()),
        }
    }
}

impl Record {
    fn live_or_die(&mut self) {
        if let Some(left) = &mut self.dies_after {
            assert!(*left > 0, "killed");
            *left -= 1;
        }
    }

    fn class_exists(&self, class: u32) -> bool {
        self.classes
            .is_some_and(|table| table.capacity[class as usize] > 0)
    }
}

fn refusal(doing: &'static str, errno: i32) -> Error {
    Error::Refused { doing, errno }
}

impl Host for FakeHost {
    fn client_page(&mut self) -> Result<ClientPage, Error> {
        let mut record = self.record();
        Self::refused(&record, "client_page")?;
        record.next += 1;
        let client = record.next;
        record.pages.insert(client);
        let descriptor = memfd_create("page", MFdFlags::MFD_CLOEXEC).unwrap();
        nix::unistd::ftruncate(&descriptor, 4096).unwrap();
        Ok(ClientPage { client, descriptor })
    }

    fn release_client(&mut self, client: u32) {
        assert!(
            self.record().pages.remove(&client),
            "released twice: {client}"
        );
    }

    fn create_domain(&mut self, options: DomainOptions) -> Result<u32, Error> {
        let mut record = self.record();
        Self::refused(&record, "create_domain")?;
        record.next += 1;
        let id = record.next;
        record.domains.insert(id, options);
        Ok(id)
    }

    fn destroy_domain(&mut self, domain: u32) -> Result<(), Error> {
        let mut record = self.record();
        Self::refused(&record, "destroy_domain")?;
        let has_members = record
            .members
            .values()
            .any(|member| member.domain == domain);
        assert!(!has_members, "domain {domain} has members");
        let existed = record.domains.remove(&domain).is_some();
        assert!(existed, "no domain {domain}");
        Ok(())
    }

    fn join(&mut self, args: JoinArgs) -> Result<(), Error> {
        let mut record = self.record();
        Self::refused(&record, "join")?;
        assert!(record.domains.contains_key(&args.domain));
        assert!(record.pages.contains(&args.client));
        let has_reserved = |promise: &Promise| promise.threads.contains(&args.tid);
        if record.reservations.values().any(has_reserved) {
            return Err(refusal("join", libc::EBUSY));
        }
        if record.members.contains_key(&args.tid) {
            return Err(refusal("join", libc::EEXIST));
        }
        record.members.insert(args.tid, args);
        record.joins += 1;
        Ok(())
    }

    fn leave(&mut self, args: LeaveArgs) -> Result<(), Error> {
        let mut record = self.record();
        match record.members.remove(&args.tid) {
            Some(member) => {
                assert_eq!((member.client, member.slot), (args.client, args.slot));
                Ok(())
            }
            None => Err(refusal("leave", libc::ESRCH)),
        }
    }

    fn cpus(&self) -> u32 {
        1
    }

    fn set_classes(&mut self, table: &ClassTable) -> Result<(), Error> {
        let mut record = self.record();
        Self::refused(&record, "set_classes")?;
        record.live_or_die();
        let sum: u32 = table.capacity.iter().sum();
        assert_eq!(sum + table.flexible, RATE_ONE);
        assert!(table.flexible > 0);
        for promise in record.reservations.values() {
            assert!(table.capacity[promise.class as usize] > 0);
        }
        record.classes = Some(*table);
        Ok(())
    }

    fn create_reservation(&mut self, class: u32, rate: u32) -> Result<u32, Error> {
        let mut record = self.record();
        Self::refused(&record, "create_reservation")?;
        record.live_or_die();
        assert!(record.class_exists(class));
        assert!((1..=RATE_ONE).contains(&rate));
        record.next += 1;
        let id = record.next;
        let threads = BTreeSet::new();
        let promise = Promise {
            class,
            rate,
            threads,
        };
        record.reservations.insert(id, promise);
        Ok(id)
    }

    fn change_reservation(&mut self, id: u32, class: u32, rate: u32) -> Result<(), Error> {
        let mut record = self.record();
        Self::refused(&record, "change_reservation")?;
        record.live_or_die();
        assert!(record.class_exists(class));
        let promise = record.reservations.get_mut(&id).unwrap();
        (promise.class, promise.rate) = (class, rate);
        Ok(())
    }

    fn add_to_reservation(&mut self, id: u32, tid: i32) -> Result<(), Error> {
        let mut record = self.record();
        Self::refused(&record, "add_to_reservation")?;
        record.live_or_die();
        let has_one = |promise: &Promise| promise.threads.contains(&tid);
        if record.reservations.values().any(has_one) {
            return Err(refusal("add_to_reservation", libc::EEXIST));
        }
        if record.members.contains_key(&tid) {
            return Err(refusal("add_to_reservation", libc::EBUSY));
        }
        let promise = record.reservations.get_mut(&id).unwrap();
        promise.threads.insert(tid);
        Ok(())
    }

    fn end_reservation(&mut self, id: u32) -> Result<(), Error> {
        let mut record = self.record();
        Self::refused(&record, "end_reservation")?;
        record.live_or_die();
        let existed = record.reservations.remove(&id).is_some();
        assert!(existed, "no reservation {id}");
        Ok(())
    }

    fn reservation_usage(&self, id: u32) -> Result<ReservationUsage, Error> {
        let record = self.record();
        match record.reservations.get(&id) {
            Some(promise) => Ok(ReservationUsage {
                tasks: promise.threads.len() as u32,
                ran_ns: record.used_ns.get(&id).copied().unwrap_or_default(),
            }),
            None => Err(refusal("reservation_usage", libc::ENOENT)),
        }
    }

    fn tunables(&self) -> Tunables {
        self.record().tunables
    }

    fn set_tunables(&mut self, tunables: Tunables) -> Result<(), Error> {
        self.record().tunables = tunables;
        Ok(())
    }

    fn counters(&self) -> Result<Counters, Error> {
        Ok(Counters::from([("polls", 42), ("switches", 7)]))
    }

    fn member_ends(&self) -> u64 {
        self.record().member_ends
    }

    fn partial(&self) -> bool {
        self.record().partial
    }

    fn exited(&self) -> Option<ExitReport> {
        self.record().exit.clone()
    }
}

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

/// Writes the files of a thread as /proc has them; `numbers` are its numbers, outermost namespace first.
pub fn write_thread(proc_root: &Path, pid: i32, numbers: &[i32], uid: u32, start: u64) {
    let tid = numbers[0];
    let folders = [
        Some(proc_root.join(format!("{pid}/task/{tid}"))),
        Some(proc_root.join(tid.to_string())),
    ];
    let list: Vec<String> = numbers.iter().map(i32::to_string).collect();
    let status = format!(
        "Name:\tx\nTgid:\t{pid}\nPPid:\t1\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nNSpid:\t{}\n",
        list.join("\t")
    );
    let between = "0 ".repeat(18);
    let policy_normal = 0;
    let stat = format!("{tid} (a) b) S {between}{start} {between}{policy_normal} 0\n");
    for folder in folders.into_iter().flatten() {
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("stat"), &stat).unwrap();
        fs::write(folder.join("status"), &status).unwrap();
        fs::write(folder.join("comm"), "x\n").unwrap();
    }
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
        let folder = Folder::new();
        let config = Config {
            socket: folder.0.join("consort.sock"),
            limits,
            classes: None,
        };
        let host = FakeHost::default();
        host.record().tunables = Tunables {
            granularity_ns: 20_000_000,
            min_slice_ns: 500_000,
            window_ns: 4_000_000,
        };
        let (of_thread, for_thread) = (config.clone(), host.clone());
        let thread = std::thread::spawn(move || serve(&of_thread, || Ok(for_thread)));
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

    /// Lets the fake scheduler leave the kernel, and returns why the daemon ended.
    pub fn eject(mut self, report: ExitReport) -> Result<End, ServeError> {
        self.host.record().exit = Some(report);
        self.thread.take().unwrap().join().unwrap()
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
            self.host.0.lock().unwrap_or_else(|e| e.into_inner()).exit = Some(unloaded());
            let _ = thread.join();
        }
    }
}

pub fn unloaded() -> ExitReport {
    ExitReport {
        kind: 64,
        exit_code: 0,
        reason: "unregistered".to_owned(),
        message: String::new(),
    }
}

/// The program's end of a connection.
pub struct Program(OwnedFd);

impl Program {
    pub fn try_connect(path: &Path) -> Option<Self> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).unwrap();
        connect(socket.as_raw_fd(), &UnixAddr::new(path).unwrap()).ok()?;
        Some(Program(socket))
    }

    pub fn send(&self, message: &[u8]) -> nix::Result<usize> {
        send(self.0.as_raw_fd(), message, MsgFlags::MSG_NOSIGNAL)
    }

    /// The next reply; `None` when the daemon has closed the connection.
    pub fn receive(&self) -> Option<Reply> {
        let mut buffer = vec![0; REPLY_BYTES + ANSWER_BYTES_MAX];
        let mut space = nix::cmsg_space!([RawFd; 4]);
        let (length, page) = {
            let mut parts = [IoSliceMut::new(&mut buffer)];
            let flags = MsgFlags::MSG_CMSG_CLOEXEC;
            let message =
                recvmsg::<()>(self.0.as_raw_fd(), &mut parts, Some(&mut space), flags).ok()?;
            let page = message.cmsgs().unwrap().find_map(|control| match control {
                ControlMessageOwned::ScmRights(fds) => fds.first().copied(),
                _ => None,
            });
            (message.bytes, page)
        };
        if length == 0 {
            return None;
        }
        let mut reply =
            wire::parse_reply(&buffer[..length]).expect("a reply of the daemon's layout");
        // SAFETY: the kernel just gave this descriptor to us.
        reply.page = page.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        Some(reply)
    }

    pub fn ask(&self, request: &consort_request) -> Reply {
        self.send(&wire::request_bytes(*request)).unwrap();
        self.receive().expect("a reply")
    }

    pub fn control(&self, json: &str) -> Result<serde_json::Value, Reply> {
        self.send(&wire::control_message(json)).unwrap();
        let reply = self.receive().expect("a reply");
        match reply.error {
            0 => Ok(serde_json::from_slice(&reply.json).unwrap()),
            _ => Err(reply),
        }
    }
}

pub fn request(kind: u32) -> consort_request {
    consort_request {
        magic: CONSORT_ABI_MAGIC,
        version: CONSORT_ABI_VERSION as u16,
        type_: kind as u16,
        ..consort_request::default()
    }
}

pub fn join(tid: i32, slot: u32, domain: &str) -> consort_request {
    let mut request = consort_request {
        tid,
        slot,
        ..request(CONSORT_JOIN)
    };
    for (to, from) in request.domain.iter_mut().zip(domain.bytes()) {
        *to = from as c_char;
    }
    request
}

pub fn leave(tid: i32, slot: u32) -> consort_request {
    consort_request {
        tid,
        slot,
        ..request(CONSORT_LEAVE)
    }
}

pub fn gettid() -> i32 {
    nix::unistd::gettid().as_raw()
}
