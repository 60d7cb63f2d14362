// SPDX-License-Identifier: MIT OR Apache-2.0
//! A member without a kernel scheduler: its seat in the memory that it shares with the others of its domain.

use crate::domain::{Terms, Wants};
use crate::layout::Slot;
use crate::poll::{RawNext, Sleeper};
use crate::{fork_guard, Error};
use consort_userlevel::{
    random, weight_of_nice, JoinError, Linux, Lost, Meeting, Member, Newcomer, Runtime, Share, Wish,
};
use std::cell::Cell;
use std::sync::atomic::AtomicU32;

/// What `attached` says to a member of this host.
pub static ATTACHED: AtomicU32 = AtomicU32::new(1);

/// How often a member looks whether newcomers still come to where it is, and who has died.
const TEND_NS: u64 = 250_000_000;

pub struct UserLevel {
    member: Member<Linux>,
    meeting: Meeting,
    tend_at_ns: Cell<u64>,
    is_resting: Cell<bool>,
    entitled: Cell<Entitled>,
    /// In which it has the memory mapped: see fork_guard.rs.
    process: u64,
}

/// What a thread may use, as the kernel has it now.
#[derive(Clone, Copy)]
struct Entitled {
    nice: i32,
    /// On which CPUs it may run.
    cpus: libc::cpu_set_t,
}

impl UserLevel {
    /// Joins the domain of that name, which is made if it is not there. None: a domain of one thread, or no way to share
    /// memory here; the thread is on its own.
    pub fn join(terms: &Terms, runtime: &Runtime) -> Result<Option<UserLevel>, Error> {
        let name: String = terms.name();
        let os = Linux::new();
        if name.is_empty() || !os.can_wait() {
            return Ok(None);
        }
        let Wants::Domain {
            event_ns, order, ..
        } = terms.wants
        else {
            return Ok(None);
        };
        let wanted = consort_userlevel::Terms { event_ns, order };
        // A program that may not, or cannot, is on its own as before.
        let Ok(meeting) = Meeting::attend(runtime, &name, wanted) else {
            return Ok(None);
        };
        let entitled = Entitled::now();
        let newcomer = Newcomer {
            who: os.me(),
            owner: random(),
            share: entitled.share(),
        };
        match Member::join(meeting.table(), os, meeting.token(), wanted, &newcomer) {
            Ok(member) => Ok(Some(UserLevel {
                member,
                meeting,
                tend_at_ns: Cell::new(0),
                is_resting: Cell::new(false),
                entitled: Cell::new(entitled),
                process: fork_guard::number()?,
            })),
            Err(JoinError::Terms(has)) => Err(refusal(has)),
            Err(JoinError::Full | JoinError::Lost) => Ok(None),
        }
    }

    pub fn slot(&self) -> &Slot {
        self.member.slot()
    }

    /// Gives turns to whom they are due, and returns with one.
    ///
    /// # Errors
    /// [`Error::Gone`]: the seat is not this member's any more.
    pub fn poll(&self, next: RawNext) -> Result<(), Error> {
        self.member.poll(wish(next)).map_err(|Lost| Error::Gone)
    }

    /// Sleeps until the due time, or until `sleeper` hears something else.
    ///
    /// # Errors
    /// As [`UserLevel::poll`]; the sleeper's.
    pub fn sleep<S: Sleeper>(&self, next: RawNext, sleeper: &mut S) -> Result<(), Error> {
        if !S::HAS_FDS {
            return self.member.sleep(wish(next)).map_err(|Lost| Error::Gone);
        }
        self.rest(next)?;
        let slept = sleeper.sleep(next.due_ns);
        // A signal handler may have forked, and returned in the child, too.
        if fork_guard::number()? != self.process {
            return Err(Error::Forked);
        }
        self.resume()?;
        slept
    }

    /// The thread will sleep until its due time, or until something else wakes it.
    ///
    /// # Errors
    /// As [`UserLevel::poll`].
    pub fn rest(&self, next: RawNext) -> Result<(), Error> {
        self.is_resting.set(true);
        self.member.go_away(wish(next)).map_err(|Lost| Error::Gone)
    }

    /// It is awake, and waits for its turn; nothing, if it did not rest.
    ///
    /// # Errors
    /// As [`UserLevel::poll`].
    pub fn resume(&self) -> Result<(), Error> {
        match self.is_resting.replace(false) {
            true => self.member.come_back().map_err(|Lost| Error::Gone),
            false => Ok(()),
        }
    }

    /// What polls do beside, now and then. False: the others are elsewhere now.
    pub fn tend(&self, now_ns: u64) -> bool {
        if now_ns < self.tend_at_ns.get() {
            return true;
        }
        self.tend_at_ns.set(now_ns.saturating_add(TEND_NS));
        let entitled = Entitled::now();
        if !self.entitled.replace(entitled).is(&entitled) {
            self.member.change_share(entitled.share());
        }
        self.member.tend(now_ns).is_ok() && self.meeting.is_current()
    }

    /// Whether this member is to look for a daemon now.
    pub fn is_to_look_for_daemon(&self, now_ns: u64) -> bool {
        self.member.is_to_look_for_daemon(now_ns)
    }

    /// This member moves to a daemon, and leaves.
    pub fn move_to_daemon(self) {
        self.member.announce_daemon();
        self.leave();
    }

    pub fn leave(self) {
        if self.member.leave() {
            self.meeting.adjourn();
        }
    }

    /// In a forked child: the seat is its parent's.
    pub fn forget(self) {
        self.meeting.forget();
    }
}

fn wish(next: RawNext) -> Wish {
    Wish {
        due_ns: next.due_ns,
        key: next.key,
        priority: next.priority,
    }
}

fn refusal(has: consort_userlevel::Terms) -> Error {
    let order = ["program", "progress", "service"][has.order.min(2) as usize];
    Error::Refused {
        action: "join",
        errno: libc::EINVAL,
        text: format!(
            "the domain was made with other options: event {} ns, order {order}; \
             join with the same ones, or another domain",
            has.event_ns
        )
        .into(),
    }
}

impl Entitled {
    /// The calling thread's.
    fn now() -> Entitled {
        // SAFETY: all bits zero is a valid set.
        let mut cpus: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the set is as large as said; it stays empty where the kernel has more CPUs than bits.
        unsafe { libc::sched_getaffinity(0, size_of_val(&cpus), &mut cpus) };
        // SAFETY: plain look-up, which is in range for any return value.
        let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        Entitled { nice, cpus }
    }

    fn is(&self, other: &Entitled) -> bool {
        // SAFETY: both sets are whole.
        self.nice == other.nice && unsafe { libc::CPU_EQUAL(&self.cpus, &other.cpus) }
    }

    fn share(&self) -> Share {
        let bit = |cpu: usize| {
            // SAFETY: the CPU's number is below that of the set's bits.
            u64::from(unsafe { libc::CPU_ISSET(cpu, &self.cpus) }) << (cpu % 64)
        };
        let within: u64 = (0..64).map(bit).sum();
        let beyond = (64..libc::CPU_SETSIZE as usize).any(|cpu| bit(cpu) != 0);
        let most = std::thread::available_parallelism();
        Share {
            // More CPUs than bits, or none known: members are not told apart by them.
            cpus: if beyond || within == 0 {
                u64::MAX
            } else {
                within
            },
            cpus_most: most.map_or(1, |cpus| cpus.get() as u32),
            weight: weight_of_nice(self.nice),
        }
    }
}
