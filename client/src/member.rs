// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thread's membership in a domain, from joining to leaving.

use crate::choice::Choice;
use crate::domain::Terms;
use crate::epoll::{Epoll, EpollSleeper};
use crate::layout::{Slot, Variables};
use crate::link::{Pending, Place, RETRY_NS};
use crate::poll::{self, ClockOnly, Next, Others, RawNext, Sleeper, Turn};
use crate::process::Process;
use crate::shared_state::Shared;
use crate::spin::{self, SpinWatch};
use crate::user_level::UserLevel;
use crate::why::Why;
use crate::{clock, fork_guard, slack, trace, Error};
use consort_userlevel::Runtime;
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

mod at_exit;
mod at_user_level;
mod inside;
mod joining;
mod variables;

pub(crate) use variables::Said;

/// How long joining and leaving wait for the daemon.
pub const DAEMON_WAIT: Duration = Duration::from_secs(1);

/// What `State::process` is after leaving. Not 0, which is a forked child's number before it has asked for one.
const LEFT: u64 = u64::MAX;

/// What `attached` says to a thread on its own.
static NOT_ATTACHED: AtomicU32 = AtomicU32::new(0);

/// The calling thread's membership. Dropping it leaves the domain; so does the thread's end.
///
/// It stays with its thread, and does not follow into a forked child: there every call fails with
/// [`Error::Forked`] until the child joins for itself.
pub struct Member {
    state: Rc<State>,
}

impl Member {
    pub(crate) fn join(terms: &Terms) -> Result<Member, Error> {
        State::join(terms).map(|state| Member { state })
    }

    pub(crate) fn state(&self) -> &Rc<State> {
        &self.state
    }

    /// Publishes what the thread wants next and returns when it is its turn: at once and without a system
    /// call if it has work and nobody else's is more urgent; after yielding if somebody's is; at `due_ns` if it has
    /// nothing to do before. May return earlier than that when a signal handler has run.
    ///
    /// # Errors
    /// [`Error::PriorityRange`], [`Error::DueRange`], [`Error::NothingToWaitFor`] for neither a due time nor a
    /// best-effort event; [`Error::Forked`]; [`Error::System`].
    #[inline]
    pub fn poll(&self, next: Next) -> Result<Others, Error> {
        self.poll_at(next, clock::now_ns())
    }

    /// [`Member::poll`] for a caller that has just read the clock. A `now_ns` in the past only delays
    /// yielding.
    ///
    /// # Errors
    /// As [`Member::poll`].
    #[inline]
    pub fn poll_at(&self, next: Next, now_ns: u64) -> Result<Others, Error> {
        let next = next.raw()?;
        if self.state.poll_swiftly(next, now_ns) {
            if next.due_ns <= now_ns {
                trace::due_after_poll(next.due_ns, Some(now_ns));
            }
            return Ok(Others::read(self.state.slot()));
        }
        let others = self.state.poll_slowly(next, now_ns, &mut ClockOnly)?;
        trace::due_after_poll(next.due_ns, None);
        Ok(others)
    }

    /// [`Member::poll`] that, where it sleeps, also returns when a file descriptor of `epoll` is ready; what is ready is
    /// then in `epoll.ready()`. `next` may be empty: it waits for the file descriptors alone.
    ///
    /// # Errors
    /// As [`Member::poll`], without [`Error::NothingToWaitFor`].
    pub fn poll_epoll(&self, next: Next, now_ns: u64, epoll: &mut Epoll) -> Result<Others, Error> {
        epoll.clear();
        let next = next.raw()?;
        let others = self.state.poll(next, now_ns, &mut EpollSleeper(epoll))?;
        trace::due_after_poll(next.due_ns, None);
        Ok(others)
    }

    /// Publishes what the thread wants next, without a poll: for a loop whose events change while it runs.
    ///
    /// # Errors
    /// As [`Member::poll`]'s range errors; [`Error::Forked`].
    #[inline]
    pub fn publish(&self, next: Next, now_ns: u64) -> Result<(), Error> {
        self.state.publish(next.raw()?, now_ns)
    }

    /// What the scheduler says right now. It may bring the yield-by time forward at any moment.
    ///
    /// # Errors
    /// [`Error::Forked`].
    #[inline]
    pub fn others(&self) -> Result<Others, Error> {
        self.state.others()
    }

    /// Why the daemon has not let the thread in: an errno, and what it said. `None`: it has, or no daemon is there.
    pub fn why_alone(&self) -> Option<(i32, String)> {
        let why = self.state.why_alone.borrow();
        why.as_ref().map(|error| (error.errno(), error.to_string()))
    }

    /// Why the scheduler last demoted this member, in words by its [`Display`](std::fmt::Display); `None`: it never did.
    pub fn why(&self) -> Option<Why> {
        self.state.why()
    }

    /// Leaves the domain and waits at most a second for the daemon to confirm it.
    ///
    /// # Errors
    /// What the daemon says against it. The thread has left all the same.
    pub fn leave(self) -> Result<(), Error> {
        self.state.leave(Some(Instant::now() + DAEMON_WAIT))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // Whoever wants to know calls `leave`.
        let _ = self.state.leave(Some(Instant::now() + DAEMON_WAIT));
    }
}

/// Shared by the handle and the thread's exit. The first fields are all that most polls look at.
#[repr(C)]
pub(crate) struct State {
    slot: Cell<NonNull<Slot>>,
    attached: Cell<NonNull<AtomicU32>>,
    variables: Cell<NonNull<Variables>>,
    fork_word: &'static AtomicU64,
    /// The process that joined; [`LEFT`] after leaving.
    process: Cell<u64>,
    /// Polls since it last slept.
    polls: Cell<u32>,
    terms: Terms,
    spin: SpinWatch,
    alone: Box<Slot>,
    variables_alone: Box<Variables>,
    pub(crate) shared: RefCell<Vec<Arc<Shared>>>,
    choice: Choice,
    /// At most one of these two.
    place: RefCell<Option<Place>>,
    user_level: RefCell<Option<UserLevel>>,
    user_level_at_ns: Cell<u64>,
    /// Where it meets the others at user level.
    runtime: Runtime,
    /// In a call that a signal handler may interrupt, and make another one.
    is_inside: Cell<bool>,
    pending: RefCell<Option<Pending>>,
    retry_at_ns: Cell<u64>,
    /// Of a daemon that was found.
    awaits_answer: Cell<bool>,
    check_at_ns: Cell<u64>,
    tid: i32,
    slack_ns: Cell<Option<u64>>,
    pub(crate) why_alone: RefCell<Option<Error>>,
}

impl State {
    fn join(terms: &Terms) -> Result<Rc<State>, Error> {
        at_exit::discard_parents_membership()?;
        let process = Process::current()?;
        let state = Rc::new(State::on_its_own(terms)?);
        if state.choice.allows_kernel() {
            state.join_now(&mut process.lock())?;
        }
        if !state.is_attached() {
            state.join_user_level(clock::now_ns())?;
        }
        state.slack_ns.set(slack::sharpen());
        at_exit::leave_at_exit(&state);
        Ok(state)
    }

    fn on_its_own(terms: &Terms) -> Result<State, Error> {
        let alone = Box::new(Slot::vacant());
        let variables_alone = Box::<Variables>::default();
        Ok(State {
            slot: Cell::new(NonNull::from(&*alone)),
            attached: Cell::new(NonNull::from(&NOT_ATTACHED)),
            variables: Cell::new(NonNull::from(&*variables_alone)),
            fork_word: fork_guard::word()?,
            process: Cell::new(fork_guard::number()?),
            polls: Cell::new(0),
            terms: *terms,
            spin: SpinWatch::default(),
            alone,
            variables_alone,
            shared: RefCell::default(),
            choice: Choice::of_environment()?,
            place: RefCell::new(None),
            user_level: RefCell::new(None),
            user_level_at_ns: Cell::new(0),
            runtime: Runtime::of_user(),
            is_inside: Cell::new(false),
            pending: RefCell::new(None),
            retry_at_ns: Cell::new(0),
            awaits_answer: Cell::new(false),
            check_at_ns: Cell::new(0),
            // SAFETY: no arguments, never fails.
            tid: unsafe { libc::gettid() },
            slack_ns: Cell::new(None),
            why_alone: RefCell::new(None),
        })
    }

    fn stay_alone(&self) {
        self.point_nowhere();
        *self.place.borrow_mut() = None;
        self.leave_user_level();
    }

    fn point_nowhere(&self) {
        self.slot.set(NonNull::from(&*self.alone));
        self.attached.set(NonNull::from(&NOT_ATTACHED));
        self.move_shared(None);
        match self.is_alive() {
            true => self.move_variables(&self.variables_alone),
            // In a forked child they are not mapped; after leaving nobody asks.
            false => self.variables.set(NonNull::from(&*self.variables_alone)),
        }
    }

    #[inline]
    pub fn slot(&self) -> &Slot {
        // SAFETY: points into `alone`, or into the memory that `place` or `user_level` keeps mapped; a forked child,
        // where that is not mapped, is turned away by `check_alive` before.
        unsafe { self.slot.get().as_ref() }
    }

    pub(crate) fn place_now(&self) -> Option<Place> {
        self.place.borrow().clone()
    }

    #[inline]
    pub(crate) fn is_attached(&self) -> bool {
        // SAFETY: as in `slot`.
        unsafe { self.attached.get().as_ref() }.load(Ordering::Relaxed) != 0
    }

    #[inline]
    fn is_alive(&self) -> bool {
        self.fork_word.load(Ordering::Relaxed) == self.process.get()
    }

    #[inline]
    pub(crate) fn check_alive(&self) -> Result<(), Error> {
        if self.is_alive() {
            Ok(())
        } else {
            Err(self.why_dead())
        }
    }

    #[cold]
    fn why_dead(&self) -> Error {
        match self.process.get() {
            LEFT => Error::Left,
            _ => Error::Forked,
        }
    }

    /// The poll that has nothing to do but publish and return: true, it has. False, nothing was done. It asks without
    /// errors, whose dropping would cost more than all the rest.
    #[inline(always)]
    pub fn poll_swiftly(&self, next: RawNext, now_ns: u64) -> bool {
        let polls = self.polls.get().wrapping_add(1);
        self.polls.set(polls);
        if polls.is_multiple_of(spin::POLLS)
            || !self.is_alive()
            || !poll::is_in_range(next, now_ns)
            || !self.is_attached()
            || poll::decide(next, now_ns, self.slot(), self.terms.keys_compare) != Turn::Return
        {
            return false;
        }
        poll::publish(self.slot(), next);
        true
    }

    #[inline]
    pub fn poll<S: Sleeper>(
        &self,
        next: RawNext,
        now_ns: u64,
        sleeper: &mut S,
    ) -> Result<Others, Error> {
        if self.poll_swiftly(next, now_ns) {
            return Ok(Others::read(self.slot()));
        }
        self.poll_slowly(next, now_ns, sleeper)
    }

    /// The poll of which [`State::poll_swiftly`] said that there is more to do.
    #[cold]
    #[inline(never)]
    pub fn poll_slowly<S: Sleeper>(
        &self,
        next: RawNext,
        now_ns: u64,
        sleeper: &mut S,
    ) -> Result<Others, Error> {
        self.check_alive()?;
        poll::check_range(next, now_ns)?;
        let Some(_inside) = self.go_inside() else {
            return Ok(Others::read(self.slot()));
        };
        self.spin.look(self.polls.get());
        self.tend(now_ns);
        if !self.is_attached() {
            return self.poll_alone(next, now_ns, sleeper);
        }
        let slot = self.slot();
        let turn = poll::decide(next, now_ns, slot, self.terms.keys_compare);
        poll::publish(slot, next); // it may be a new one
        if self.user_level.borrow().is_some() {
            return self.poll_user_level(next, turn, sleeper);
        }
        match turn {
            Turn::Return => {}
            Turn::Yield => poll::yield_cpu(slot),
            Turn::Sleep => self.sleep(slot, next, sleeper)?,
        }
        Ok(Others::read(slot))
    }

    fn poll_alone<S: Sleeper>(
        &self,
        next: RawNext,
        now_ns: u64,
        sleeper: &mut S,
    ) -> Result<Others, Error> {
        if poll::decide_alone(next, now_ns) == Turn::Sleep {
            self.sleep(self.slot(), next, sleeper)?;
        }
        Ok(Others::nobody())
    }

    fn sleep<S: Sleeper>(&self, slot: &Slot, next: RawNext, sleeper: &mut S) -> Result<(), Error> {
        self.polls.set(0);
        poll::sleep(slot, next, sleeper)
    }

    /// Why the scheduler last demoted the member; `None`: it never did.
    pub fn why(&self) -> Option<Why> {
        Why::read(self.slot().why.load(Ordering::Relaxed))
    }

    /// A daemon that was killed cannot say so in the page: now and then, look whether it still holds its end.
    fn check_connection(&self, now_ns: u64) {
        if now_ns < self.check_at_ns.get() {
            return;
        }
        self.check_at_ns.set(now_ns.saturating_add(RETRY_NS));
        if let Ok(process) = Process::current() {
            if let Some(mut link) = process.try_lock() {
                link.check();
            }
        }
    }

    /// Whether the domain orders by the keys that programs publish.
    pub fn keys_compare(&self) -> bool {
        self.terms.keys_compare
    }

    #[inline]
    pub fn publish(&self, next: RawNext, now_ns: u64) -> Result<(), Error> {
        self.check_alive()?;
        poll::check_range(next, now_ns)?;
        if now_ns >= self.check_at_ns.get() || !self.is_attached() {
            self.tend_once(now_ns);
        }
        poll::publish(self.slot(), next);
        Ok(())
    }

    /// Publishes, and begins to sleep, in whatever the program sleeps in; [`State::resume`] ends it.
    pub fn rest(&self, next: RawNext, now_ns: u64) -> Result<(), Error> {
        self.publish(next, now_ns)?;
        if let Some(_inside) = self.go_inside() {
            poll::begin_sleep(self.slot());
            self.rest_at_user_level(next);
        }
        Ok(())
    }

    pub fn resume(&self) {
        if !self.is_alive() {
            return;
        }
        if let Some(_inside) = self.go_inside() {
            poll::end_sleep(self.slot());
            self.resume_at_user_level();
        }
    }

    /// What polls do beside, for a thread that is too busy to poll: notices the end of the daemon, and joins
    /// again.
    #[cold]
    #[inline(never)]
    fn tend(&self, now_ns: u64) {
        self.check_connection(now_ns);
        self.tend_user_level(now_ns);
        if !self.is_attached() {
            self.stay_alone();
        }
        if self.place.borrow().is_none() {
            self.try_to_rejoin(now_ns);
        }
        if !self.is_attached() {
            // A domain with other options, say: the thread goes on alone and asks again.
            let _ = self.join_user_level(now_ns);
        }
    }

    #[inline]
    pub fn others(&self) -> Result<Others, Error> {
        self.check_alive()?;
        if self.is_attached() {
            Ok(Others::read(self.slot()))
        } else {
            Ok(Others::nobody())
        }
    }

    /// Leaves; waits for the daemon's answer if there is a deadline. Once only.
    pub fn leave(&self, deadline: Option<Instant>) -> Result<(), Error> {
        if self.process.get() == LEFT {
            return Ok(());
        }
        let Some(_inside) = self.go_inside() else {
            return Err(Error::Interrupted);
        };
        let is_child = !self.is_alive();
        self.process.set(LEFT);
        if let Some(slack_ns) = self.slack_ns.take() {
            slack::set(slack_ns);
        }
        let asked = self.pending.borrow_mut().take();
        let place = self.place.borrow_mut().take();
        self.point_nowhere();
        match self.user_level.take() {
            Some(seat) if is_child => seat.forget(),
            Some(seat) => seat.leave(),
            None => {}
        }
        let (place, ticket) = match (place, asked) {
            (Some(place), _) => (place, None),
            (None, Some(asked)) => (asked.place, Some(asked.ticket)),
            (None, None) => return Ok(()),
        };
        if is_child {
            return Ok(());
        }
        let mut link = Process::current()?.lock();
        link.leave(&place, ticket, self.tid, deadline)
    }
}
