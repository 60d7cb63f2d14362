// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What a host's tree is made of, and who is added to it: groups, classes, reservations, domains, tasks.

use crate::{
    host::{Host, Task},
    pinned::Pinned,
    policy::*,
};
use std::ptr::null_mut;

/// What a domain is created with.
#[derive(Clone, Copy, Debug)]
pub struct DomainArgs {
    pub order: u32,
    pub grace_ns: u64,
}

impl Host {
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
        self.change_reservation(reservation, rate, period_ns, turn_ns);
        reservation
    }

    pub fn change_reservation(
        &mut self,
        reservation: usize,
        rate: u64,
        period_ns: u64,
        turn_ns: u64,
    ) {
        unsafe {
            let node = &raw mut (*self.groups[reservation].at()).node;
            let period_vtime = core_vtime_of_ns(period_ns, u64::from(WEIGHT_ONE));
            core_tree_set_promise(node, rate, period_vtime, core_vtime_of_ns(turn_ns, rate));
        }
    }

    pub fn set_group_weight(&mut self, g: usize, weight: u64) {
        unsafe { core_tree_set_account_weight(self.groups[g].at(), weight) };
    }

    fn add_group_below(&mut self, parent: *mut group, weight: u64) -> usize {
        let mut g = group::default();

        unsafe {
            g.node.kind = NODE_FAIR as u8;
            g.node.weight = weight;
            g.weight_seen = weight;
            g.node.parent = parent;
            g.node.vtime = (*parent).vmin;
            g.vmin = (*parent).vmin;
            g.level = (*parent).level + 1;
            g.of_one_cpu = (*parent).of_one_cpu;
        }
        self.groups.push(Pinned::new(g));
        self.groups.len() - 1
    }

    pub fn add_domain(&mut self, args: DomainArgs) -> usize {
        let mut d = domain::default();

        d.group.node.kind = NODE_COOP as u8;
        d.group.node.vtime = unsafe { (*self.root()).vmin };
        d.group.vmin = d.group.node.vtime;
        d.order = args.order as u8;
        d.grace_ns = args.grace_ns;
        self.domains.push(Pinned::new(d));
        self.domains.len() - 1
    }

    /// A task that sleeps; a member has published nothing yet.
    pub fn add_task(&mut self, home: Option<usize>, domain: Option<usize>, weight: u64) -> usize {
        let mut m = member::default();

        // What it brings, and gives to a domain that has none in its account.
        self.seats.push(Pinned::new(seat::default()));
        m.spare = self.seats[self.seats.len() - 1].at();
        m.node.kind = NODE_TASK as u8;
        m.node.weight = weight;
        m.due_ns = u64::MAX;
        m.run_due_ns = u64::MAX;
        m.priority = PRIORITY_NONE;
        if let Some(d) = domain {
            m.debt_vtime = self.domains[d].group.node.vtime;
        }
        self.tasks.push(Task {
            member: Pinned::new(m),
            home,
            domain,
            weight,
            pays: null_mut(),
            ran_ns: 0,
            waits_since_ns: 0,
        });
        let t = self.tasks.len() - 1;
        self.arrive(t, 0);
        t
    }
}
