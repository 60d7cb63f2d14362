// SPDX-License-Identifier: MIT OR Apache-2.0
//! Causes of lateness, planted, and who suffers from them.

use std::{
    net::UdpSocket,
    os::fd::{AsRawFd, OwnedFd},
    thread::sleep,
    time::Duration,
};

use nix::sys::socket::{setsockopt, socket, sockopt, AddressFamily, SockFlag, SockType};

use consort::{now_ns, Domain, Next, Standing};

use super::{argument, show, work_ns};
use crate::suite::{
    board::{Board, Field},
    process::set_realtime,
};

const MS: u64 = 1_000_000;

/// `sufferer`: wants the CPU for 3 ms, and sleeps for 2, again and again.
pub fn sufferer(board: &Board, _: &[&str]) -> Result<(), String> {
    board.set(Field::Ready, 1);
    loop {
        work_ns(3 * MS);
        board.add(Field::Work, 1);
        sleep(Duration::from_millis(2));
    }
}

/// `bursts`: runs above everybody for 10 ms of every 30.
pub fn bursts(board: &Board, _: &[&str]) -> Result<(), String> {
    set_realtime(0, true)?;
    board.set(Field::Ready, 1);
    loop {
        work_ns(10 * MS);
        sleep(Duration::from_millis(20));
    }
}

/// `interrupts`: keeps the kernel busy below all tasks: each packet that it sends goes to hundreds of sockets, in a soft
/// interrupt.
pub fn interrupts(board: &Board, _: &[&str]) -> Result<(), String> {
    const EVERYBODY: &str = "127.255.255.255:7007";
    const SOCKETS: usize = 500;
    let open = || -> std::io::Result<Vec<OwnedFd>> {
        let sockets = (0..SOCKETS).map(|_| listener(7007));
        sockets.collect()
    };
    let _listeners = open().map_err(|error| format!("cannot listen: {error}"))?;
    let sender = UdpSocket::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    sender
        .set_broadcast(true)
        .map_err(|error| error.to_string())?;
    board.set(Field::Ready, 1);
    loop {
        let sent = sender.send_to(b"?", EVERYBODY);
        sent.map_err(|error| error.to_string())?;
    }
}

/// One of many sockets with the same port.
fn listener(port: u16) -> std::io::Result<OwnedFd> {
    let (kind, flags) = (SockType::Datagram, SockFlag::SOCK_CLOEXEC);
    let fd = socket(AddressFamily::Inet, kind, flags, None)?;
    setsockopt(&fd, sockopt::ReuseAddr, &true)?;
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: 0 },
        sin_zero: [0; 8],
    };
    let bytes = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    // SAFETY: a valid address, of the length that is given.
    match unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), bytes) } {
        0 => Ok(fd),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// `events DOMAIN LENGTH_US PERIOD_US`: a due event of that length every period.
pub fn events(board: &Board, arguments: &[&str]) -> Result<(), String> {
    let length_ns = argument::<u64>(arguments, 1)? * 1000;
    let period_ns = argument::<u64>(arguments, 2)? * 1000;
    let domain = Domain::named(argument::<String>(arguments, 0)?).event_ns(length_ns);
    let member = domain.join().map_err(|error| error.to_string())?;
    let mut due_ns = now_ns();
    loop {
        due_ns += period_ns;
        let polled = member.poll(Next::due(due_ns));
        let others = polled.map_err(|error| error.to_string())?;
        show(board, &others);
        work_ns(length_ns * 9 / 10);
        board.add(Field::Served, 1);
        if others.standing() != Standing::Outside {
            board.set(Field::Ready, 1);
        }
    }
}
