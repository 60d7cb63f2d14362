// SPDX-License-Identifier: GPL-2.0 OR MIT
//! One CPU that calls the policy as the kernel host does (kernel/bpf/queue.h), without a kernel around it.

use crate::policy::*;
use std::{ops::Deref, ptr::null_mut};

/// The capacity of everybody outside the classes.
pub const ROOT_WEIGHT: u64 = WEIGHT_ONE as u64 / 4;

/// Something that the policy points to: it stays where it is.
pub struct Pinned<T>(*mut T);

impl<T> Pinned<T> {
    fn new(value: T) -> Self {
        Pinned(Box::into_raw(Box::new(value)))
    }

    pub fn at(&self) -> *mut T {
        self.0
    }
}

impl<T> Drop for Pinned<T> {
    fn drop(&mut self) {
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl<T> Deref for Pinned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        unsafe { &*self.0 }
    }
}

pub struct Task {
    pub member: Pinned<member>,
    /// Its group outside of domains; None is the root.
    pub home: Option<usize>,
    /// The domain that it is in.
    pub domain: Option<usize>,
    /// CPU time received, charged or not.
    pub ran_ns: u64,
    /// Since when it waits.
    pub waits_since_ns: u64,
}

pub struct Host {
    pub place: Pinned<place>,
    pub groups: Vec<Pinned<group>>,
    pub domains: Vec<Pinned<domain>>,
    pub tasks: Vec<Task>,
    pub now_ns: u64,
    pub running: Option<usize>,
    /// How long the running task has run since it was chosen or compared.
    pub uncharged_ns: u64,
}

/// What a domain is created with.
#[derive(Clone, Copy, Debug)]
pub struct DomainArgs {
    pub order: u32,
    pub grace_ns: u64,
}

impl Host {
    /// `vtime` is where virtual time begins: close to its wrap, or not.
    pub fn new(vtime: u64, now_ns: u64, window_ns: u64) -> Self {
        let mut root = place::default();

        root.root.node.kind = NODE_FAIR as u8;
        root.root.node.weight = ROOT_WEIGHT;
        root.root.node.vtime = vtime;
        root.root.vmin = vtime;
        root.top.node.kind = NODE_FAIR as u8;
        root.top.vmin = vtime;
        root.window_ns = window_ns;
        Host {
            place: Pinned::new(root),
            groups: Vec::new(),
            domains: Vec::new(),
            tasks: Vec::new(),
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

    fn group_at(&self, id: Option<usize>) -> *mut group {
        id.map_or(self.root(), |i| self.groups[i].at())
    }

    pub fn add_group(&mut self, parent: Option<usize>, weight: u64) -> usize {
        self.add_group_below(self.group_at(parent), weight)
    }

    /// A class is a group whose parent is the top.
    pub fn add_class(&mut self, capacity: u64) -> usize {
        self.add_group_below(self.top(), capacity)
    }

    /// A class whose reservations are ordered as `kind` says, one of enum node_kind.
    pub fn add_class_of(&mut self, kind: u32, capacity: u64) -> usize {
        let class = self.add_class(capacity);
        unsafe {
            let g = self.groups[class].at();
            (*g).node.kind = kind as u8;
            (*g).capacity = capacity;
            if kind == NODE_RC {
                (*g).vmin = core_rc_vtime(self.now_ns);
            }
        }
        class
    }

    /// A reservation with a period of `period_ns`, in a class whose shortest slice is `turn_ns`.
    pub fn add_reservation(
        &mut self,
        class: usize,
        rate: u64,
        period_ns: u64,
        turn_ns: u64,
    ) -> usize {
        let reservation = self.add_group(Some(class), 0);
        unsafe {
            let node = &raw mut (*self.groups[reservation].at()).node;
            core_tree_set_weight(node, rate);
            (*node).period_vtime = core_vtime_of_ns(period_ns, u64::from(WEIGHT_ONE));
            (*node).turn_vtime = core_vtime_of_ns(turn_ns, rate);
        }
        reservation
    }

    fn add_group_below(&mut self, parent: *mut group, weight: u64) -> usize {
        let mut g = group::default();

        unsafe {
            g.node.kind = NODE_FAIR as u8;
            g.node.weight = weight;
            g.node.parent = parent;
            g.node.vtime = (*parent).vmin;
            g.vmin = (*parent).vmin;
            g.level = (*parent).level + 1;
        }
        self.groups.push(Pinned::new(g));
        self.groups.len() - 1
    }

    pub fn add_domain(&mut self, args: DomainArgs) -> usize {
        let mut d = domain::default();

        d.group.node.kind = NODE_COOP as u8;
        d.group.node.weight = u64::from(WEIGHT_ONE);
        d.group.node.parent = self.root();
        d.group.node.vtime = unsafe { (*self.root()).vmin };
        d.group.vmin = d.group.node.vtime;
        d.group.level = 1;
        d.order = args.order as u8;
        d.grace_ns = args.grace_ns;
        self.domains.push(Pinned::new(d));
        self.domains.len() - 1
    }

    /// A task that sleeps; a member has published nothing yet.
    pub fn add_task(&mut self, home: Option<usize>, domain: Option<usize>, weight: u64) -> usize {
        let mut m = member::default();

        m.node.kind = NODE_TASK as u8;
        m.node.weight = weight;
        m.due_ns = u64::MAX;
        m.priority = PRIORITY_NONE;
        let t = Task {
            member: Pinned::new(m),
            home,
            domain,
            ran_ns: 0,
            waits_since_ns: 0,
        };
        self.tasks.push(t);
        let t = self.tasks.len() - 1;
        unsafe {
            let m = self.member(t);
            (*m).node.parent = self.parent(t);
            (*m).node.vtime = (*(*m).node.parent).vmin;
            if let Some(d) = domain {
                (*m).debt_vtime = self.domains[d].group.node.vtime;
            }
        }
        t
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

    fn parent(&self, t: usize) -> *mut group {
        match self.tasks[t].domain {
            Some(d) => unsafe { &raw mut (*self.domains[d].at()).group },
            None => self.group_at(self.tasks[t].home),
        }
    }

    fn domain(&self, t: usize) -> Option<*mut domain> {
        self.tasks[t].domain.map(|d| self.domains[d].at())
    }

    fn refresh(&self, d: *mut domain) {
        unsafe { core_place_refresh(self.place.at(), d) }
    }

    /// A domain weighs what its active members weigh.
    fn reweigh(&self, d: *mut domain) {
        unsafe {
            if (*d).group.nr_active > 0 {
                core_tree_set_weight(&raw mut (*d).group.node, (*d).group.weight_active);
            }
        }
        self.refresh(d);
    }

    fn activate(&self, t: usize) {
        unsafe {
            core_tree_activate(self.node(t), self.now_ns);
            core_place_activated(self.place.at(), self.node(t));
            (*self.place.at()).nr_runnable += 1;
            if let Some(d) = self.domain(t) {
                core_domain_wake(d, self.member(t));
                self.reweigh(d);
            }
        }
    }

    fn deactivate(&self, t: usize) {
        unsafe {
            core_tree_deactivate(self.node(t));
            core_place_deactivated(self.place.at());
            (*self.place.at()).nr_runnable -= 1;
        }
        if let Some(d) = self.domain(t) {
            self.reweigh(d);
        }
    }

    fn wait(&mut self, t: usize) {
        self.tasks[t].waits_since_ns = self.now_ns;
        match self.domain(t) {
            Some(d) => {
                unsafe { core_domain_enqueue(d, self.member(t), self.now_ns) };
                self.refresh(d);
            }
            None => unsafe { core_tree_enqueue(self.node(t), (*self.node(t)).vtime, 0) },
        }
    }

    fn take(&self, t: usize) {
        match self.domain(t) {
            Some(d) => {
                unsafe { core_domain_dequeue(d, self.member(t)) };
                self.refresh(d);
            }
            None => unsafe { core_tree_dequeue(self.node(t)) },
        }
    }

    fn charge(&mut self, t: usize) {
        let ran_ns = std::mem::take(&mut self.uncharged_ns);

        if ran_ns == 0 {
            return;
        }
        let d = self.domain(t);
        unsafe {
            if let Some(d) = d {
                core_domain_charge_due(d, self.member(t), ran_ns, self.now_ns);
            }
            core_tree_charge(self.node(t), ran_ns);
        }
        if let Some(d) = d {
            self.refresh(d);
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
        }
    }

    pub fn set_weight(&mut self, t: usize, weight: u64) {
        let waits = self.waits(t);

        if waits {
            self.take(t);
        }
        unsafe { core_tree_set_weight(self.node(t), weight) };
        if let (Some(d), true) = (self.domain(t), self.is_active(t)) {
            self.reweigh(d);
        }
        if waits {
            self.wait(t);
        }
    }

    pub fn set_group_weight(&mut self, g: usize, weight: u64) {
        unsafe { core_tree_set_weight(&raw mut (*self.groups[g].at()).node, weight) };
    }

    /// Moves a task to another group or domain; it keeps at most `ahead_ns` of being ahead.
    pub fn relocate(
        &mut self,
        t: usize,
        home: Option<usize>,
        domain: Option<usize>,
        ahead_ns: u64,
    ) {
        let (waits, active) = (self.waits(t), self.is_active(t));

        if waits {
            self.take(t);
        }
        if active {
            self.deactivate(t);
        }
        if let (Some(d), 1) = (self.domain(t), self.tasks[t].member.asleep) {
            unsafe { core_domain_wake(d, self.member(t)) };
            self.refresh(d);
        }
        let joins = domain.filter(|_| domain != self.tasks[t].domain);
        self.tasks[t].home = home;
        self.tasks[t].domain = domain;
        unsafe {
            let ahead = core_vtime_of_ns(ahead_ns, (*self.node(t)).weight);
            core_tree_move(self.node(t), self.parent(t), ahead);
            if let Some(d) = joins {
                let m = self.member(t);
                (*m).due_ns = self.now_ns;
                (*m).priority = PRIORITY_NONE;
                (*m).debt_vtime = self.domains[d].group.node.vtime;
            }
        }
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
        unsafe {
            core_member_publish(m, due_ns, priority, key, self.now_ns);
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

        if let Some(d) = self.domain(t) {
            unsafe { core_domain_sleep(d, self.member(t)) };
            self.refresh(d);
        }
        self.deactivate(t);
        self.charge(t);
    }

    /// A sleeper was awake without a word to us, and sleeps again, until another time.
    pub fn sleep_again(&mut self, t: usize, due_ns: u64) {
        self.publish(t, due_ns, PRIORITY_NONE, 0);
        if let Some(d) = self.domain(t) {
            unsafe { core_domain_sleep(d, self.member(t)) };
            self.refresh(d);
        }
    }

    /// Charges the running task for what it ran.
    pub fn settle(&mut self) {
        if let Some(t) = self.running {
            self.charge(t);
        }
    }

    /// What the policy chooses now.
    pub fn choose(&self) -> choice {
        let mut c = choice::default();
        let running = self.running.map_or(null_mut(), |t| self.node(t));

        unsafe { core_place_choose(self.place.at(), running, self.now_ns, &mut c) };
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
        unsafe { core_place_choose(self.place.at(), null_mut(), self.now_ns, c) };
    }

    /// The CPU chooses who runs; the running task may go on. None if nobody wants the CPU.
    pub fn dispatch(&mut self) -> Option<choice> {
        self.settle();
        let c = self.choose();
        self.follow(c)
    }

    /// `next`, which waits, is taken, and `prev` waits.
    fn exchange(&mut self, next: usize, prev: usize) {
        if self.domain(next).is_some() || self.domain(prev).is_some() {
            self.take(next);
            self.wait(prev);
            return;
        }
        let (out, into) = (self.node(next), self.node(prev));
        self.tasks[prev].waits_since_ns = self.now_ns;
        unsafe { core_tree_exchange(out, into, (*into).vtime, 0) };
    }

    /// Makes the chosen task run.
    pub fn follow(&mut self, c: choice) -> Option<choice> {
        let next = (0..self.tasks.len()).find(|&t| self.node(t) == c.task);

        if next == self.running {
            return next.map(|_| c);
        }
        match (next, self.running) {
            (Some(next), Some(prev)) => self.exchange(next, prev),
            (Some(next), None) => self.take(next),
            (None, Some(prev)) => self.wait(prev),
            (None, None) => (),
        }
        self.running = next;
        next.map(|_| c)
    }

    /// When the running task is to be compared again, if its slice is `slice_ns`.
    pub fn compare_at_ns(&self, slice_ns: u64) -> u64 {
        self.running.map_or(u64::MAX, |t| unsafe {
            core_place_compare_at_ns(self.place.at(), self.node(t), self.now_ns, slice_ns)
        })
    }
}
