// SPDX-License-Identifier: MIT OR Apache-2.0
//! A member without a kernel scheduler: its seat in the memory that it shares with the others of its domain.

use crate::domain::Terms;
use crate::layout::Slot;
use crate::poll::{RawNext, Sleeper};
use crate::Error;
use consort_userlevel::{
    directory, random, weight_of_nice, JoinError, Linux, Lost, Meeting, Member, Newcomer, Wish,
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
}

impl UserLevel {
    /// Joins the domain of that name, which is made if it is not there. None: a domain of one thread, or no way to share
    /// memory here; the thread is on its own.
    pub fn join(terms: &Terms) -> Result<Option<UserLevel>, Error> {
        let name: String = terms.name();
        if name.is_empty() {
            return Ok(None);
        }
        let wanted = consort_userlevel::Terms {
            event_ns: terms.request.event_ns,
            order: terms.request.order,
        };
        // Whoever may not, or cannot, is on its own as before.
        let Ok(meeting) = Meeting::attend(&directory(), &name, wanted) else {
            return Ok(None);
        };
        let os = Linux::new();
        let newcomer = newcomer(&os);
        match Member::join(meeting.table(), os, meeting.token(), wanted, &newcomer) {
            Ok(member) => Ok(Some(UserLevel {
                member,
                meeting,
                tend_at_ns: Cell::new(0),
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
        self.member
            .go_away(wish(next))
            .map_err(|Lost| Error::Gone)?;
        let slept = sleeper.sleep(next.due_ns);
        self.member.come_back().map_err(|Lost| Error::Gone)?;
        slept
    }

    /// What polls do beside, now and then. False: the others are elsewhere now.
    pub fn tend(&self, now_ns: u64) -> bool {
        if now_ns < self.tend_at_ns.get() {
            return true;
        }
        self.tend_at_ns.set(now_ns.saturating_add(TEND_NS));
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

fn newcomer(os: &Linux) -> Newcomer {
    let (cpus, cpus_most) = cpus();
    // SAFETY: plain look-up of the calling thread's nice value, which is in range for any return value.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    Newcomer {
        who: os.me(),
        owner: random(),
        cpus,
        cpus_most,
        weight: weight_of_nice(nice),
    }
}

/// On which CPUs the thread may run, as bits, and how many of them it has.
fn cpus() -> (u64, u32) {
    let most = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
    // SAFETY: all bits zero is a valid set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is as large as said.
    let known = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) } == 0;
    let bit = |cpu: usize| {
        // SAFETY: the CPU's number is below that of the set's bits.
        u64::from(unsafe { libc::CPU_ISSET(cpu, &set) }) << (cpu % 64)
    };
    let beyond = (64..libc::CPU_SETSIZE as usize).any(|cpu| bit(cpu) != 0);
    match known && !beyond {
        true => ((0..64).map(bit).sum(), most),
        // More CPUs than bits: members are not told apart by them.
        false => (u64::MAX, most),
    }
}
