// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reserving, releasing, lending: what is said to the daemon, what is refused before.

use crate::daemon::{domain_of, Daemon, Manner, REFUSAL};
use crate::process::isolated;
use consort::{lend, recollect, release, Error, Reservation};
use consort_abi::*;
use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, RawFd};

fn guaranteed(rate: f64) -> Reservation {
    Reservation::in_class("guaranteed").rate(rate)
}

isolated!(says_what_is_reserved_and_lent, {
    let daemon = Daemon::start();
    guaranteed(0.3).period_ns(33_000_000).reserve().unwrap();
    guaranteed(1.0).for_thread(77).reserve().unwrap();
    guaranteed(0.000_001).for_process(78).reserve().unwrap();
    release().unwrap();
    lend(99, 0.25).unwrap();
    recollect(99, Some(0.05)).unwrap();
    recollect(99, None).unwrap();
    let reserves = daemon.requests_of(CONSORT_RESERVE);
    let said: Vec<_> = reserves
        .iter()
        .map(|ask| (ask.tid, ask.order, ask.event_ns, ask.flags))
        .collect();
    let default_ns = 30_000_000;
    assert_eq!(said[0], (0, 300_000, 33_000_000, 0));
    assert_eq!(said[1], (77, 1_000_000, default_ns, CONSORT_RESERVE_THREAD));
    assert_eq!(said[2], (78, 1, default_ns, 0));
    assert_eq!(domain_of(&reserves[0]), "guaranteed");
    assert_eq!(daemon.requests_of(CONSORT_RELEASE)[0].tid, 0);
    let lent = daemon.requests_of(CONSORT_LEND)[0];
    assert_eq!((lent.tid, lent.order), (99, 250_000));
    let back = daemon.requests_of(CONSORT_RECOLLECT);
    assert_eq!((back[0].order, back[1].order), (50_000, 0));
});

isolated!(what_is_no_rate_is_not_even_asked_for, {
    let daemon = Daemon::start();
    for rate in [0.0, -0.1, 1.1, f64::NAN, f64::INFINITY] {
        let refused = guaranteed(rate).reserve().unwrap_err();
        assert!(
            matches!(refused, Error::RateRange { .. }),
            "{rate}: {refused}"
        );
        assert_eq!(refused.errno(), libc::EINVAL);
        assert!(lend(99, rate).is_err() && recollect(99, Some(rate)).is_err());
    }
    let long = Reservation::in_class("c".repeat(64)).rate(0.1);
    assert_eq!(long.reserve().unwrap_err().errno(), libc::ENAMETOOLONG);
    assert_eq!(daemon.requests_of(CONSORT_RESERVE).len(), 0);
});

isolated!(the_daemons_reasons_come_through, {
    let request = CONSORT_RESERVE;
    let errno = libc::ENOSPC;
    let _daemon = Daemon::with(Manner::Refuse { request, errno });
    let refused = guaranteed(0.3).reserve().unwrap_err();
    assert_eq!(refused.errno(), libc::ENOSPC);
    assert!(refused.to_string().contains(REFUSAL), "{refused}");
});

isolated!(so_do_those_for_which_it_does_not_even_listen, {
    let errno = libc::EAGAIN;
    let _daemon = Daemon::with(Manner::RefuseAll { errno });
    // It has gone before it is asked, after, or in between.
    for _ in 0..200 {
        let refused = guaranteed(0.3).reserve().unwrap_err();
        assert_eq!(refused.errno(), libc::EAGAIN, "{refused}");
        assert!(refused.to_string().contains(REFUSAL), "{refused}");
    }
});

isolated!(one_connection_is_for_all_calls, {
    let daemon = Daemon::start();
    guaranteed(0.3).reserve().unwrap();
    for _ in 0..5 {
        lend(99, 0.1).unwrap();
        recollect(99, None).unwrap();
    }
    assert_eq!(daemon.connections(), 1);
    daemon.kill();
    assert!(matches!(lend(99, 0.1), Err(Error::NoDaemon)));
    let next = Daemon::start();
    lend(99, 0.1).unwrap();
    assert_eq!(next.requests_of(CONSORT_LEND).len(), 1);
});

isolated!(a_daemon_that_has_gone_is_not_asked_before_the_next_one, {
    let daemon = Daemon::start();
    guaranteed(0.3).reserve().unwrap();
    daemon.kill();
    let next = Daemon::start();
    lend(99, 0.1).unwrap();
    assert_eq!(next.requests_of(CONSORT_LEND).len(), 1);
});

isolated!(a_file_that_has_its_number_by_now_is_left_alone, {
    let daemon = Daemon::start();
    let before = open_files();
    guaranteed(0.3).reserve().unwrap();
    // The daemon's end, and what else it opens, is in this process, too: its peer has no name.
    let now = open_files();
    let mut new = now.difference(&before).copied();
    let kept = new.find(|fd| has_named_peer(*fd)).unwrap();
    let other = std::fs::File::open("/dev/null").unwrap();
    // SAFETY: as a program that closes what it does not know, and goes on.
    assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), kept) }, kept);
    lend(99, 0.1).unwrap();
    assert_eq!(daemon.connections(), 2);
    let file = std::fs::read_link(format!("/proc/self/fd/{kept}")).unwrap();
    assert_eq!(file.to_str(), Some("/dev/null"));
});

fn has_named_peer(fd: RawFd) -> bool {
    // SAFETY: zeros are an address of no family.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    let mut length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: no more is written than the length says.
    let found = unsafe { libc::getpeername(fd, (&raw mut address).cast(), &mut length) };
    found == 0 && length as usize > size_of::<libc::sa_family_t>()
}

fn open_files() -> BTreeSet<RawFd> {
    let numbers = std::fs::read_dir("/proc/self/fd").unwrap();
    let is_open = |fd: &RawFd| unsafe { libc::fcntl(*fd, libc::F_GETFD) } >= 0;
    let numbers = numbers.map(|entry| entry.unwrap().file_name().to_str().unwrap().parse());
    let numbers: Vec<RawFd> = numbers.map(Result::unwrap).collect();
    // Without that of the folder itself.
    numbers.into_iter().filter(is_open).collect()
}

isolated!(without_a_daemon_there_is_nothing_to_reserve, {
    assert!(matches!(guaranteed(0.3).reserve(), Err(Error::NoDaemon)));
    assert_eq!(release().unwrap_err().errno(), libc::ENOTCONN);
});
