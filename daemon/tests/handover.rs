// SPDX-License-Identifier: MIT OR Apache-2.0
//! A daemon follows another one while programs are connected.

mod common;

use std::{
    os::fd::{AsRawFd, BorrowedFd},
    thread,
    time::{Duration, Instant},
};

use common::{
    gettid, join, leave, request, stall, unloaded, Daemon, FakeHost, FakeLoader, Folder, Program,
};
use consort_abi::{
    consort_request, CONSORT_CONTROL, CONSORT_HELLO, CONSORT_RELEASE, CONSORT_RESERVE,
    CONSORT_RESERVE_THREAD,
};
use consort_daemon::{
    estate::Connection, handover::Successor, limits::Limits, peer::Processes, serve,
    service::Service, wire, Config, End, Host, Refusal, ServeError,
};
use nix::{
    errno::Errno,
    poll::{poll, PollFd, PollFlags, PollTimeout},
    sys::{
        signal::{kill, Signal},
        socket::{
            accept, bind, connect, listen, recv, send, socket, socketpair, AddressFamily, Backlog,
            MsgFlags, SockFlag, SockType, UnixAddr,
        },
        wait::{waitpid, WaitPidFlag, WaitStatus},
    },
    unistd::{fork, ForkResult, Pid},
};

fn reserve() -> consort_request {
    let mut wanted = request(CONSORT_RESERVE);
    (wanted.event_ns, wanted.order) = (30_000_000, 100_000);
    for (to, from) in wanted.domain.iter_mut().zip(*b"guaranteed") {
        *to = from as _;
    }
    wanted
}

#[test]
fn programs_go_on_with_the_next_daemon() {
    let daemon = Daemon::start();
    let (program, silent) = (daemon.hello(), daemon.connect());
    assert_eq!(program.ask(&join(gettid(), 3, "video")).error, 0);
    assert_eq!(program.ask(&reserve()).error, 0);
    let before = format!("{:?}", daemon.host.record().reservations);
    let (host, config) = (daemon.host.clone(), daemon.config.clone());
    let next = daemon.replace();
    assert!(matches!(daemon.end_beside(), Ok(End::Replaced)));
    // On the same connections, with what was held.
    assert_eq!(program.ask(&join(gettid(), 4, "video")).error, libc::EEXIST);
    let status = silent.control(r#"{"command": "status"}"#).unwrap();
    assert_eq!(status["daemon"]["clients"], 1, "{status}");
    assert_eq!(status["daemon"]["members"], 1);
    assert_eq!(status["daemon"]["domains"], 1);
    assert_eq!(format!("{:?}", host.record().reservations), before);
    assert_eq!(silent.ask(&request(CONSORT_HELLO)).error, 0);
    assert_eq!(program.ask(&leave(gettid(), 3)).error, 0);
    assert!(host.record().domains.is_empty());
    assert_eq!(host.record().loads.len(), 1, "nothing was loaded anew");
    // Others get in, and the socket goes with the last daemon.
    assert!(Program::try_connect(&config.socket).is_some());
    host.unload(unloaded());
    assert!(matches!(next.join().unwrap(), Ok(End::Ejected { .. })));
    assert!(!config.socket.exists());
}

/// Its socket goes while there is no scheduler, as any daemon's; it must be there again afterwards.
#[test]
fn the_next_daemon_is_found_again_after_an_ejection() {
    let daemon = Daemon::start();
    let (host, config) = (daemon.host.clone(), daemon.config.clone());
    let next = daemon.replace();
    assert!(matches!(daemon.end_beside(), Ok(End::Replaced)));
    host.unload(stall("hog[77] failed to run for 30.001s"));
    let until = Instant::now() + Duration::from_secs(20);
    let program = loop {
        assert!(Instant::now() < until, "nobody listens at the socket");
        let is_loaded_again = host.record().loads.len() == 2;
        match Program::try_connect(&config.socket) {
            Some(program) if is_loaded_again => break program,
            _ => thread::yield_now(),
        }
    };
    assert_eq!(program.ask(&request(CONSORT_HELLO)).error, 0);
    host.unload(unloaded());
    assert!(next.join().unwrap().is_ok());
    assert!(!config.socket.exists());
}

/// A daemon that asks and does not take over leaves a daemon that serves on.
#[test]
fn a_daemon_whose_successor_fails_serves_on() {
    let daemon = Daemon::start();
    let program = daemon.hello();
    assert_eq!(program.ask(&join(gettid(), 0, "video")).error, 0);
    daemon.host.record().refuse.insert("succeed", libc::ENOMEM);
    let failed = daemon.replace().join().unwrap();
    assert!(matches!(failed, Err(ServeError::Kernel(_))), "{failed:?}");
    assert_eq!(program.ask(&leave(gettid(), 0)).error, 0);
    daemon.host.record().refuse.clear();
    // Its lock and its socket are its own as before.
    let second = serve(&daemon.config, FakeLoader(FakeHost::default()));
    assert!(matches!(second, Err(ServeError::Lock(_))), "{second:?}");
    let next = daemon.replace();
    let host = daemon.host.clone();
    assert!(matches!(daemon.end_beside(), Ok(End::Replaced)));
    assert_eq!(program.ask(&join(gettid(), 0, "video")).error, 0);
    host.unload(unloaded());
    assert!(next.join().unwrap().is_ok());
}

/// Killed when the test fails, too.
struct Child(Pid);

impl Drop for Child {
    fn drop(&mut self) {
        let _ = kill(self.0, Signal::SIGKILL);
    }
}

/// What it does not finish, nobody waits for.
#[test]
fn a_daemon_whose_successor_is_stopped_serves_on() {
    let daemon = Daemon::start();
    let program = daemon.hello();
    let (address, hand_over) = (
        UnixAddr::new(&daemon.config.socket).unwrap(),
        wire::control_message(r#"{"command": "hand_over"}"#),
    );
    let mut answer = [0; wire::REPLY_BYTES];
    // SAFETY: the child makes system calls alone.
    let ForkResult::Parent { child } = (unsafe { fork() }).unwrap() else {
        let flags = SockFlag::SOCK_CLOEXEC;
        let own = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None);
        let asked = own.as_ref().is_ok_and(|own| {
            connect(own.as_raw_fd(), &address).is_ok()
                && send(own.as_raw_fd(), &hand_over, MsgFlags::empty()).is_ok()
                && recv(own.as_raw_fd(), &mut answer, MsgFlags::empty()).is_ok()
        });
        unsafe {
            libc::raise(libc::SIGSTOP);
            libc::_exit(i32::from(!asked));
        }
    };
    let child = Child(child);
    let stopped = waitpid(child.0, Some(WaitPidFlag::WUNTRACED)).unwrap();
    assert!(matches!(stopped, WaitStatus::Stopped(..)), "{stopped:?}");
    let began = Instant::now();
    assert_eq!(program.ask(&join(gettid(), 0, "video")).error, 0);
    assert!(began.elapsed() < Duration::from_secs(30));
    kill(child.0, Signal::SIGCONT).unwrap();
    let ended = waitpid(child.0, None).unwrap();
    std::mem::forget(child);
    assert!(matches!(ended, WaitStatus::Exited(_, 0)), "{ended:?}");
    daemon.eject(unloaded());
    assert!(matches!(daemon.end(), Ok(End::Ejected { .. })));
}

/// A successor that has read another file, without a class in which somebody has reserved, and whose kernel refuses it.
fn a_successor_without_a_class_fails(daemon: &Daemon) {
    let mut config = Config {
        replaces: true,
        ..daemon.config.clone()
    };
    config.division.classes = config.division.classes.without(0);
    let failed = serve(&config, FakeLoader(daemon.host.clone()));
    assert!(matches!(failed, Err(ServeError::Kernel(_))), "{failed:?}");
}

/// Also after it has read another file, without the class in which somebody has reserved.
#[test]
fn a_daemon_whose_successor_fails_has_its_reservations() {
    let daemon = Daemon::start();
    let (program, other) = (daemon.hello(), daemon.connect());
    // Of one thread: the others of this process come and go.
    let (tid, flags) = (gettid(), CONSORT_RESERVE_THREAD);
    let wanted = consort_request {
        tid,
        flags,
        ..reserve()
    };
    assert_eq!(program.ask(&wanted).error, 0);
    let in_force = || {
        let record = daemon.host.record();
        format!("{:?} {:?}", record.reservations.values(), record.classes)
    };
    let (before, status) = (in_force(), r#"{"command": "reservations"}"#);
    let told = || {
        let told = other.control(status).unwrap();
        let one = told["reservations"][0].clone();
        ["reservation", "class", "asked", "given", "threads"].map(|name| one[name].to_string())
    };
    let told_before = told();
    daemon.host.record().refuse.insert("begin", libc::EIO);
    a_successor_without_a_class_fails(&daemon);
    daemon.host.record().refuse.clear();
    assert_eq!(told(), told_before);
    assert_eq!(in_force(), before);
    let release = consort_request {
        tid,
        flags,
        ..request(CONSORT_RELEASE)
    };
    assert_eq!(program.ask(&release).error, 0);
    assert!(daemon.host.record().reservations.is_empty());
}

/// What cannot be in force again ends, rather than to be promised and not kept.
#[test]
fn a_daemon_whose_successor_fails_promises_no_more_than_is_in_force() {
    let daemon = Daemon::start();
    let (program, other) = (daemon.hello(), daemon.connect());
    assert_eq!(program.ask(&reserve()).error, 0);
    let mut record = daemon.host.record();
    record.refuse.insert("begin", libc::EIO);
    record.refuse.insert("create_reservation", libc::ENOMEM);
    drop(record);
    a_successor_without_a_class_fails(&daemon);
    let told = other.control(r#"{"command": "reservations"}"#).unwrap();
    assert_eq!(told["reservations"], serde_json::json!([]));
    assert!(daemon.host.record().reservations.is_empty());
    daemon.host.record().refuse.clear();
    assert_eq!(program.ask(&reserve()).error, 0);
    assert_eq!(daemon.host.record().reservations.len(), 1);
}

/// A daemon that exchanges the scheduler may fail when it has detached the one before, and not put its own in charge.
#[test]
fn a_daemon_whose_scheduler_was_detached_in_vain_loads_another() {
    let daemon = Daemon::start();
    daemon.host.record().refuse.insert("follow", libc::ENOMEM);
    let failed = daemon.replace().join().unwrap();
    assert!(matches!(failed, Err(ServeError::Kernel(_))), "{failed:?}");
    daemon.wait_until("loaded again", |record| record.loads.len() == 2);
    while Program::try_connect(&daemon.config.socket).is_none() {
        thread::yield_now();
    }
    assert_eq!(daemon.hello().ask(&join(gettid(), 0, "video")).error, 0);
    // Who detaches it later does not want it back.
    daemon.eject(unloaded());
    assert!(matches!(daemon.end(), Ok(End::Ejected { .. })));
}

#[test]
fn without_a_daemon_there_is_nobody_to_replace() {
    let folder = Folder::new();
    let mut config = Daemon::start().config.clone();
    config.socket = folder.0.join("consort.sock");
    config.replaces = true;
    let failed = serve(&config, FakeLoader(FakeHost::default()));
    assert!(matches!(failed, Err(ServeError::Handover(_))), "{failed:?}");
    assert!(!config.socket.exists());
}

/// A daemon that lets its status be seen, and is not this user's.
#[test]
fn who_may_not_replace_a_daemon_is_told_who_may() {
    let folder = Folder::new();
    let path = folder.0.join("consort.sock");
    let kind = SockType::SeqPacket;
    let listener = socket(AddressFamily::Unix, kind, SockFlag::empty(), None).unwrap();
    bind(listener.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
    listen(&listener, Backlog::new(1).unwrap()).unwrap();
    let daemon = thread::spawn(move || {
        let fd = accept(listener.as_raw_fd()).unwrap();
        let refusal = Refusal::new(Errno::EPERM, "only root may".to_owned());
        for reply in [
            wire::Reply {
                kind: CONSORT_CONTROL as u16,
                rest: br#"{"scheduler": {"identity": "a"}, "tunables": {}}"#.to_vec(),
                ..wire::Reply::default()
            },
            wire::Reply::refused(CONSORT_CONTROL as u16, &refusal),
        ] {
            recv(fd, &mut [0; 1000], MsgFlags::empty()).unwrap();
            send(fd, &reply.to_bytes(), MsgFlags::empty()).unwrap();
        }
    });
    let successor = Successor::connect(&path).unwrap();
    let error = successor.take_over().unwrap_err();
    assert!(error.to_string().contains("to root alone"), "{error}");
    daemon.join().unwrap();
}

fn ask(service: &mut Service, id: u64, request: consort_request) -> wire::Reply {
    let bytes = wire::request_bytes(request);
    service.handle(id, &bytes, bytes.len(), Instant::now()).0
}

fn service(host: &FakeHost) -> Service {
    let host = Box::new(host.clone());
    Service::new(host, Processes::default(), Limits::default())
}

/// A daemon that was killed while it answered: that program asks anew, and all others go on.
#[test]
fn whoever_was_being_answered_connects_anew() {
    let (mut host, now) = (FakeHost::default(), Instant::now());
    let mut first = service(&host);
    let mut ours = Vec::new();
    let (mut programs, mut stored) = (Vec::new(), Vec::new());
    for id in 10..13 {
        let (kind, flags) = (SockType::SeqPacket, SockFlag::SOCK_CLOEXEC);
        let (socket, theirs) = socketpair(AddressFamily::Unix, kind, None, flags).unwrap();
        first.connect_from(id, &socket, now).unwrap();
        let client = Some(ask(&mut first, id, request(CONSORT_HELLO)).client);
        // As the service manager has it.
        stored.push(socket.try_clone().unwrap());
        ours.push(Connection { client, socket });
        programs.push(Program::at(theirs));
    }
    let (tell, told) = std::sync::mpsc::channel();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let other = thread::spawn(move || {
        tell.send(gettid()).unwrap();
        let _ = stopped.recv();
    });
    let other_tid = told.recv().unwrap();
    assert_eq!(ask(&mut first, 10, join(gettid(), 0, "film")).error, 0);
    assert_eq!(ask(&mut first, 11, join(other_tid, 0, "sound")).error, 0);
    host.set_answering(ours[1].client.unwrap());
    drop(first);

    let mut next = service(&host);
    let adopted = next.adopt_programs(ours, now).unwrap();
    assert_eq!(adopted.len(), 2);
    let record = host.record();
    assert_eq!(record.members.keys().collect::<Vec<_>>(), [&gettid()]);
    let labels: Vec<_> = record
        .domains
        .keys()
        .map(|id| &*record.labels[id].name)
        .collect();
    assert_eq!(labels, ["film"]);
    drop(record);
    assert!(programs[1].receive().is_none(), "its connection is closed");
    for program in [&programs[0], &programs[2]] {
        // SAFETY: open for as long as the program lives.
        let socket = unsafe { BorrowedFd::borrow_raw(program.as_raw_fd()) };
        let mut ready = [PollFd::new(socket, PollFlags::POLLIN)];
        assert_eq!(poll(&mut ready, PollTimeout::ZERO), Ok(0));
    }
    let id = adopted[0].0;
    assert_eq!(ask(&mut next, id, leave(gettid(), 0)).error, 0);
    stop.send(()).unwrap();
    other.join().unwrap();
    next.tick(now + Duration::from_secs(1));
    let record = host.record();
    assert!(record.members.is_empty() && record.domains.is_empty());
}

/// A program may have hundreds of connections and thousands of threads.
#[test]
fn threads_are_looked_at_once_whatever_connections_their_process_has() {
    const CONNECTIONS: u64 = 100;
    let (mut host, now) = (FakeHost::default(), Instant::now());
    let mut first = service(&host);
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for id in 10..10 + CONNECTIONS {
        let (kind, flags) = (SockType::SeqPacket, SockFlag::SOCK_CLOEXEC);
        let (socket, other) = socketpair(AddressFamily::Unix, kind, None, flags).unwrap();
        first.connect_from(id, &socket, now).unwrap();
        let client = Some(ask(&mut first, id, request(CONSORT_HELLO)).client);
        ours.push(Connection { client, socket });
        theirs.push(other);
    }
    assert_eq!(ask(&mut first, 60, join(gettid(), 3, "film")).error, 0);
    host.set_answering(0);
    let client = ours[50].client;
    drop(first);

    let mut next = service(&host);
    let adopted = next.adopt_programs(ours, now).unwrap();
    assert_eq!(adopted.len() as u64, CONNECTIONS);
    // Far fewer threads than connections run these tests.
    let lookups = host.record().member_lookups;
    assert!((1..CONNECTIONS).contains(&lookups), "{lookups}");
    let mine = host.record().members[&gettid()].client;
    assert_eq!(Some(mine), client);
    let at = adopted[50].0;
    assert_ne!(ask(&mut next, at - 1, leave(gettid(), 3)).error, 0);
    assert_eq!(ask(&mut next, at, leave(gettid(), 3)).error, 0);
}
