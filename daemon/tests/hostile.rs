// SPDX-License-Identifier: MIT OR Apache-2.0
//! Malformed, mistaken and malicious messages: each gets an answer, and nobody else notices.

mod common;

use std::{
    fs,
    io::Write,
    net::{TcpListener, TcpStream},
    os::fd::{AsRawFd, BorrowedFd, RawFd},
    path::Path,
};

use common::{gettid, join, request, Daemon, Program, Record};
use consort_abi::{CONSORT_HELLO, CONSORT_SLOTS};
use consort_daemon::{
    limits::Limits,
    listen,
    users::OPERATORS_CLIENTS,
    wire::{self, MESSAGE_BYTES_MAX, REQUEST_BYTES},
};
use nix::sys::{
    socket::{getsockname, getsockopt, setsockopt, sockopt, UnixAddr},
    time::{TimeVal, TimeValLike},
};
use proptest::prelude::*;

#[test]
fn each_bad_field_is_named() {
    let daemon = Daemon::start();
    let program = daemon.hello();
    let good = join(gettid(), 0, "video");
    let mut cases = Vec::new();
    let mut case =
        |error: i32, part: &'static str, change: &dyn Fn(&mut consort_abi::consort_request)| {
            let mut bad = good;
            change(&mut bad);
            cases.push((error, part, bad));
        };
    case(libc::EINVAL, "slot", &|r| r.slot = CONSORT_SLOTS);
    case(libc::EINVAL, "slot", &|r| r.slot = u32::MAX);
    case(libc::ERANGE, "event_ns", &|r| r.event_ns = 9_999);
    case(libc::ERANGE, "event_ns", &|r| r.event_ns = u64::MAX);
    case(libc::EINVAL, "order", &|r| r.order = 3);
    case(libc::EINVAL, "flags", &|r| r.flags = 0x8000_0000);
    case(libc::ENAMETOOLONG, "no end", &|r| {
        r.domain = [b'x' as _; 64]
    });
    case(libc::EINVAL, "0x20", &|r| r.domain[2] = b' ' as _);
    case(libc::EINVAL, "0xff", &|r| r.domain[0] = -1);
    case(libc::EINVAL, "-1", &|r| r.tid = -1);
    case(libc::ESRCH, "no living thread", &|r| r.tid = i32::MAX);
    case(libc::ESRCH, "no living thread", &|r| r.tid = 1);
    case(libc::EINVAL, "several", &|r| r.tid = 0);
    for (error, part, bad) in cases {
        let reply = program.ask(&bad);
        assert_eq!(reply.error, error, "{part}: {}", reply.text);
        assert!(reply.text.contains(part), "{part}: {}", reply.text);
        assert!(reply.text.len() < 191, "cut off: {}", reply.text);
    }
    let record = daemon.host.record();
    assert!(record.domains.is_empty() && record.members.is_empty());
}

#[test]
fn messages_of_the_wrong_size_are_answered_and_the_connection_closed() {
    let daemon = Daemon::start();
    let hello = wire::request_bytes(request(CONSORT_HELLO));
    let mut long = hello.to_vec();
    long.push(0);
    for (message, error) in [
        (hello[..1].to_vec(), libc::EPROTO),
        (hello[..REQUEST_BYTES - 1].to_vec(), libc::EPROTO),
        (long, libc::EMSGSIZE),
        (vec![0xff; MESSAGE_BYTES_MAX + 1], libc::EMSGSIZE),
        (vec![0xff; MESSAGE_BYTES_MAX + 5000], libc::EMSGSIZE),
        (vec![0xff; REQUEST_BYTES], libc::EPROTO),
    ] {
        let program = daemon.connect();
        program.send(&message).unwrap();
        let reply = program.receive().expect("an answer before the end");
        assert_eq!(
            reply.error,
            error,
            "{} bytes: {}",
            message.len(),
            reply.text
        );
        assert!(
            program.receive().is_none(),
            "{} bytes: still open",
            message.len()
        );
    }
    daemon.hello();
}

#[test]
fn another_version_is_told_so() {
    let daemon = Daemon::start();
    let program = daemon.connect();
    let mut hello = request(CONSORT_HELLO);
    hello.version = 77;
    let reply = program.ask(&hello);
    assert_eq!(reply.error, libc::EPROTO);
    assert!(reply.text.contains("77"), "{}", reply.text);
    assert!(program.receive().is_none());
}

#[test]
fn an_unknown_request_leaves_the_connection_usable() {
    let daemon = Daemon::start();
    let program = daemon.connect();
    assert_eq!(program.ask(&request(99)).error, libc::EOPNOTSUPP);
    assert_eq!(program.ask(&request(CONSORT_HELLO)).error, 0);
}

#[test]
fn a_forked_child_is_not_its_parent() {
    let daemon = Daemon::start();
    let program = daemon.hello();
    let answer = join_in_forked_child(&program);
    assert_eq!(answer, libc::ESRCH);
    assert!(daemon.host.record().members.is_empty());
}

/// Lets a child send a join for itself over the inherited connection, and returns the error in the reply.
fn join_in_forked_child(program: &Program) -> i32 {
    // SAFETY: the child calls nothing that may allocate or lock before it ends: one send on a message
    // made on its stack.
    match unsafe { nix::unistd::fork() }.unwrap() {
        nix::unistd::ForkResult::Child => {
            let mut message = join(0, 0, "video");
            message.tid = gettid();
            let sent = program.send(&wire::request_bytes(message)).is_ok();
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(!sent)) }
        }
        nix::unistd::ForkResult::Parent { child } => {
            let reply = program.receive().expect("a reply");
            nix::sys::wait::waitpid(child, None).unwrap();
            reply.error
        }
    }
}

#[test]
fn a_program_that_never_reads_is_cut_off_and_others_are_served() {
    let daemon = Daemon::start();
    let deaf = daemon.connect();
    let status = wire::control_message(r#"{"command": "status"}"#);
    let cut_off = (0..10_000).any(|_| deaf.send(&status).is_err());
    assert!(cut_off, "ten thousand unread answers");
    let other = daemon.connect();
    // The user pays for its deaf program's requests, so this may have to wait for a token.
    let answered = (0..1000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(2));
        other.control(r#"{"command": "status"}"#).is_ok()
    });
    assert!(answered);
}

#[test]
fn connections_beyond_the_limit_are_told_why() {
    let daemon = Daemon::with_limits(Limits {
        clients: 3,
        ..Limits::default()
    });
    // The first was the one that found the daemon ready; it may or may not have been noticed to be gone.
    let most = match nix::unistd::getuid().is_root() {
        true => 3 + OPERATORS_CLIENTS,
        false => 3,
    };
    let programs: Vec<Program> = (0..=most).map(|_| daemon.connect()).collect();
    let refused: Vec<_> = programs
        .iter()
        .filter_map(|program| {
            let _ = program.send(&wire::request_bytes(request(CONSORT_HELLO)));
            program.receive().filter(|reply| reply.error != 0)
        })
        .collect();
    assert!(!refused.is_empty());
    for reply in &refused {
        assert_eq!(reply.error, libc::EDQUOT);
        assert!(
            reply.text.contains(&format!("{most} connected programs")),
            "{}",
            reply.text
        );
    }
    drop(programs);
    let mut tries = 0..10_000;
    while daemon.connect().ask_hello() != Some(0) {
        assert!(tries.next().is_some(), "no room after all have gone");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// What is asked for is billed to the program that asks, and so is being refused.
#[test]
fn a_program_pays_for_the_daemon() {
    let daemon = Daemon::with_limits(Limits {
        clients: 3,
        ..Limits::default()
    });
    let own = std::process::id() as i32;
    let billed = |record: &Record| record.billed.get(&own).copied().unwrap_or_default();
    let program = daemon.hello();
    for _ in 0..300 {
        program.ask(&request(99));
    }
    let status = program.control(r#"{"command": "status"}"#).unwrap();
    let user = &status["users"][0];
    let told_us = user["cpu_us"].as_u64().unwrap();
    assert!(told_us > 0);
    // Its connection and its process; the one that found the daemon ready may not have been seen to go.
    assert!(
        (1..=4).contains(&user["descriptors"].as_u64().unwrap()),
        "{user}"
    );
    assert_eq!(
        user["pages"], 3,
        "a page of slots, and the variables behind it"
    );
    daemon.wait_until("all of it is billed", |record| {
        billed(record).as_micros() as u64 >= told_us
    });
    let _held: Vec<Program> = (0..3 + OPERATORS_CLIENTS)
        .map(|_| daemon.connect())
        .collect();
    let before = billed(&daemon.host.record());
    for _ in 0..300 {
        // Told before it has asked for anything, or shut out.
        let refused = daemon.connect().receive();
        assert!(refused.is_none_or(|reply| reply.error != 0));
    }
    daemon.wait_until("being refused is billed", |record| {
        billed(record) > before + std::time::Duration::from_millis(1)
    });
}

trait AskHello {
    fn ask_hello(&self) -> Option<i32>;
}

impl AskHello for Program {
    fn ask_hello(&self) -> Option<i32> {
        self.send(&wire::request_bytes(request(CONSORT_HELLO)))
            .ok()?;
        self.receive().map(|reply| reply.error)
    }
}

/// A file whose last reference is given up in the daemon may take as long as a stranger likes: a TCP socket with
/// SO_LINGER and data that nobody reads. The kernel lets none through.
#[test]
fn descriptors_of_strangers_are_refused() {
    let daemon = Daemon::start();
    let program = daemon.connect();
    let (lingering, _reader) = lingering_socket(1);
    let hello = wire::request_bytes(request(CONSORT_HELLO));
    let sent = program.send_with(&hello, &[lingering.as_raw_fd()]);
    drop(lingering);
    assert_eq!(sent, Err(nix::errno::Errno::EPERM));
    // The same connection is as good as before, and so is the daemon.
    assert_eq!(program.ask_hello(), Some(0));
    daemon.hello();
}

/// As on a kernel that lets descriptors through, before Linux 6.16, and for those who connect before the daemon serves, where a
/// service manager listens for it. Whatever one of them waits for when it is closed, programs are answered meanwhile: be it in
/// a message that the daemon has read, or in one that it never will.
#[test]
fn what_takes_long_to_close_is_closed_aside() {
    for messages in [1, 2] {
        let daemon = Daemon::start();
        let_descriptors_through(listener_at(&daemon.config.socket));
        let (hostile, other) = (daemon.connect(), daemon.hello());
        // The daemon does not get at the messages before ours are closed: its own are the last ones.
        let held_up = daemon.host.record();
        let _readers = send_lingering(&hostile, messages);
        drop(held_up);
        assert!(hostile.receive().is_none(), "it is not served any more");
        assert_is_answered(&other);
        daemon.hello();
    }
}

/// The same of a program that is not let in.
#[test]
fn what_a_program_has_sent_that_is_refused_is_closed_aside() {
    let daemon = Daemon::with_limits(Limits {
        clients: 3,
        ..Limits::default()
    });
    let_descriptors_through(listener_at(&daemon.config.socket));
    let all: Vec<Program> = (0..2 + OPERATORS_CLIENTS)
        .map(|_| daemon.connect())
        .collect();
    // The last one that is let in: once it is answered, the daemon has accepted them all, and is held up by its next request
    // before it accepts whoever comes after that.
    let other = daemon.hello();
    let held_up = daemon.host.record();
    other
        .send(&wire::request_bytes(request(CONSORT_HELLO)))
        .unwrap();
    let hostile = daemon.connect();
    let _readers = send_lingering(&hostile, 2);
    drop(held_up);
    assert_eq!(other.receive().unwrap().error, libc::EISCONN);
    assert_eq!(hostile.receive().unwrap().error, libc::EDQUOT);
    assert!(hostile.receive().is_none());
    assert_is_answered(&other);
    drop(all);
}

/// With no room for more the kernel would give the rest of a message's files up in the daemon's own time.
#[test]
fn files_that_wait_to_be_closed_are_bounded() {
    const EACH: usize = 253;
    let daemon = Daemon::start();
    let other = daemon.hello();
    let_descriptors_through(listener_at(&daemon.config.socket));
    let hostile: Vec<Program> = (0..8).map(|_| daemon.connect()).collect();
    // The daemon's is to be the last one, as above.
    let held_up = daemon.host.record();
    let _readers = send_lingering(&hostile[0], 1);
    drop(held_up);
    assert!(hostile[0].receive().is_none(), "it is not served any more");
    let before = open_files();
    let (hello, file) = (
        wire::request_bytes(request(CONSORT_HELLO)),
        fs::File::open("/dev/null").unwrap(),
    );
    for program in &hostile[1..] {
        let sent = program.send_with(&hello, &[file.as_raw_fd(); EACH]);
        sent.unwrap();
        assert!(program.receive().is_none(), "it is not served any more");
    }
    let waiting = open_files() - before;
    assert!(waiting < 5 * EACH, "{waiting} files wait to be closed");
    assert_is_answered(&other);
}

/// Of this process, other tests' included.
fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Messages with the last reference to a socket each that takes an hour to close, unless its reader is dropped.
fn send_lingering(program: &Program, messages: u32) -> Vec<TcpStream> {
    let hello = wire::request_bytes(request(CONSORT_HELLO));
    let send = |_| {
        let (lingering, reader) = lingering_socket(3600);
        let sent = program.send_with(&hello, &[lingering.as_raw_fd()]);
        sent.unwrap();
        reader
    };
    (0..messages).map(send).collect()
}

fn assert_is_answered(program: &Program) {
    // SAFETY: the program has it open.
    let socket = unsafe { BorrowedFd::borrow_raw(program.as_raw_fd()) };
    setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::seconds(60)).unwrap();
    let unknown = wire::request_bytes(request(99));
    program.send(&unknown).unwrap();
    let reply = program.receive().expect("an answer while files are closed");
    assert_eq!(reply.error, libc::EOPNOTSUPP);
}

/// Of this process, where the daemon is a thread: the socket that listens at `path`.
fn listener_at(path: &Path) -> RawFd {
    let open = fs::read_dir("/proc/self/fd").unwrap();
    let numbers = open.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let found = numbers.into_iter().find(|fd| {
        let name = getsockname::<UnixAddr>(*fd);
        // SAFETY: no other thread closes the listener of a daemon that serves.
        let is_listening =
            || getsockopt(&unsafe { BorrowedFd::borrow_raw(*fd) }, sockopt::AcceptConn);
        name.is_ok_and(|name| name.path() == Some(path)) && is_listening() == Ok(true)
    });
    found.expect("a daemon that listens")
}

/// Takes back that the kernel refuses descriptors for those who connect to `listener`.
fn let_descriptors_through(listener: RawFd) {
    const SO_PASSRIGHTS: libc::c_int = 83;
    let yes: libc::c_int = 1;
    // SAFETY: the pointer is to one int, whose length is given. A kernel that knows no such option lets them through anyway.
    unsafe {
        let value = std::ptr::from_ref(&yes).cast();
        let length = size_of::<libc::c_int>() as libc::socklen_t;
        libc::setsockopt(listener, libc::SOL_SOCKET, SO_PASSRIGHTS, value, length);
    }
}

/// A TCP socket that takes so many seconds to close, and the one that would have to read.
fn lingering_socket(seconds: libc::c_int) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (reader, _) = listener.accept().unwrap();
    sender.set_nonblocking(true).unwrap();
    while sender.write(&[0; 65536]).is_ok() {}
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: seconds,
    };
    setsockopt(&sender, sockopt::Linger, &linger).unwrap();
    (sender, reader)
}

/// Where the kernel lets descriptors through, they come whole, to be closed aside.
#[test]
fn descriptors_that_come_through_are_all_taken() {
    let flags = nix::sys::socket::SockFlag::SOCK_CLOEXEC;
    let (ours, theirs) = nix::sys::socket::socketpair(
        nix::sys::socket::AddressFamily::Unix,
        nix::sys::socket::SockType::SeqPacket,
        None,
        flags,
    )
    .unwrap();
    let program = Program::at(theirs);
    let file = program.as_raw_fd();
    program.send_with(b"x", &[file; 253]).unwrap();
    let (length, files) = listen::receive(ours.as_raw_fd(), &mut [0; 8]).unwrap();
    assert_eq!((length, files.len()), (1, 253));
    let closer = listen::Closer::start().unwrap();
    files.into_iter().for_each(|file| closer.close(file));
}

proptest! {
    /// Any bytes are a request or are refused with an errno and a text that fits.
    #[test]
    fn parsing_never_fails_without_a_reason(bytes in prop::collection::vec(any::<u8>(), 0..2000), valid_head in any::<bool>(), version in any::<bool>(), kind in 0u16..11) {
        let mut bytes = bytes;
        if valid_head && bytes.len() >= REQUEST_BYTES {
            let head = wire::request_bytes(request(kind.into()));
            bytes[..8].copy_from_slice(&head[..8]);
        }
        if version {
            bytes.iter_mut().skip(4).take(1).for_each(|byte| *byte = 2);
        }
        if let Err(malformed) = wire::parse(&bytes, bytes.len()) {
            prop_assert!(malformed.refusal.errno as i32 > 0);
            prop_assert!(malformed.refusal.text.len() < 192);
        }
    }
}
