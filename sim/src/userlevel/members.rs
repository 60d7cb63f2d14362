// SPDX-License-Identifier: MIT OR Apache-2.0
//! Members in that machine, and the rules that every run is held to.

use super::machine::{Cpu, Killed, Machine};
use super::plan::{Plan, MS};
use consort_userlevel::{Lost, Member, Newcomer, Share, Shared, Table, Terms, Who, Wish};
use serde::Serialize;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Nobody waits for longer than this while nobody has a turn,
const STALL_NS: u64 = 20 * MS;
/// or, where a member without a turn was lost while it was awake, deciding who is next, than this.
const STALL_IN_DECISION_NS: u64 = 100 * MS;
/// The longest event of all members.
const EVENT_NS: u64 = MS;

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// In virtual time.
    pub end_ns: u64,
    /// How often a member went on after a poll.
    pub turns: u64,
    /// Turns given to others, and members that were skipped.
    pub handovers: u64,
    pub skipped: u64,
    /// The most by which one that slept was served after its due time.
    pub late_ns_max: u64,
    /// The longest time in which nobody had a turn while somebody wanted one.
    pub stall_ns_max: u64,
    /// Rules that were broken.
    pub broken: Vec<String>,
    /// What happened, in one number: the same for the same plan.
    pub trace: u64,
}

/// What the rules know.
#[derive(Default)]
struct Watched {
    /// Which members have a turn, as they see it.
    turns: Vec<bool>,
    /// Since when each has wanted one.
    wants_since_ns: Vec<u64>,
    /// Since when each could have had a turn beside those that have one; MAX: it cannot.
    room_since_ns: Vec<u64>,
    /// When a member last came or went on.
    sign_ns: u64,
    broken: Vec<String>,
    /// Some member was killed or stopped in the middle of a decision.
    was_lost_in_decision: bool,
    finished: usize,
    turns_had: u64,
    late_ns_max: u64,
    stall_ns_max: u64,
}

struct Run {
    table: Table,
    plan: Plan,
    watched: Mutex<Watched>,
}

// SAFETY: the table is of atomics, in memory that outlives the run.
unsafe impl Send for Run {}
// SAFETY: as above.
unsafe impl Sync for Run {}

/// Runs a plan. The same one gives the same run.
///
/// # Panics
/// Where the plan is not [`Plan::check`]ed: without members, say.
pub fn run(plan: &Plan) -> Outcome {
    // SAFETY: all zero is what new shared memory is.
    let mut memory = unsafe { Box::<Shared>::new_zeroed().assume_init() };
    // SAFETY: the memory lives until all threads have ended, below.
    let table = unsafe { Table::new(NonNull::from(&mut *memory)) };
    table.found(1, terms_of(plan));
    let machine = Machine::new(plan.seed, plan.members, plan.mistake);
    for planned in &plan.faults {
        machine.plan(planned.member, planned.fault);
    }
    let watched = Watched {
        turns: vec![false; plan.members],
        wants_since_ns: vec![u64::MAX; plan.members],
        room_since_ns: vec![u64::MAX; plan.members],
        ..Watched::default()
    };
    let run = Arc::new(Run {
        table,
        plan: plan.clone(),
        watched: Mutex::new(watched),
    });
    let threads: Vec<_> = (0..plan.members)
        .map(|i| {
            let (run, cpu) = (Arc::clone(&run), machine.cpu(i));
            std::thread::spawn(move || {
                let lived = catch_unwind(AssertUnwindSafe(|| live(&run, &cpu, i)));
                if lived.is_err_and(|why| !why.is::<Killed>()) {
                    run.watched().broken.push(format!("member {i} panicked"));
                    cpu.end();
                }
            })
        })
        .collect();
    for thread in threads {
        // Whatever ended it is in `broken` already.
        let _ = thread.join();
    }
    let killed = machine.dead();
    let mut watched = run.watched();
    if watched.finished + killed < plan.members {
        let finished = watched.finished;
        watched
            .broken
            .push(format!("stuck: {finished} members came to their end"));
    }
    let header = table.header();
    Outcome {
        end_ns: machine.now_ns(),
        turns: watched.turns_had,
        handovers: header.handovers.load(Relaxed),
        skipped: header.skipped.load(Relaxed),
        late_ns_max: watched.late_ns_max,
        stall_ns_max: watched.stall_ns_max,
        broken: watched.broken.clone(),
        trace: machine.trace(),
    }
}

fn terms_of(plan: &Plan) -> Terms {
    Terms {
        event_ns: EVENT_NS,
        order: plan.order as u32,
    }
}

/// A member's life: it polls between chunks of work, and sleeps now and then until its next due event.
fn live(run: &Run, cpu: &Cpu, i: usize) {
    cpu.begin();
    let newcomer = Newcomer {
        who: Who {
            pid: 1,
            tid: i as u32,
            started: 1,
            pid_space: 1,
        },
        owner: i as u64 + 1,
        share: Share {
            cpus: run.plan.bound_to(i).map_or(u64::MAX, |cpu| 1 << cpu),
            cpus_most: run.plan.bound_to(i).map_or(run.plan.cpus, |_| 1),
            weight: 1 << 20,
        },
    };
    let terms = terms_of(&run.plan);
    let Ok(mut member) = Member::join(run.table, cpu.clone(), 1, terms, &newcomer) else {
        run.watched().broken.push(format!("member {i} cannot join"));
        return cpu.end();
    };
    let mut due_ns = cpu.now() + cpu.random(run.plan.period_ns);
    for poll in 0..run.plan.polls {
        let works_ns = cpu.random(MS) + 1000;
        cpu.work(works_ns);
        while due_ns <= cpu.now() {
            due_ns += run.plan.period_ns;
        }
        // One on its own does nothing else, from its first poll on.
        let sleeps = (cpu.random(8) == 0 || run.plan.members == 1) && run.plan.period_ns < 100 * MS;
        let priority = if sleeps { u32::MAX } else { 0 };
        let wish = Wish {
            due_ns,
            key: u64::from(poll),
            priority,
        };
        run.comes(cpu, i, if sleeps { due_ns } else { cpu.now() });
        let polled = match sleeps {
            true => member.sleep(wish),
            false => member.poll(wish),
        };
        if polled == Err(Lost) {
            let Ok(again) = Member::join(run.table, cpu.clone(), 1, terms, &newcomer) else {
                run.watched()
                    .broken
                    .push(format!("member {i} cannot join again"));
                return cpu.end();
            };
            member = again;
            let again = member.poll(Wish {
                priority: 0,
                ..wish
            });
            if again == Err(Lost) {
                run.watched()
                    .broken
                    .push(format!("member {i} loses a new seat at once"));
            }
        }
        run.goes_on(cpu, i, due_ns, sleeps);
    }
    run.comes(cpu, i, u64::MAX);
    member.leave();
    run.watched().finished += 1;
    cpu.end();
}

impl Run {
    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Member `i` polls, and wants its next turn from then on.
    fn comes(&self, cpu: &Cpu, i: usize, wants_at_ns: u64) {
        let mut watched = self.watched();
        watched.turns[i] = false;
        watched.wants_since_ns[i] = wants_at_ns;
        cpu.is_found();
        watched.sign_ns = cpu.now();
        self.look_for_room(cpu.now(), &mut watched);
    }

    /// A CPU that idles is somebody's who wants it and may run there.
    fn look_for_room(&self, now_ns: u64, watched: &mut Watched) {
        let running: Vec<usize> = (0..self.plan.members)
            .filter(|&i| watched.turns[i])
            .collect();
        for i in 0..self.plan.members {
            let since_ns = watched.room_since_ns[i].max(watched.wants_since_ns[i]);
            let idle_ns = now_ns.saturating_sub(since_ns);
            let is_told = watched.broken.len() < 10;
            if self.plan.faults.is_empty() && idle_ns > STALL_NS && is_told {
                watched.broken.push(format!(
                    "idle: member {i} waited beside a CPU for {idle_ns} ns"
                ));
            }
            let own = self.plan.bound_to(i);
            let is_full = running.len() >= self.plan.cpus as usize
                || own.is_some() && running.iter().any(|&j| self.plan.bound_to(j) == own);
            let before_ns = watched.room_since_ns[i];
            watched.room_since_ns[i] = match is_full || watched.turns[i] {
                true => u64::MAX,
                false => before_ns.min(now_ns),
            };
        }
    }

    /// For how long nobody has had a turn, that can use one, while somebody wanted one.
    fn idle_ns(&self, cpu: &Cpu, watched: &Watched) -> u64 {
        let able = |i: &usize| cpu.is_able(*i);
        if (0..self.plan.members)
            .filter(able)
            .any(|i| watched.turns[i])
        {
            return 0;
        }
        let wants = (0..self.plan.members)
            .filter(able)
            .map(|i| watched.wants_since_ns[i]);
        let since_ns = wants.min().unwrap_or(u64::MAX).max(watched.sign_ns);
        cpu.now().saturating_sub(since_ns)
    }

    /// Member `i` has a turn.
    fn goes_on(&self, cpu: &Cpu, i: usize, due_ns: u64, slept: bool) {
        let mut watched = self.watched();
        let now_ns = cpu.now();
        let idle_ns = self.idle_ns(cpu, &watched);
        // One that was stopped there goes on some time, and finishes it: what it writes is old by then.
        let is_lost = |i: usize| !watched.turns[i] && cpu.was_lost_awake(i);
        watched.was_lost_in_decision |= (0..self.plan.members).any(is_lost);
        let limit_ns = match watched.was_lost_in_decision {
            true => STALL_IN_DECISION_NS,
            false => STALL_NS,
        };
        if !cpu.was_stopped(limit_ns) {
            watched.stall_ns_max = watched.stall_ns_max.max(idle_ns);
        }
        if idle_ns > limit_ns && !cpu.was_stopped(limit_ns) {
            watched
                .broken
                .push(format!("stall: nobody had a turn for {idle_ns} ns"));
        }
        let late_ns = now_ns.saturating_sub(due_ns);
        let is_faultless = self.plan.faults.is_empty();
        // Every other member may have an event that was due before, and the CPU may be another program's for a while.
        let latest_ns = (self.plan.members as u64 + 2) * MS + MS;
        if is_faultless && slept && late_ns > latest_ns {
            watched
                .broken
                .push(format!("late: member {i} by {late_ns} ns"));
        }
        watched.turns_had += 1;
        if slept {
            watched.late_ns_max = watched.late_ns_max.max(late_ns);
        }
        watched.turns[i] = true;
        watched.wants_since_ns[i] = u64::MAX;
        watched.sign_ns = now_ns;
        let running = watched.turns.iter().filter(|&&turn| turn).count();
        if is_faultless && running > self.plan.cpus as usize {
            watched
                .broken
                .push(format!("two turns: {running} on {} CPUs", self.plan.cpus));
        }
        let own = self.plan.bound_to(i);
        let shares = |&j: &usize| j != i && watched.turns[j] && self.plan.bound_to(j) == own;
        if let Some(j) = (0..self.plan.members).find(shares) {
            if is_faultless && own.is_some() {
                watched
                    .broken
                    .push(format!("two turns: members {i} and {j} on one CPU"));
            }
        }
        self.look_for_room(now_ns, &mut watched);
    }
}
