// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine in virtual time: threads that go one at a time, futexes, and members that are killed or stopped at any access to
//! shared memory. The same seed gives the same run.

use super::plan::Fault;
use consort_userlevel::{Fate, Mistake, Os, Waited, Who};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// When the run is over whatever happens.
const END_NS: u64 = 60_000_000_000;

#[derive(Default)]
struct Thread {
    /// When it goes on; none: it has ended.
    ready_at_ns: Option<u64>,
    /// The futex that it sleeps on.
    sleeps_on: Option<usize>,
    was_woken: bool,
    cpu_ns: u64,
    steps: u64,
    works: u64,
    fault: Option<Fault>,
    is_dead: bool,
    stopped_until_ns: u64,
    /// It died, or was last stopped, while it neither slept nor waited.
    was_lost_awake: bool,
}

struct State {
    now_ns: u64,
    running: usize,
    threads: Vec<Thread>,
    random: u64,
    is_over: bool,
    trace: u64,
}

pub struct Machine {
    state: Mutex<State>,
    turns: Vec<Condvar>,
    mistake: Option<Mistake>,
}

/// The machine as one of its threads has it.
#[derive(Clone)]
pub struct Cpu {
    machine: Arc<Machine>,
    thread: usize,
}

/// Unwinds a thread that was killed, at the end of the run.
pub struct Killed;

impl Machine {
    pub fn new(seed: u64, threads: usize, mistake: Option<Mistake>) -> Arc<Machine> {
        let mut state = State {
            now_ns: 1_000_000_000,
            running: 0,
            threads: Vec::new(),
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            is_over: false,
            trace: seed,
        };
        for _ in 0..threads {
            let ready_at_ns = Some(state.now_ns + state.random() % 1_000_000);
            state.threads.push(Thread {
                ready_at_ns,
                ..Thread::default()
            });
        }
        state.choose();
        Arc::new(Machine {
            state: Mutex::new(state),
            turns: (0..threads).map(|_| Condvar::new()).collect(),
            mistake,
        })
    }

    pub fn plan(&self, thread: usize, fault: Fault) {
        self.lock().threads[thread].fault = Some(fault);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn cpu(self: &Arc<Machine>, thread: usize) -> Cpu {
        Cpu {
            machine: Arc::clone(self),
            thread,
        }
    }

    pub fn now_ns(&self) -> u64 {
        self.lock().now_ns
    }

    /// What happened, in one number.
    pub fn trace(&self) -> u64 {
        self.lock().trace
    }

    /// How many threads were killed.
    pub fn dead(&self) -> usize {
        self.lock().threads.iter().filter(|it| it.is_dead).count()
    }
}

impl State {
    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    /// The thread that goes on first.
    fn choose(&mut self) {
        let live = |thread: &&(usize, &Thread)| thread.1.ready_at_ns.is_some() && !thread.1.is_dead;
        let threads: Vec<_> = self.threads.iter().enumerate().collect();
        let first = threads
            .iter()
            .filter(live)
            .min_by_key(|(i, thread)| (thread.ready_at_ns, *i));
        match first.map(|(i, thread)| (*i, thread.ready_at_ns)) {
            Some((i, Some(at_ns))) => {
                self.running = i;
                self.now_ns = self.now_ns.max(at_ns);
                self.trace = self.trace.rotate_left(5) ^ self.now_ns ^ (i as u64) << 56;
                self.is_over |= self.now_ns > END_NS;
            }
            _ => self.is_over = true,
        }
    }
}

impl Cpu {
    pub fn now(&self) -> u64 {
        self.machine.lock().now_ns
    }

    /// Waits for its first turn.
    pub fn begin(&self) {
        self.pass(self.machine.lock());
    }

    /// Uses the CPU for so long.
    pub fn work(&self, ns: u64) {
        let mut state = self.machine.lock();
        let me = &mut state.threads[self.thread];
        me.cpu_ns += ns;
        me.works += 1;
        if me.fault == Some(Fault::KillAtWork(me.works)) {
            me.fault = Some(Fault::Kill(0));
        }
        self.go_on_at(state, ns);
    }

    /// The thread ends.
    pub fn end(&self) {
        let mut state = self.machine.lock();
        state.threads[self.thread].ready_at_ns = None;
        state.choose();
        self.wake_the_running(&state);
    }

    /// Whether it is stopped, or was until a moment ago.
    pub fn was_stopped(&self, within_ns: u64) -> bool {
        let state = self.machine.lock();
        let until_ns = state.threads[self.thread].stopped_until_ns;
        until_ns > 0 && state.now_ns < until_ns + within_ns
    }

    /// Whether that thread is neither dead nor stopped.
    pub fn is_able(&self, thread: usize) -> bool {
        let state = self.machine.lock();
        let it = &state.threads[thread];
        !it.is_dead && state.now_ns >= it.stopped_until_ns
    }

    /// Whether a thread died, or was last stopped, while it did something, and not asleep on a futex.
    pub fn was_lost_awake(&self, thread: usize) -> bool {
        self.machine.lock().threads[thread].was_lost_awake
    }

    /// What happened to this thread so far is over.
    pub fn is_found(&self) {
        self.machine.lock().threads[self.thread].was_lost_awake = false;
    }

    pub fn random(&self, below: u64) -> u64 {
        self.machine.lock().random() % below
    }

    fn wake_the_running(&self, state: &State) {
        match state.is_over {
            true => self.machine.turns.iter().for_each(Condvar::notify_all),
            false => self.machine.turns[state.running].notify_all(),
        }
    }

    fn go_on_at(&self, mut state: MutexGuard<'_, State>, after_ns: u64) {
        let at_ns = state.now_ns + after_ns;
        let me = &mut state.threads[self.thread];
        me.ready_at_ns = Some(at_ns);
        me.steps += 1;
        match me.fault {
            Some(Fault::Kill(step)) if step <= me.steps => {
                me.was_lost_awake = me.sleeps_on.is_none();
                me.is_dead = true;
                me.sleeps_on = None;
            }
            Some(Fault::Stop(step, for_ns)) if step <= me.steps => {
                me.was_lost_awake = me.sleeps_on.is_none();
                me.fault = None;
                me.stopped_until_ns = at_ns + for_ns;
                me.ready_at_ns = Some(at_ns + for_ns);
            }
            _ => {}
        }
        state.choose();
        self.pass(state);
    }

    fn pass(&self, mut state: MutexGuard<'_, State>) {
        if state.running != self.thread || state.is_over {
            self.wake_the_running(&state);
        }
        while !state.is_over && (state.running != self.thread || state.threads[self.thread].is_dead)
        {
            let turn = &self.machine.turns[self.thread];
            state = turn.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_over && !std::thread::panicking() {
            drop(state);
            std::panic::resume_unwind(Box::new(Killed));
        }
    }
}

impl Os for Cpu {
    fn now_ns(&self) -> u64 {
        self.machine.lock().now_ns
    }

    fn cpu_ns(&self) -> u64 {
        self.machine.lock().threads[self.thread].cpu_ns
    }

    fn wait(&self, word: &AtomicU32, expected: u32, until_ns: u64) -> Waited {
        self.step();
        if word.load(Relaxed) != expected {
            return Waited::Over;
        }
        let mut state = self.machine.lock();
        let at_ns = until_ns.max(state.now_ns).min(END_NS + 1) - state.now_ns + 1000;
        let me = &mut state.threads[self.thread];
        me.sleeps_on = Some(std::ptr::from_ref(word) as usize);
        me.was_woken = false;
        self.go_on_at(state, at_ns);
        self.machine.lock().threads[self.thread].sleeps_on = None;
        Waited::Over
    }

    fn wake(&self, word: &AtomicU32) -> bool {
        self.step();
        let mut state = self.machine.lock();
        let at_ns = state.now_ns + 2000 + state.random() % 40_000;
        let word = std::ptr::from_ref(word) as usize;
        let sleeper = state
            .threads
            .iter_mut()
            .find(|thread| thread.sleeps_on == Some(word) && !thread.is_dead && !thread.was_woken);
        match sleeper {
            Some(thread) => {
                thread.was_woken = true;
                thread.ready_at_ns = Some(at_ns.max(thread.stopped_until_ns));
                true
            }
            None => false,
        }
    }

    fn fate(&self, who: &Who) -> Fate {
        match self.machine.lock().threads[who.tid as usize].is_dead {
            true => Fate::Gone,
            false => Fate::Alive,
        }
    }

    /// Others may go first, for long now and then: another program had the CPU.
    fn step(&self) {
        let mut state = self.machine.lock();
        let pause_ns = match state.random() % 2000 {
            0 => 200_000,
            n if n < 20 => 5_000,
            n => 10 + n % 50,
        };
        self.go_on_at(state, pause_ns);
    }

    fn makes(&self, mistake: Mistake) -> bool {
        self.machine.mistake == Some(mistake)
    }
}
