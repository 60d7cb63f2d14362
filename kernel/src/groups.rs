// SPDX-License-Identifier: GPL-2.0-only
//! Groups with decision functions: their roles, plans, and who plays what.

use crate::{
    globals::write,
    skeleton::interface::{
        consort_domain_args, consort_interval, consort_join_args, consort_leave_args,
        consort_plan_args, consort_role_args, CONSORT_CALL_DOMAIN_CREATE, CONSORT_CALL_JOIN,
        CONSORT_CALL_LEAVE, CONSORT_CALL_PLAN, CONSORT_CALL_ROLE, CONSORT_NO_ROLE,
        CONSORT_PLAN_PART, CONSORT_ROLE_AWAKE, CONSORT_ROLE_BEGIN, CONSORT_ROLE_BLOCKED,
        CONSORT_ROLE_ON, CONSORT_ROLE_OUTSIDE, CONSORT_ROLE_RUNS, CONSORT_ROLE_STATE,
        CONSORT_ROLE_STATUS, CONSORT_ROLE_TELL, CONSORT_ROLE_TERMS, CONSORT_TELL_DONE,
        CONSORT_TELL_SUBMITTED,
    },
    BindArgs, DomainOptions, Error, Function, Interval, Missed, RoleStatus, RoleTerms, Scheduler,
    Tell, VARIABLES,
};

impl Scheduler {
    /// Makes a cooperation domain whose members share a reservation, as [`Scheduler::create_group`] has it.
    ///
    /// # Errors
    /// ENOSPC when the scheduler has no room for more, ENOENT when there is no such reservation, ENOMEM.
    pub fn create_domain_in(
        &mut self,
        options: DomainOptions,
        reservation: Option<u32>,
    ) -> Result<u32, Error> {
        let mut args = consort_domain_args {
            order: options.order,
            flags: options.flags,
            event_ns: options.event_ns,
            reservation: reservation.unwrap_or_default(),
            ..Default::default()
        };
        self.call(CONSORT_CALL_DOMAIN_CREATE, &mut args, "make a domain")?;
        Ok(args.domain)
    }

    /// Makes a group that a function decides for, and returns its number, one of the domains'. While a thread plays a role
    /// there it shares the group's `reservation`, unless it has one itself; what it starts does not. Plans stand still
    /// until [`Scheduler::begin_plans`]. [`Scheduler::destroy_domain`] removes the group, and only then may the
    /// reservation end.
    ///
    /// # Errors
    /// ENOSPC when the scheduler has no room for more, ENOENT when there is no such reservation, ENOMEM.
    pub fn create_group(
        &mut self,
        function: Function,
        reservation: Option<u32>,
    ) -> Result<u32, Error> {
        self.make_group(function, 0, reservation)
    }

    /// Makes a group that a user's own function decides for: the one at a number, if there is one.
    ///
    /// # Errors
    /// Those of [`Scheduler::create_group`], and EINVAL for a number out of range.
    pub fn create_user_group(
        &mut self,
        number: u32,
        reservation: Option<u32>,
    ) -> Result<u32, Error> {
        self.make_group(Function::User, number, reservation)
    }

    fn make_group(
        &mut self,
        function: Function,
        user: u32,
        reservation: Option<u32>,
    ) -> Result<u32, Error> {
        let mut args = consort_domain_args {
            function: function as u32,
            user,
            reservation: reservation.unwrap_or_default(),
            ..Default::default()
        };
        self.call(CONSORT_CALL_DOMAIN_CREATE, &mut args, "make a group")?;
        Ok(args.domain)
    }

    /// Says what a group's member is to do, whether a thread plays it or not.
    ///
    /// # Errors
    /// ENOENT when there is no such group, EINVAL for a number or terms out of range.
    pub fn set_role(&mut self, group: u32, role: u32, terms: RoleTerms) -> Result<(), Error> {
        let args = consort_role_args {
            operation: CONSORT_ROLE_TERMS,
            period_ns: terms.period_ns,
            budget_ns: terms.budget_ns,
            follow_ns: terms.follow_ns,
            follows: terms.follows.unwrap_or(CONSORT_NO_ROLE),
            high: terms.high,
            step: terms.step,
            ..of_role(group, role)
        };
        self.role(args, "set a member's terms").map(drop)
    }

    /// Gives a member a plan in the place of the one that it has; without intervals: none. It begins anew `repeat_ns` after
    /// its beginning, which is not before its last interval ends; 0: it does not.
    ///
    /// # Errors
    /// ENOENT when there is no such group, EINVAL for intervals that are too many, too short, too late, not in order or
    /// overlapping, ENOMEM. The plan that it had holds then.
    pub fn load_plan(
        &mut self,
        group: u32,
        role: u32,
        intervals: &[Interval],
        repeat_ns: u64,
    ) -> Result<(), Error> {
        let mut args = consort_plan_args {
            domain: group,
            role,
            all: u32::try_from(intervals.len()).unwrap_or(u32::MAX),
            repeat_ns,
            ..Default::default()
        };
        if intervals.is_empty() {
            return self.plan_part(&mut args, &[]);
        }
        for part in intervals.chunks(CONSORT_PLAN_PART as usize) {
            args.nr = part.len() as u32;
            self.plan_part(&mut args, part)?;
            args.first += args.nr;
        }
        Ok(())
    }

    fn plan_part(&mut self, args: &mut consort_plan_args, part: &[Interval]) -> Result<(), Error> {
        for (index, from) in part.iter().enumerate().take(CONSORT_PLAN_PART as usize) {
            write!(self.bss, from.start_ns, plan_part[index].start_ns);
            write!(self.bss, from.end_ns, plan_part[index].end_ns);
        }
        self.call(CONSORT_CALL_PLAN, args, "load a plan")
    }

    /// Sets the time at which relative times of a group's plans are 0: now for a beginning, earlier to go on in the middle,
    /// [`crate::NEVER_NS`] for a pause. Before the input of a pipeline's last stage has come to the level `bootstrap`,
    /// plans do not begin.
    ///
    /// # Errors
    /// ENOENT when there is no such group.
    pub fn begin_plans(&mut self, group: u32, zero_ns: u64, bootstrap: u32) -> Result<(), Error> {
        let args = consort_role_args {
            operation: CONSORT_ROLE_BEGIN,
            zero_ns,
            bootstrap,
            ..of_role(group, 0)
        };
        self.role(args, "begin plans").map(drop)
    }

    /// Lets a thread play a role of a group.
    ///
    /// # Errors
    /// ESRCH when the thread is not under this scheduler, EEXIST when it is a member of a group or domain, EBUSY when
    /// another thread plays the role, ENOENT when there is no such group, EINVAL for a role out of range.
    pub fn bind(&mut self, bind: BindArgs) -> Result<(), Error> {
        let (client, slot) = bind.slot.unwrap_or_default();
        let mut args = consort_join_args {
            tid: bind.thread.tid,
            start_ticks: bind.thread.start,
            domain: bind.group,
            client,
            slot,
            role: bind.role.unwrap_or(CONSORT_NO_ROLE),
            ..Default::default()
        };
        self.call(CONSORT_CALL_JOIN, &mut args, "bind a thread to a group")
    }

    /// Takes a thread out of the group in which it plays a role.
    ///
    /// # Errors
    /// ESRCH when there is no such thread, ENOENT when it is in no group that has a function.
    pub fn unbind(&mut self, tid: i32) -> Result<(), Error> {
        let mut args = consort_leave_args {
            tid,
            ..Default::default()
        };
        self.call(
            CONSORT_CALL_LEAVE,
            &mut args,
            "take a thread out of a group",
        )
    }

    /// Sets a member's state variables: those of a thread that has no page, or has not published yet.
    ///
    /// # Errors
    /// ENOENT when there is no such group, EINVAL for a number out of range.
    pub fn set_state(
        &mut self,
        group: u32,
        role: u32,
        state: [i64; VARIABLES],
    ) -> Result<(), Error> {
        let args = consort_role_args {
            operation: CONSORT_ROLE_STATE,
            state,
            ..of_role(group, role)
        };
        self.role(args, "set a member's state").map(drop)
    }

    /// Tells the function what a member's thread would.
    ///
    /// # Errors
    /// ENOENT when there is no such group, EINVAL for a number out of range.
    pub fn tell(&mut self, group: u32, role: u32, tell: Tell) -> Result<(), Error> {
        let args = consort_role_args {
            operation: CONSORT_ROLE_TELL,
            tell: match tell {
                Tell::Submitted => CONSORT_TELL_SUBMITTED,
                Tell::Done => CONSORT_TELL_DONE,
            },
            ..of_role(group, role)
        };
        self.role(args, "tell a group's function").map(drop)
    }

    /// What a member does, and what became of its intervals.
    ///
    /// # Errors
    /// ENOENT when there is no such group, EINVAL for a number out of range.
    pub fn role_status(&self, group: u32, role: u32) -> Result<RoleStatus, Error> {
        let args = consort_role_args {
            operation: CONSORT_ROLE_STATUS,
            ..of_role(group, role)
        };
        let told = self.role(args, "tell what a member does")?;
        let [vacant, asleep, outside, share, others] = told.missed;
        Ok(RoleStatus {
            tid: told.tid,
            awake: told.runs & CONSORT_ROLE_AWAKE != 0,
            runs: told.runs & CONSORT_ROLE_RUNS != 0,
            on: told.runs & CONSORT_ROLE_ON != 0,
            outside: told.runs & CONSORT_ROLE_OUTSIDE != 0,
            blocked: told.runs & CONSORT_ROLE_BLOCKED != 0,
            state: told.state,
            control: told.control,
            from_ns: told.from_ns,
            until_ns: told.until_ns,
            kept: told.kept,
            missed: Missed {
                vacant,
                asleep,
                outside,
                share,
                others,
            },
            late_ns: told.late_ns,
            late_max_ns: told.late_max_ns,
            ran_ns: told.ran_ns,
            zero_ns: told.zero_ns,
        })
    }

    fn role(
        &self,
        mut args: consort_role_args,
        doing: &'static str,
    ) -> Result<consort_role_args, Error> {
        self.call(CONSORT_CALL_ROLE, &mut args, doing)?;
        Ok(args)
    }
}

fn of_role(group: u32, role: u32) -> consort_role_args {
    consort_role_args {
        domain: group,
        role,
        follows: CONSORT_NO_ROLE,
        ..Default::default()
    }
}

const _: () = assert!(size_of::<Interval>() == size_of::<consort_interval>());
