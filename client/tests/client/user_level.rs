// SPDX-License-Identifier: MIT OR Apache-2.0
//! Members where no daemon is: they cooperate among themselves, and move when one comes or goes. The tests move the clock that
//! polls are told.

use crate::daemon::{Daemon, Manner};
use crate::process::{isolated, scratch_folder};
use consort::{Domain, Error, Member, Next, Order, Standing, NEVER};
use consort_abi::*;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const RETRY_NS: u64 = 250_000_000;

/// Chooses a host, and a directory of this test's own.
pub fn choose(host: &str) -> PathBuf {
    let folder = scratch_folder(&format!("runtime-{host}"));
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o700)).unwrap();
    std::env::set_var("CONSORT_HOST", host);
    std::env::set_var("CONSORT_RUNTIME_DIR", &folder);
    folder
}

/// Whether somebody is in a domain there.
fn has_domain(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().count() > 0
}

pub fn join(name: &str) -> Member {
    Domain::named(name).event_ns(1_000_000).join().unwrap()
}

pub fn busy() -> Next {
    Next {
        due_ns: NEVER,
        best_effort: Some((1, 0)),
    }
}

fn standing(member: &Member) -> Standing {
    member.others().unwrap().standing()
}

isolated!(members_cooperate_without_a_daemon, {
    let folder = choose("");
    pin_to_one_cpu();
    let (running, most, polls) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let member = join("studio");
                assert_eq!(standing(&member), Standing::Member);
                for _ in 0..100 {
                    member.poll(Next::due(consort::now_ns() + 200_000)).unwrap();
                    most.fetch_max(running.fetch_add(1, Relaxed) + 1, Relaxed);
                    polls.fetch_add(1, Relaxed);
                    running.fetch_sub(1, Relaxed);
                }
                member.leave().unwrap();
            });
        }
    });
    assert_eq!(polls.load(Relaxed), 300);
    assert!(most.load(Relaxed) <= 2, "{most:?} had a turn at a time");
    assert_eq!(
        std::fs::read_dir(&folder).unwrap().count(),
        0,
        "the last one removes"
    );
    std::fs::remove_dir(folder).unwrap();
});

pub fn pin_to_one_cpu() {
    pin_to(0);
}

/// Binds the calling thread to the nth of its CPUs. False: there is none.
fn pin_to(nth: usize) -> bool {
    // SAFETY: all bits zero is a valid set; the calls are about the calling thread, and are told the set's size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &mut set), 0);
        let mut cpus = (0..1024).filter(|&cpu| libc::CPU_ISSET(cpu, &set));
        let Some(cpu) = cpus.nth(nth) else {
            return false;
        };
        libc::CPU_ZERO(&mut set);
        libc::CPU_SET(cpu, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &set), 0);
    }
    true
}

isolated!(members_bound_to_different_cpus_have_turns_side_by_side, {
    let folder = choose("user");
    let (has_turn, first_has_turn) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let other = scope.spawn(move || {
            // A machine of one CPU has nothing to show.
            let has_second_cpu = pin_to(1);
            first_has_turn.recv().unwrap();
            let member = join("studio");
            if has_second_cpu {
                member.poll(busy()).unwrap();
            }
        });
        pin_to_one_cpu();
        let first = join("studio");
        first.poll(busy()).unwrap();
        has_turn.send(()).unwrap();
        // The first one keeps its turn, and does not poll: were the other one to wait for it, it would be skipped.
        other.join().unwrap();
        assert_eq!(standing(&first), Standing::Member);
    });
    std::fs::remove_dir_all(folder).unwrap();
});

isolated!(
    a_poll_makes_no_system_call_while_nobody_else_wants_the_cpu,
    {
        let folder = choose("user");
        // SAFETY: the child only calls what is tested, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let member = join("studio");
            let now_ns = consort::now_ns();
            member.poll_at(busy(), now_ns).unwrap();
            // SAFETY: from here on any system call but the last one kills the child.
            let refused =
                unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_STRICT, 0, 0, 0) };
            for _ in 0..500 {
                let _ = member.poll_at(busy(), now_ns);
            }
            // SAFETY: ends the child.
            unsafe { libc::syscall(libc::SYS_exit, libc::c_long::from(refused)) };
        }
        let mut status = -1;
        // SAFETY: our child; the pointer is valid.
        unsafe { libc::waitpid(child, &mut status, 0) };
        assert_eq!(status, 0, "wait status of the child");
        // It has not left: its file, which names nothing by now, is there.
        std::fs::remove_dir_all(folder).unwrap();
    }
);

isolated!(members_move_to_a_daemon_that_comes_and_back_when_it_goes, {
    let folder = choose("");
    let member = join("studio");
    let mut now_ns = consort::now_ns();
    let mut poll = |ns| {
        now_ns += ns;
        member.poll_at(busy(), now_ns).unwrap();
    };
    poll(0);
    assert!(has_domain(&folder));
    let daemon = Daemon::start();
    while daemon.requests_of(CONSORT_JOIN).is_empty() || has_domain(&folder) {
        poll(RETRY_NS / 20);
        std::thread::yield_now();
    }
    assert_eq!(
        standing(&member),
        Standing::Member,
        "in the kernel's domain"
    );
    daemon.page(0).answer(0, |slot| slot.yield_by_ns = 0);
    daemon.kill();
    poll(2 * RETRY_NS);
    poll(2 * RETRY_NS);
    assert!(has_domain(&folder), "back among the others");
    assert_eq!(standing(&member), Standing::Member);
    member.leave().unwrap();
    std::fs::remove_dir(folder).unwrap();
});

isolated!(a_host_that_is_chosen_is_the_only_one, {
    let folder = choose("user");
    let daemon = Daemon::with(Manner::Honest);
    let member = join("studio");
    member.poll(busy()).unwrap();
    assert_eq!(standing(&member), Standing::Member);
    assert!(daemon.requests().is_empty());
    drop(member);
    std::env::set_var("CONSORT_HOST", "none");
    let alone = join("studio");
    alone.poll(busy()).unwrap();
    assert_eq!(standing(&alone), Standing::Outside);
    assert!(daemon.requests().is_empty());
    drop(alone);
    std::env::set_var("CONSORT_HOST", "best");
    let error = Domain::named("studio").join().err().unwrap();
    assert!(matches!(error, Error::UnknownHost { .. }), "{error}");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    std::fs::remove_dir(folder).unwrap();
});

isolated!(other_options_than_the_domain_s_are_refused, {
    let folder = choose("user");
    std::thread::scope(|scope| {
        let _member = join("studio");
        let other = scope.spawn(|| {
            let other = Domain::named("studio").order(Order::Service);
            other.event_ns(1_000_000).join().err().unwrap()
        });
        assert_eq!(other.join().unwrap().errno(), libc::EINVAL);
    });
    std::fs::remove_dir(folder).unwrap();
});

isolated!(
    a_private_domain_and_an_unusable_directory_leave_the_thread_alone,
    {
        let folder = choose("user");
        let private = Domain::private().join().unwrap();
        assert_eq!(standing(&private), Standing::Outside);
        drop(private);
        std::env::set_var("CONSORT_RUNTIME_DIR", folder.join("missing/too"));
        let alone = join("studio");
        assert_eq!(standing(&alone), Standing::Outside);
        alone.poll(busy()).unwrap();
        drop(alone);
        std::fs::remove_dir(folder).unwrap();
    }
);

isolated!(
    a_forked_child_is_no_member_and_takes_nothing_from_its_parent,
    {
        let folder = choose("user");
        let member = join("studio");
        member.poll(busy()).unwrap();
        // SAFETY: the child only calls what is tested, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_turned_away = matches!(member.poll(busy()), Err(Error::Forked));
            drop(member);
            let joined = Domain::named("studio").event_ns(1_000_000).join();
            let polled =
                joined.is_ok_and(|own| own.poll(Next::due(consort::now_ns() + 1000)).is_ok());
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(!is_turned_away || !polled)) };
        }
        let mut status = 0;
        // SAFETY: our child; the pointer is valid. The parent polls meanwhile: the child waits for its turn.
        while unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == 0 {
            member.poll(busy()).unwrap();
        }
        assert_eq!(status, 0, "the child's checks");
        assert_eq!(standing(&member), Standing::Member);
        member.poll(busy()).unwrap();
        drop(member);
        std::fs::remove_dir(folder).unwrap();
    }
);

isolated!(file_descriptors_end_a_sleep, {
    let folder = choose("user");
    let member = join("studio");
    let fds = unsafe { (libc::epoll_create1(0), libc::eventfd(1, 0)) };
    let mut wanted = libc::epoll_event {
        events: libc::EPOLLIN as u32,
        u64: 7,
    };
    assert_eq!(
        unsafe { libc::epoll_ctl(fds.0, libc::EPOLL_CTL_ADD, fds.1, &mut wanted) },
        0
    );
    let mut epoll = consort::Epoll::new(fds.0, 4);
    member
        .poll_epoll(Next::due(NEVER), consort::now_ns(), &mut epoll)
        .unwrap();
    assert_eq!(epoll.ready().len(), 1);
    assert!(matches!(
        member.poll(Next::due(NEVER)),
        Err(Error::NothingToWaitFor)
    ));
    drop(member);
    std::fs::remove_dir(folder).unwrap();
});
