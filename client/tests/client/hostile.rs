// SPDX-License-Identifier: MIT OR Apache-2.0
//! Something else than a daemon answers at the socket.

use crate::daemon::{Daemon, Manner};
use crate::process::isolated;
use consort::{Domain, Next, Standing, NEVER};

fn open_fds() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// A program that joins is on its own and told EPROTO, and nothing is left behind; a member that waits for a daemon goes
/// on alone.
fn check(manner: Manner) {
    let waiting = std::thread::spawn({
        let manner = manner.clone();
        move || {
            let member = Domain::named("early").join().unwrap();
            let _daemon = Daemon::with(manner);
            let mut now_ns = consort::now_ns();
            for _ in 0..20 {
                now_ns += 250_000_000;
                let busy = Next {
                    due_ns: NEVER,
                    best_effort: Some((0, 0)),
                };
                let others = member.poll_at(busy, now_ns).unwrap();
                assert_eq!(others.standing(), Standing::Outside);
                std::thread::yield_now();
            }
        }
    });
    waiting.join().unwrap();
    let before = open_fds();
    let daemon = Daemon::with(manner.clone());
    let member = Domain::named("a").join().unwrap();
    let (errno, text) = member.why_alone().expect("a reason");
    assert_eq!(errno, libc::EPROTO, "{manner:?}");
    assert!(text.contains("same version"), "{text}");
    assert_eq!(member.others().unwrap().standing(), Standing::Outside);
    member.leave().unwrap();
    drop(daemon);
    // The daemon's threads close their ends in their own time; a leak of ours would never go away.
    while open_fds() > before {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

isolated!(short_replies, {
    check(Manner::Short { bytes: 8 });
});
isolated!(long_replies, {
    check(Manner::Long);
});
isolated!(wrong_magic, {
    check(Manner::WrongMagic);
});
isolated!(wrong_version, {
    check(Manner::WrongVersion);
});
isolated!(wrong_type, {
    check(Manner::WrongType);
});
isolated!(impossible_errno, {
    check(Manner::BadErrno);
});
isolated!(no_page, {
    check(Manner::NoPage);
});
isolated!(two_pages, {
    check(Manner::TwoPages);
});
isolated!(empty_page_file, {
    check(Manner::PageOfBytes(0));
});
isolated!(short_page_file, {
    check(Manner::PageOfBytes(4095));
});
isolated!(page_without_magic, {
    check(Manner::PageWithoutMagic);
});
