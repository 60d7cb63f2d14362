// SPDX-License-Identifier: GPL-2.0 OR MIT
//! function.h: what a group's function publishes for members that say nothing themselves.

mod follow;
mod period;
mod pipeline;
mod plan;
mod user;

use crate::policy::*;

const US: u64 = 1_000;
const MS: u64 = 1_000 * US;
const NEVER_NS: u64 = u64::MAX;

/// A group whose roles are all played, by members of one account; nobody chooses among them but the test.
struct Group {
    function: Box<function>,
    _domain: Box<domain>,
    _seat: Box<seat>,
    /// Roles point to them: they stay where they are.
    members: Box<[member]>,
    /// What the plans of roles are written in.
    plans: Vec<Vec<u64>>,
}

impl Group {
    fn new(kind: function_kind, roles: usize) -> Self {
        let (mut function, mut domain, mut seat) = (
            Box::<function>::default(),
            Box::<domain>::default(),
            Box::<seat>::default(),
        );
        let at: *mut function = &mut *function;

        function.kind = kind;
        function.zero_ns = NEVER_NS;
        function.is_booted = 1;
        function.nr_roles = roles as u32;
        domain.function = at;
        seat.domain = &mut *domain;
        let mut members: Box<[member]> = (0..roles).map(|_| member::default()).collect();
        for (number, m) in members.iter_mut().enumerate() {
            let r = &mut function.roles[number];

            m.role = r;
            m.seat = &mut *seat;
            m.node.weight = WEIGHT_ONE.into();
            r.function = at;
            r.member = m;
            r.number = number as u32;
            r.from_ns = NEVER_NS;
        }
        Self {
            function,
            _domain: domain,
            _seat: seat,
            members,
            plans: Vec::new(),
        }
    }

    fn role(&mut self, number: usize) -> &mut role {
        &mut self.function.roles[number]
    }

    fn member(&mut self, number: usize) -> &mut member {
        &mut self.members[number]
    }

    fn wake(&mut self, number: usize, now_ns: u64) {
        let m = self.member(number);
        m.node.active = 1;
        unsafe { core_function_wake(m, now_ns) }
    }

    fn sleep(&mut self, number: usize, now_ns: u64) {
        let m = self.member(number);
        unsafe { core_function_sleep(m, now_ns) };
        m.node.active = 0;
    }

    fn publish(&mut self, number: usize, now_ns: u64) {
        unsafe { core_function_publish(self.member(number), now_ns) }
    }

    /// It has had the CPU all the time since then.
    fn ran(&mut self, number: usize, began_ns: u64, now_ns: u64) {
        let total_ns = self.role(number).total_ns + now_ns - began_ns;
        unsafe { core_function_ran(self.member(number), total_ns, began_ns, now_ns) }
    }

    fn is_on(&mut self, number: usize, now_ns: u64) -> bool {
        unsafe { core_role_is_on(self.role(number), now_ns) != 0 }
    }

    fn give_plan(&mut self, number: usize, intervals: &[(u64, u64)], repeat_ns: u64) {
        let counts = intervals.len() as u64 | (intervals.len() as u64) << 32;
        let mut words = vec![repeat_ns, counts];
        words.extend(intervals.iter().flat_map(|it| [it.0, it.1]));
        self.role(number).plan = words.as_mut_ptr().cast();
        self.plans.push(words);
    }

    fn missed(&mut self, number: usize) -> u64 {
        self.role(number).missed.iter().sum()
    }
}
