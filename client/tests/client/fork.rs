// SPDX-License-Identifier: MIT OR Apache-2.0
//! A forked child is not a member until it joins for itself, however it was forked.

use crate::daemon::Daemon;
use crate::process::isolated;
use consort::{Domain, Error, Member, Next, Standing, NEVER};
use consort_abi::*;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

fn busy() -> Next {
    Next {
        due_ns: NEVER,
        best_effort: Some((1, 0)),
    }
}

/// Runs `check` in a child; its result is the child's exit.
fn in_child(fork: impl Fn() -> libc::pid_t, check: impl FnOnce() -> bool) {
    match fork() {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        0 => {
            let right = check();
            // SAFETY: ends the child without running what belongs to the parent.
            unsafe { libc::_exit(i32::from(!right)) }
        }
        child => {
            std::mem::forget(check); // what it captured is the child's to drop
            let mut status = 0;
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert!(libc::WIFEXITED(status), "child ended by a signal");
            assert_eq!(libc::WEXITSTATUS(status), 0, "child disagrees");
        }
    }
}

fn fork() -> libc::pid_t {
    unsafe { libc::fork() }
}

/// Without the handlers of pthread_atfork.
fn bare_fork() -> libc::pid_t {
    unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as libc::pid_t }
}

fn is_told_so(member: &Member) -> bool {
    let polled = member.poll(busy());
    let asked = member.others();
    matches!(polled, Err(Error::Forked)) && matches!(asked, Err(Error::Forked))
}

isolated!(a_child_asks_for_itself, {
    let daemon = Daemon::start();
    let asks = || consort::lend(99, 0.1).is_ok();
    assert!(asks());
    in_child(fork, asks);
    in_child(bare_fork, asks);
    assert!(asks());
    assert_eq!(daemon.connections(), 3);
});

isolated!(a_child_is_told_that_it_is_no_member, {
    let daemon = Daemon::start();
    let member = Domain::named("a").join().unwrap();
    in_child(fork, || is_told_so(&member));
    in_child(bare_fork, || is_told_so(&member));
    let others = member.poll(busy()).unwrap();
    assert_eq!(others.standing(), Standing::Member);
    member.leave().unwrap();
    assert_eq!(daemon.requests_of(CONSORT_LEAVE).len(), 1);
});

isolated!(a_child_joins_with_a_page_of_its_own, {
    let daemon = Daemon::start();
    let member = Domain::named("a").join().unwrap();
    in_child(fork, || {
        let own = Domain::named("b").join().unwrap();
        let is_member = own.poll(busy()).unwrap().standing() == Standing::Member;
        drop(own);
        drop(member);
        is_member
    });
    assert_eq!(daemon.pages(), 2);
    let joins = daemon.requests_of(CONSORT_JOIN);
    assert_eq!((joins[0].slot, joins[1].slot), (0, 0));
    assert_ne!(joins[0].tid, joins[1].tid);
    // The child's two drops left only its own membership.
    assert_eq!(daemon.requests_of(CONSORT_LEAVE).len(), 1);
});

isolated!(a_child_that_drops_what_it_inherited_joins, {
    let daemon = Daemon::start();
    let member = Domain::named("a").join().unwrap();
    in_child(fork, || {
        drop(member);
        let own = Domain::named("b").join();
        own.is_ok_and(|own| own.poll(busy()).is_ok())
    });
    assert_eq!(daemon.requests_of(CONSORT_JOIN).len(), 2);
});

isolated!(a_child_of_a_child_is_told_too, {
    let _daemon = Daemon::start();
    let _member = Domain::named("a").join().unwrap();
    in_child(fork, || {
        let own = Domain::named("b").join().unwrap();
        in_child(fork, || is_told_so(&own));
        own.poll(busy()).is_ok()
    });
});

isolated!(a_child_gets_the_timer_slack_back, {
    let _daemon = Daemon::start();
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 77_000, 0, 0, 0) };
    let member = Domain::named("a").join().unwrap();
    in_child(fork, || {
        drop(member);
        let slack_ns = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) };
        slack_ns == 77_000
    });
});

/// While set, nothing can be sent: the kernel has no memory for it.
static CANNOT_SEND: AtomicBool = AtomicBool::new(false);

/// Takes the C library's place in this program.
#[no_mangle]
unsafe extern "C" fn send(
    socket: libc::c_int,
    bytes: *const libc::c_void,
    length: libc::size_t,
    flags: libc::c_int,
) -> libc::ssize_t {
    if CANNOT_SEND.load(Ordering::Relaxed) {
        *libc::__errno_location() = libc::ENOBUFS;
        return -1;
    }
    libc::sendto(socket, bytes, length, flags, std::ptr::null(), 0)
}

// Where the greeting could not be sent, the socket was closed, and its number may be the program's own.
isolated!(a_child_closes_nothing_of_the_programs, {
    let _daemon = Daemon::start();
    CANNOT_SEND.store(true, Ordering::Relaxed);
    let member = Domain::named("a").join().unwrap();
    assert_eq!(member.why_alone().unwrap().0, libc::ENOBUFS);
    CANNOT_SEND.store(false, Ordering::Relaxed);
    let own: Vec<OwnedFd> = (0..16).map(|_| own_file()).collect();
    in_child(fork, || own.iter().all(is_open));
    in_child(bare_fork, || {
        let _ = Domain::named("b").join();
        own.iter().all(is_open)
    });
});

isolated!(what_a_program_has_by_a_sockets_number_is_its_own, {
    let _daemon = Daemon::start();
    let member = Domain::named("a").join().unwrap();
    // As daemons do when they start, and others when they have something to hide.
    let sockets = sockets();
    assert!(!sockets.is_empty());
    let own: Vec<OwnedFd> = sockets.into_iter().map(put_in_place).collect();
    in_child(fork, || own.iter().all(is_open));
    in_child(bare_fork, || {
        let _ = Domain::named("b").join();
        own.iter().all(is_open)
    });
    drop(member);
    assert!(own.iter().all(is_open));
    // Whoever joins then has another connection.
    let again = Domain::named("a").join().unwrap();
    assert!(again.why_alone().is_none() && own.iter().all(is_open));
});

/// Numbers of this process' sockets that are connected to one with a name: the daemon of the test has the other ends.
fn sockets() -> Vec<i32> {
    let is_clients = |fd: &i32| {
        // SAFETY: all bytes zero are a valid address, which the kernel fills.
        let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
        let mut length = std::mem::size_of_val(&address) as libc::socklen_t;
        let to = (&raw mut address).cast();
        // SAFETY: an address and its length.
        let told = unsafe { libc::getpeername(*fd, to, &mut length) };
        told == 0 && address.sun_path[0] != 0
    };
    (0..256).filter(is_clients).collect()
}

/// A file of the program's own by that number.
fn put_in_place(number: i32) -> OwnedFd {
    let file = own_file();
    // SAFETY: what was there is closed, and nobody else has the number.
    unsafe {
        assert_eq!(libc::dup2(file.as_raw_fd(), number), number);
        OwnedFd::from_raw_fd(number)
    }
}

fn own_file() -> OwnedFd {
    std::fs::File::open("/dev/null").unwrap().into()
}

fn is_open(file: &OwnedFd) -> bool {
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFD) >= 0 }
}
