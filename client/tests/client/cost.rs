// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a poll costs that has nothing to yield for: its instructions, counted one by one, the clock's included.
#![cfg(target_arch = "x86_64")]

use crate::daemon::Daemon;
use crate::process::isolated;
use consort::{Domain, Next, NEVER};

/// The promise is for optimised builds; others are only kept from growing without anybody noticing.
const AT_MOST: u64 = if cfg!(debug_assertions) { 1500 } else { 190 };
const ROUNDS: usize = 8;

/// Stops the traced child before and after `work`, so that its parent counts in between.
fn marked(work: impl FnOnce()) {
    // SAFETY: a breakpoint trap, which the tracing parent handles.
    unsafe { std::arch::asm!("int3", options(nomem)) };
    work();
    // SAFETY: as above.
    unsafe { std::arch::asm!("int3", options(nomem)) };
}

/// Stops of the child: at a mark of its own, after a step, or at its end.
#[derive(PartialEq)]
enum Stop {
    Mark,
    Step,
    End(i32),
}

fn next_stop(child: libc::pid_t, how: libc::c_uint) -> Stop {
    unsafe {
        let none = std::ptr::null_mut::<libc::c_void>();
        assert_eq!(libc::ptrace(how, child, none, none), 0);
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        if !libc::WIFSTOPPED(status) {
            return Stop::End(status);
        }
        assert_eq!(libc::WSTOPSIG(status), libc::SIGTRAP);
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let at = std::ptr::from_mut(&mut info);
        assert_eq!(libc::ptrace(libc::PTRACE_GETSIGINFO, child, none, at), 0);
        const SI_KERNEL: i32 = 0x80; // a trap instruction, rather than a step
        match info.si_code {
            SI_KERNEL => Stop::Mark,
            _ => Stop::Step,
        }
    }
}

/// Instructions between each pair of marks.
fn count(child: libc::pid_t) -> Vec<u64> {
    let mut counts = Vec::new();
    loop {
        match next_stop(child, libc::PTRACE_CONT) {
            Stop::Mark => {}
            Stop::Step => panic!("stepped without being told to"),
            Stop::End(status) => {
                assert_eq!(status, 0);
                return counts;
            }
        }
        let mut steps = 0;
        while next_stop(child, libc::PTRACE_SINGLESTEP) == Stop::Step {
            steps += 1;
        }
        counts.push(steps);
    }
}

/// consort.h, as far as it is needed here.
mod c {
    use std::ffi::{c_char, c_int, c_void};

    #[repr(C)]
    pub struct Next {
        pub due_ns: u64,
        pub key: u64,
        pub priority: u32,
        pub best_effort: u32,
    }

    extern "C" {
        pub fn consort_join(
            domain: *const c_char,
            options: *const c_void,
            member: *mut *mut c_void,
        ) -> c_int;
        pub fn consort_leave(member: *mut c_void) -> c_int;
        pub fn consort_poll(member: *mut c_void, next: *const Next, others: *mut [u64; 4])
            -> c_int;
    }
}

fn c_polls() {
    let mut member = std::ptr::null_mut();
    let next = c::Next {
        due_ns: NEVER,
        key: 2,
        priority: 1,
        best_effort: 1,
    };
    let mut others = [0; 4];
    unsafe {
        assert_eq!(
            c::consort_join(c"a".as_ptr(), std::ptr::null(), &mut member),
            0
        );
        for _ in 0..ROUNDS {
            marked(|| {
                c::consort_poll(member, std::hint::black_box(&next), &mut others);
            });
        }
        assert_eq!(others[0], NEVER);
        assert_eq!(c::consort_leave(member), 0);
    }
}

fn rust_polls() {
    let member = Domain::named("a").join().unwrap();
    let next = Next {
        due_ns: NEVER,
        best_effort: Some((1, 2)),
    };
    for _ in 0..ROUNDS {
        marked(|| {
            let others = member.poll(std::hint::black_box(next));
            std::hint::black_box(&others);
        });
    }
    member.leave().unwrap();
}

fn check(polls: fn()) {
    let _daemon = Daemon::start();
    let child = unsafe { libc::fork() };
    if child == 0 {
        unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) };
        unsafe { libc::raise(libc::SIGSTOP) };
        polls();
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert!(libc::WIFSTOPPED(status));
    let counts = count(child);
    assert_eq!(counts.len(), ROUNDS);
    // The first round resolves symbols; the clock's page may be rewritten under a reader's eyes.
    let least = counts.iter().min().unwrap();
    eprintln!("a poll that returns: {least} instructions ({counts:?})");
    assert!(*least <= AT_MOST, "{least} instructions");
}

isolated!(a_poll_that_returns_costs_few_instructions, {
    check(rust_polls);
});
isolated!(so_does_one_from_c, {
    check(c_polls);
});
