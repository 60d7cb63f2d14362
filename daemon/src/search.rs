// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that get a reservation are looked for, so many at once: a process may have tens of thousands, and whoever asks
//! something meanwhile waits. The rest get it in the ticks that follow; what they start themselves until then has none
//! either, and is found by looking again.

use std::time::Instant;

use tracing::warn;

use crate::{
    absent::Absent,
    peer::{Processes, Thread},
    server::cpu_time,
    service::Service,
    targets::Target,
    terms::refuse_thread,
    Refusal,
};

/// Threads looked at for one request, and in one tick.
pub(crate) const THREADS_AT_ONCE: usize = 1024;
/// A process that makes threads meanwhile is looked at so often.
const PASSES_MAX: u32 = 8;

/// Whom a reservation is for, as far as it is not known yet.
#[derive(Debug, Default)]
pub(crate) struct Search {
    /// To be looked at again, until that finds nobody new: its number, and when it began.
    process: Option<(i32, u64)>,
    /// A reservation of one thread.
    thread: Option<Thread>,
    /// Processes whose threads are not listed yet.
    processes: Vec<(i32, u64)>,
    /// Threads that were listed, and not looked at yet.
    listed: Vec<i32>,
    /// The process of those that were found last, and when it began.
    of: (i32, u64),
    /// Threads that got the reservation.
    pub added: usize,
    added_before: usize,
    /// One that was found has another reservation.
    pub is_taken: bool,
    passes: u32,
    /// Threads that get it when they are back from another class.
    pub absent: Absent,
}

impl Search {
    /// For the threads of a target. What is in a cgroup follows by itself, and members of a group are bound one by one.
    pub fn new(target: &Target) -> Search {
        let mut search = Search::default();
        match target {
            Target::Thread { pid, tid, start } => {
                let (tid, start) = (*tid, *start);
                search.thread = Some(Thread { tid, start });
                search.of.0 = *pid;
            }
            Target::Process { pid, start } => {
                search.process = Some((*pid, *start));
                search.begin_pass();
            }
            Target::Cgroup { .. } | Target::Group { .. } => {}
        }
        search
    }

    /// The same, and then once for those of other processes.
    pub fn with(target: &Target, others: Vec<(i32, u64)>) -> Search {
        let mut search = Search::new(target);
        search.processes.splice(0..0, others);
        search
    }

    pub fn is_over(&self) -> bool {
        self.thread.is_none() && self.processes.is_empty() && self.listed.is_empty()
    }

    /// Nobody uses what this search is for, nor will.
    pub fn found_nobody(&self) -> bool {
        self.is_over() && self.added == 0
    }

    /// What was found does not count any more: somebody else has it.
    fn end(&mut self) {
        let absent = std::mem::take(&mut self.absent);
        *self = Search {
            absent,
            ..Search::default()
        };
    }

    fn begin_pass(&mut self) {
        self.passes += 1;
        self.added_before = self.added;
        self.processes.extend(self.process);
    }

    /// Up to `count` more threads, and at how many it looked; none of a process that has got another one's number.
    fn next(&mut self, processes: &Processes, count: usize) -> (Vec<Thread>, usize) {
        if let Some(thread) = self.thread.take() {
            return (vec![thread], 1);
        }
        if self.listed.is_empty() {
            let Some(of) = self.processes.pop() else {
                return (Vec::new(), 0);
            };
            self.of = of;
            self.listed = processes.all_threads(of.0);
            self.listed.reverse();
        }
        let (pid, start) = self.of;
        let at = self.listed.len().saturating_sub(count);
        let some = self.listed.split_off(at);
        let looked = some.len().max(1);
        let living = some.into_iter().rev();
        let threads = living.filter_map(|tid| processes.living_thread(pid, tid));
        let threads: Vec<Thread> = threads.collect();
        if processes.is_process(pid, start) {
            return (threads, looked);
        }
        self.listed.clear();
        (Vec::new(), looked)
    }

    /// Called after each look.
    fn look_again(&mut self) {
        let found_more = self.added > self.added_before;
        if self.is_over() && found_more && self.passes < PASSES_MAX {
            self.begin_pass();
        }
    }
}

impl Service {
    /// Gives reservation `id` of the scheduler's to those that its search finds, among `left` threads at most.
    ///
    /// # Errors
    /// What the scheduler says of one that it would not have, though it knows it.
    pub(crate) fn search(
        &mut self,
        id: u32,
        search: &mut Search,
        left: &mut usize,
    ) -> Result<(), Refusal> {
        while *left > 0 && !search.is_over() {
            let (threads, looked) = search.next(&self.processes, *left);
            let pid = search.of.0;
            *left = left.saturating_sub(looked);
            for thread in threads {
                match self.host.add_to_reservation(id, thread) {
                    Ok(()) => search.added += 1,
                    Err(error) => {
                        refuse_thread(&error)?;
                        search.is_taken |= error.errno() == libc::EEXIST;
                        if self.processes.is_in_higher_class(pid, thread) {
                            search.absent.insert(pid, thread);
                        }
                    }
                }
            }
            search.look_again();
        }
        Ok(())
    }

    /// Called a few times a second: goes on with searches, in turn, and lets those in that are back from another class.
    /// The owner of a reservation pays, and waits while its time is used up.
    pub(crate) fn tick_searches(&mut self, now: Instant) {
        let last = self.reservations.searched_for;
        let in_force = self.reservations.in_force.iter();
        let unfinished = in_force.filter(|(_, held)| held.waits_for_threads());
        let mut numbers: Vec<u32> = unfinished.map(|(number, _)| *number).collect();
        numbers.sort_unstable_by_key(|number| (*number <= last, *number));
        let mut left = THREADS_AT_ONCE;
        for number in numbers {
            let held = self.reservations.ledger.get(number);
            let Some(uid) = held.map(|held| held.uid) else {
                continue;
            };
            if left == 0 || self.users.waits_for(uid, now).is_some() {
                continue;
            }
            self.reservations.searched_for = number;
            let began = cpu_time();
            self.go_on_for(number, &mut left);
            let spent = cpu_time().saturating_sub(began);
            self.users.charge_cpu(uid, spent, now);
        }
    }

    fn go_on_for(&mut self, number: u32, left: &mut usize) {
        let Some(in_force) = self.reservations.in_force.get_mut(&number) else {
            return;
        };
        let (id, mut search) = (in_force.id, std::mem::take(&mut in_force.search));
        if let Err(refusal) = self.search(id, &mut search, left) {
            warn!(number, %refusal, "not all threads of a process have its reservation");
            search.end();
        }
        self.add_absent(id, &mut search.absent, left);
        if let Some(in_force) = self.reservations.in_force.get_mut(&number) {
            in_force.search = search;
        }
    }
}
