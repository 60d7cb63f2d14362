// SPDX-License-Identifier: GPL-2.0 OR MIT
//! One CPU that calls the policy as the kernel host does (kernel/bpf/queue.h), without a kernel around it.

use crate::{pinned::Pinned, policy::*};
use std::ptr::null_mut;

/// The capacity of everybody outside the classes.
pub const ROOT_WEIGHT: u64 = WEIGHT_ONE as u64 / 4;

pub struct Task {
    pub member: Pinned<member>,
    /// Its account; None is the root.
    pub home: Option<usize>,
    /// The domain that it is in.
    pub domain: Option<usize>,
    /// What it was given last.
    pub weight: u64,
    /// The seat that was picked for its run.
    pub pays: *mut tree_node,
    /// CPU time received, charged or not.
    pub ran_ns: u64,
    /// Since when it waits.
    pub waits_since_ns: u64,
}

/// Slices as slice.h has them; without them the tests set the place's quantum.
#[derive(Clone, Copy)]
pub struct Slices {
    pub granularity_ns: u64,
    pub min_slice_ns: u64,
}

pub struct Host {
    pub place: Pinned<place>,
    pub groups: Vec<Pinned<group>>,
    pub domains: Vec<Pinned<domain>>,
    /// One that each task has brought; which member or domain has it now, the policy says.
    pub seats: Vec<Pinned<seat>>,
    pub tasks: Vec<Task>,
    pub slices: Option<Slices>,
    pub now_ns: u64,
    pub running: Option<usize>,
    /// How long the running task has run since it was chosen or compared.
    pub uncharged_ns: u64,
}

impl Host {
    /// `vtime` is where virtual time begins: close to its wrap, or not.
    pub fn new(vtime: u64, now_ns: u64, window_ns: u64) -> Self {
        let mut root = place::default();

        root.root.node.kind = NODE_FAIR as u8;
        root.root.node.weight = ROOT_WEIGHT;
        root.root.node.vtime = vtime;
        root.root.vmin = vtime;
        root.root.of_one_cpu = 1;
        root.top.node.kind = NODE_FAIR as u8;
        root.top.vmin = vtime;
        root.top.of_one_cpu = 1;
        root.window_ns = window_ns;
        root.members_ns = u64::MAX;
        root.nr_cpus = 1;
        Host {
            place: Pinned::new(root),
            groups: Vec::new(),
            domains: Vec::new(),
            seats: Vec::new(),
            tasks: Vec::new(),
            slices: None,
            now_ns,
            running: None,
            uncharged_ns: 0,
        }
    }

    pub fn root(&self) -> *mut group {
        unsafe { &raw mut (*self.place.at()).root }
    }

    pub fn top(&self) -> *mut group {
        unsafe { &raw mut (*self.place.at()).top }
    }

    pub fn group_at(&self, id: Option<usize>) -> *mut group {
        id.map_or(self.root(), |i| self.groups[i].at())
    }

    pub fn member(&self, t: usize) -> *mut member {
        self.tasks[t].member.at()
    }

    pub fn node(&self, t: usize) -> *mut tree_node {
        unsafe { &raw mut (*self.member(t)).node }
    }

    pub fn is_active(&self, t: usize) -> bool {
        self.tasks[t].member.node.active != 0
    }

    pub fn waits(&self, t: usize) -> bool {
        self.tasks[t].member.node.ready.queued != 0
    }

    pub fn task_of(&self, n: *mut tree_node) -> Option<usize> {
        (0..self.tasks.len()).find(|&t| self.node(t) == n)
    }

    fn domain(&self, t: usize) -> Option<*mut domain> {
        self.tasks[t].domain.map(|d| self.domains[d].at())
    }

    fn refresh(&self, t: usize) {
        if let Some(d) = self.domain(t) {
            unsafe { core_place_refresh(self.place.at(), d) }
        }
    }

    fn count(&mut self, more: i32) {
        unsafe {
            let pl = self.place.at();
            (*pl).nr_runnable = (*pl).nr_runnable.wrapping_add_signed(more);
            if let Some(s) = self.slices {
                (*pl).quantum_ns =
                    core_slice_ns(s.granularity_ns, s.min_slice_ns, (*pl).nr_runnable);
            }
        }
    }

    /// Tells the accounts above a task that it has become active, or ceases to be.
    fn count_load(&self, t: usize, more: bool) {
        unsafe {
            let load = core_load_of_weight((*self.node(t)).weight);
            let account = self.group_at(self.tasks[t].home);
            let (load, nr) = if more {
                (load, 1)
            } else {
                (load.wrapping_neg(), u32::MAX)
            };
            core_tree_load(account, load, nr);
        }
    }

    /// An inactive task comes to its account, or to its domain's seat there; without room for that it is on its own.
    pub fn arrive(&mut self, t: usize, lead_ns: u64) {
        let account = self.group_at(self.tasks[t].home);

        unsafe {
            (*self.node(t)).weight = self.tasks[t].weight;
            self.tasks[t].pays = self.node(t);
            if self
                .domain(t)
                .is_some_and(|d| core_domain_has_room(d, account) == 0)
            {
                self.tasks[t].domain = None;
            }
            match self.domain(t) {
                Some(d) => core_seat_join(d, self.member(t), account, lead_ns),
                None => core_tree_move(self.node(t), account, lead_ns),
            }
        }
    }

    /// Takes an inactive task out of its account, and of its domain's seats. Returns the lead that it takes along.
    fn depart(&mut self, t: usize) -> u64 {
        unsafe {
            let Some(d) = self.domain(t) else {
                return core_tree_take_lead_ns(self.node(t));
            };
            if (*self.member(t)).asleep != 0 {
                core_domain_wake(d, self.member(t));
            }
            let lead_ns = core_member_lead_ns(self.member(t));
            core_seat_leave(self.member(t));
            core_place_deactivated(self.place.at());
            core_place_refresh(self.place.at(), d);
            lead_ns
        }
    }

    fn activate(&mut self, t: usize) {
        self.tasks[t].pays = self.node(t);
        self.count_load(t, true);
        unsafe {
            match self.domain(t) {
                Some(_) => core_seat_activate(self.member(t), self.now_ns),
                None => core_tree_activate(self.node(t), self.now_ns),
            }
            core_place_activated(self.place.at(), self.own_seat(t));
        }
        self.count(1);
        if let Some(d) = self.domain(t) {
            unsafe { core_domain_wake(d, self.member(t)) };
            self.refresh(t);
        }
    }

    fn deactivate(&mut self, t: usize) {
        unsafe {
            match self.domain(t) {
                Some(_) => core_seat_deactivate(self.member(t), self.now_ns),
                None => core_tree_deactivate(self.node(t)),
            }
        }
        self.count_load(t, false);
        self.count(-1);
    }

    fn put_in(&mut self, t: usize) {
        self.tasks[t].waits_since_ns = self.now_ns;
        unsafe {
            match self.domain(t) {
                Some(_) => core_seat_enqueue(self.member(t), self.now_ns),
                None => core_tree_enqueue(self.node(t)),
            }
            core_place_wait(self.place.at(), self.member(t), self.now_ns);
        }
    }

    fn take_out(&self, t: usize) {
        unsafe {
            match self.domain(t) {
                Some(_) => core_seat_dequeue(self.member(t)),
                None => core_tree_dequeue(self.node(t)),
            }
            core_place_wait_no_more(self.place.at(), self.member(t));
        }
    }

    fn wait(&mut self, t: usize) {
        self.put_in(t);
        self.refresh(t);
    }

    fn take(&self, t: usize) {
        if self.waits(t) {
            self.take_out(t);
            self.refresh(t);
        }
    }

    /// With what a task takes part in its account: a member's seat, else its own node.
    pub fn own_seat(&self, t: usize) -> *mut tree_node {
        match self.tasks[t].domain {
            Some(_) => unsafe { &raw mut (*(*self.member(t)).seat).node },
            None => self.node(t),
        }
    }

    /// The seat that pays for a task's run: the one that was picked, if it still is its domain's.
    pub fn pays(&self, t: usize) -> *mut tree_node {
        let (m, n) = (&*self.tasks[t].member, self.tasks[t].pays);

        unsafe {
            if self.tasks[t].domain.is_none() {
                return self.node(t);
            }
            if u32::from((*n).kind) == NODE_SEAT
                && (*core_seat_of_node(n)).domain == (*m.seat).domain
            {
                return n;
            }
            &raw mut (*m.seat).node
        }
    }

    fn charge(&mut self, t: usize) {
        let ran_ns = std::mem::take(&mut self.uncharged_ns);

        if ran_ns == 0 {
            return;
        }
        let n = self.pays(t);
        unsafe {
            if let Some(d) = self.domain(t) {
                core_domain_charge_due(d, self.member(t), ran_ns, self.now_ns);
            }
            match self.domain(t) {
                Some(_) => core_seat_charge(self.member(t), n, ran_ns),
                None => core_tree_charge(n, ran_ns),
            }
            if let Some(d) = self.domain(t) {
                core_coop_charge(d, self.member(t), ran_ns);
                if (*d).upcoming.queued != 0 || !(*d).indebted.top.is_null() {
                    self.refresh(t);
                }
            }
            if self.place.nr_blocked > 0 {
                core_place_unblock(self.place.at(), n);
            }
        }
    }

    /// A sleeping task wakes, and waits.
    pub fn wake(&mut self, t: usize) {
        if !self.is_active(t) {
            unsafe { (*self.member(t)).interrupted = 0 };
            self.activate(t);
            self.wait(t);
        }
    }

    /// A waiting task is taken away: it is stopped, or ends.
    pub fn stop_waiting(&mut self, t: usize) {
        if self.waits(t) {
            self.take(t);
            self.deactivate(t);
            unsafe { core_place_deactivated(self.place.at()) };
        }
    }

    pub fn set_weight(&mut self, t: usize, weight: u64) {
        self.tasks[t].weight = weight;
        self.relocate(t, self.tasks[t].home, self.tasks[t].domain);
    }

    /// Moves a task to another group or domain, or takes it out and puts it back. What it was it is again afterwards.
    pub fn relocate(&mut self, t: usize, home: Option<usize>, domain: Option<usize>) {
        let (waits, active) = (self.waits(t), self.is_active(t));

        self.take(t);
        if active {
            self.deactivate(t);
            unsafe { core_place_deactivated(self.place.at()) };
        }
        let lead_ns = self.depart(t);
        if let Some(d) = domain.filter(|_| domain != self.tasks[t].domain) {
            let m = self.member(t);
            unsafe {
                (*m).due_ns = self.now_ns;
                (*m).run_due_ns = self.now_ns;
                (*m).priority = PRIORITY_NONE;
                (*m).debt_vtime = self.domains[d].group.node.vtime;
                (*m).served = 0;
            }
        }
        self.tasks[t].home = home;
        self.tasks[t].domain = domain;
        self.arrive(t, lead_ns);
        if active {
            self.activate(t);
        }
        if waits {
            self.wait(t);
        }
    }

    /// Time passes; whoever runs uses it.
    pub fn pass(&mut self, ns: u64) {
        self.now_ns += ns;
        if let Some(t) = self.running {
            self.uncharged_ns += ns;
            self.tasks[t].ran_ns += ns;
        }
    }

    /// What the running member's next poll says. Read when it gives the CPU up: call `dispatch` or `sleep` next.
    pub fn publish(&mut self, t: usize, due_ns: u64, priority: u32, key: u64) {
        let m = self.member(t);
        let d = self.domain(t).expect("no member publishes");
        unsafe {
            core_member_publish(m, d, due_ns, priority, key, self.now_ns);
            (*m).interrupted = 0;
        }
    }

    /// The running member will lose the CPU, if it does, in the middle of an event.
    pub fn interrupt(&mut self) {
        if let Some(t) = self.running.filter(|&t| self.tasks[t].domain.is_some()) {
            unsafe { (*self.member(t)).interrupted = 1 };
        }
    }

    /// The running task goes to sleep, in its domain until its due time. Call `dispatch` next.
    pub fn sleep(&mut self) {
        let Some(t) = self.running.take() else {
            return;
        };
        self.sleep_in_domain(t);
        self.deactivate(t);
        self.charge(t);
        unsafe { core_place_deactivated(self.place.at()) };
    }

    /// A sleeper was awake without a word to us, and sleeps again, until another time.
    pub fn sleep_again(&mut self, t: usize, due_ns: u64) {
        self.publish(t, due_ns, PRIORITY_NONE, 0);
        self.sleep_in_domain(t);
    }

    fn sleep_in_domain(&self, t: usize) {
        if let Some(d) = self.domain(t) {
            unsafe { core_domain_sleep(d, self.member(t)) };
            self.refresh(t);
        }
    }

    /// Charges the running task for what it ran.
    pub fn settle(&mut self) {
        if let Some(t) = self.running {
            self.charge(t);
        }
    }

    /// Those that overslept count no more, as a choice finds out first.
    pub fn settle_sleepers(&self) {
        unsafe { while core_place_settle(self.place.at(), self.now_ns) != 0 {} }
    }

    /// What the policy chooses now.
    pub fn choose(&self) -> choice {
        let mut c = choice::default();
        let (running, pays) = match self.running {
            Some(t) => (self.node(t), self.pays(t)),
            None => (null_mut(), null_mut()),
        };

        unsafe { core_place_choose(self.place.at(), running, pays, self.now_ns, &mut c) };
        c
    }

    /// Whom another CPU, which does not know who runs here, would take.
    pub fn look(&self) -> choice {
        let mut c = choice {
            looks: 1,
            ..choice::default()
        };

        self.choose_by(&mut c);
        c
    }

    /// The choice among those that wait.
    pub fn choose_by(&self, c: &mut choice) {
        let none = null_mut();

        unsafe { core_place_choose(self.place.at(), none, none, self.now_ns, c) };
    }

    /// The CPU chooses who runs; the running task may go on. None if nobody wants the CPU.
    pub fn dispatch(&mut self) -> Option<choice> {
        self.settle();
        let c = self.choose();
        self.follow(c)
    }

    /// `next`, which waits, is taken, and `prev` waits.
    fn exchange(&mut self, next: usize, prev: usize) {
        let (out, into) = (self.node(next), self.node(prev));
        let (from, to) = unsafe { ((*out).parent, (*into).parent) };

        if from != to && (self.domain(next).is_some() || self.domain(prev).is_some()) {
            self.take_out(next);
            self.put_in(prev);
        } else {
            self.tasks[prev].waits_since_ns = self.now_ns;
            unsafe {
                match self.domain(prev) {
                    _ if from != to => core_tree_exchange(out, into),
                    Some(_) => {
                        core_seat_exchange(self.member(next), self.member(prev), self.now_ns)
                    }
                    None => core_group_exchange(to, out, into),
                }
                core_place_wait_no_more(self.place.at(), self.member(next));
                core_place_wait(self.place.at(), self.member(prev), self.now_ns);
            }
        }
        if self.tasks[next].domain != self.tasks[prev].domain {
            self.refresh(next);
        }
        self.refresh(prev);
    }

    /// Makes the chosen task run.
    pub fn follow(&mut self, c: choice) -> Option<choice> {
        let next = self.task_of(c.task);

        match (next, self.running) {
            (Some(next), Some(prev)) if next != prev => self.exchange(next, prev),
            (Some(next), None) => self.take(next),
            (None, Some(prev)) => self.wait(prev),
            _ => (),
        }
        self.running = next;
        if let Some(t) = next {
            self.tasks[t].pays = c.pays;
            unsafe { (*self.node(t)).has_run = 1 };
        }
        next.map(|_| c)
    }

    /// When the running task is to be compared again, if its slice is `slice_ns`.
    pub fn compare_at_ns(&self, slice_ns: u64) -> u64 {
        self.running.map_or(u64::MAX, |t| unsafe {
            core_place_compare_at_ns(self.place.at(), self.pays(t), self.now_ns, slice_ns)
        })
    }
}
