// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups of files, as the kernel's scheduler knows them: a cooperation domain, or a group whose members play roles.

use std::{
    ops::Range,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

use consort_df::Confined;
use consort_groups::{
    function::{Coop, Function},
    Group, Member,
};
use consort_kernel::{
    BindArgs, DomainOptions, Error, Interval, JoinArgs, LeaveArgs, RoleStatus, RoleTerms,
    Scheduler, UserProgram, UserStatus, Verified, Verifying, NEVER_NS, VARIABLES,
};

use super::host::{Bind, GroupHost, Looked, Verification};
use crate::domains;

impl GroupHost for Scheduler {
    fn create_group(&mut self, group: &Group, reservation: Option<u32>) -> Result<u32, Error> {
        let kind = match group.function {
            Function::Coop(coop) => {
                return self.create_domain_in(domain_options(coop), reservation);
            }
            Function::Fair => consort_kernel::Function::Fair,
            Function::Period => consort_kernel::Function::Period,
            Function::Plan => consort_kernel::Function::Plan,
            Function::Pipeline(_) => consort_kernel::Function::Pipeline,
            Function::Follow => consort_kernel::Function::Follow,
            Function::User(_) => consort_kernel::Function::User,
        };
        let id = Scheduler::create_group(self, kind, reservation)?;
        self.fill_or_destroy(id, group)
    }

    fn create_user_group(
        &mut self,
        group: &Group,
        number: u32,
        reservation: Option<u32>,
    ) -> Result<u32, Error> {
        let id = Scheduler::create_user_group(self, number, reservation)?;
        self.fill_or_destroy(id, group)
    }

    fn verify_user(&self, confined: &Confined) -> Result<Box<dyn Verification>, Error> {
        let code = confined.bytes(self.df_records().as_raw_fd());
        Ok(Box::new(Scheduler::verify_user(self, &code)?))
    }

    fn put_user(&mut self, number: u32, program: &OwnedFd) -> Result<(), Error> {
        Scheduler::put_user(self, number, program.as_fd())
    }

    fn drop_user(&mut self, number: u32) {
        Scheduler::drop_user(self, number);
    }

    fn set_user(&mut self, group: u32, number: u32) -> Result<(), Error> {
        Scheduler::set_user(self, group, number)
    }

    fn user_status(&self, group: u32) -> Result<UserStatus, Error> {
        Scheduler::user_status(self, group)
    }

    fn destroy_group(&mut self, group: u32) -> Result<(), Error> {
        self.destroy_domain(group)
    }

    fn set_member(
        &mut self,
        id: u32,
        group: &Group,
        roles: Range<u32>,
        index: usize,
    ) -> Result<(), Error> {
        let member = &group.members[index];
        let terms = terms(group, index, member);
        for role in roles {
            self.set_role(id, role, terms)?;
            self.set_state(id, role, first_values(member))?;
        }
        Ok(())
    }

    fn bind(&mut self, bind: Bind) -> Result<(), Error> {
        if !bind.polls {
            return Scheduler::bind(
                self,
                BindArgs {
                    thread: bind.thread,
                    group: bind.group,
                    role: bind.role,
                    slot: bind.page,
                },
            );
        }
        let Some((client, slot)) = bind.page else {
            let (doing, errno) = ("let a thread join that does not poll", libc::ENXIO);
            return Err(Error::Refused { doing, errno });
        };
        self.join(JoinArgs {
            thread: bind.thread,
            client,
            slot,
            domain: bind.group,
        })
    }

    fn unbind(&mut self, bind: Bind) -> Result<(), Error> {
        match bind.page.filter(|_| bind.polls) {
            None => Scheduler::unbind(self, bind.thread.tid),
            Some((client, slot)) => self.leave(LeaveArgs {
                tid: bind.thread.tid,
                client,
                slot,
            }),
        }
    }

    fn role_status(&self, group: u32, role: u32) -> Result<RoleStatus, Error> {
        Scheduler::role_status(self, group, role)
    }

    fn load_plan(
        &mut self,
        group: u32,
        role: u32,
        intervals: &[Interval],
        repeat_ns: u64,
    ) -> Result<(), Error> {
        Scheduler::load_plan(self, group, role, intervals, repeat_ns)
    }

    fn begin_plans(&mut self, group: u32, zero_ns: u64, bootstrap: u32) -> Result<(), Error> {
        Scheduler::begin_plans(self, group, zero_ns, bootstrap)
    }
}

impl Verification for Verifying {
    fn look(self: Box<Self>) -> Looked {
        match Verifying::look(*self) {
            Verified::NotYet(verifying) => Looked::NotYet(Box::new(verifying)),
            Verified::Done(UserProgram {
                descriptor,
                steps,
                took,
            }) => Looked::Done {
                program: descriptor,
                steps,
                took,
            },
            Verified::Refused(why, took) => Looked::Refused { why, took },
        }
    }
}

trait Fill {
    fn fill(&mut self, id: u32, group: &Group) -> Result<(), Error>;

    fn fill_or_destroy(&mut self, id: u32, group: &Group) -> Result<u32, Error>;
}

impl Fill for Scheduler {
    /// What all roles are, and that plans wait for their trigger.
    fn fill(&mut self, id: u32, group: &Group) -> Result<(), Error> {
        for index in 0..group.members.len() {
            if let Some(roles) = group.roles(index) {
                GroupHost::set_member(self, id, group, roles, index)?;
            }
        }
        Scheduler::begin_plans(self, id, NEVER_NS, bootstrap(group))
    }

    fn fill_or_destroy(&mut self, id: u32, group: &Group) -> Result<u32, Error> {
        match self.fill(id, group) {
            Ok(()) => Ok(id),
            Err(error) => {
                // Nobody knows it yet, so that nobody is in it.
                let _ = self.destroy_domain(id);
                Err(error)
            }
        }
    }
}

/// The level of the last queue before which plans do not begin.
pub(super) fn bootstrap(group: &Group) -> u32 {
    match group.function {
        Function::Pipeline(pipeline) => pipeline.bootstrap,
        _ => 0,
    }
}

fn domain_options(coop: Coop) -> DomainOptions {
    domains::complete(DomainOptions {
        event_ns: coop.event_ns.unwrap_or_default(),
        order: coop.order as u32,
        flags: match coop.preempt {
            true => consort_abi::CONSORT_JOIN_PREEMPT,
            false => 0,
        },
    })
}

fn terms(group: &Group, index: usize, member: &Member) -> RoleTerms {
    let own = &member.terms;
    let follows = own.follows.as_ref();
    let role_of = |name: &str| {
        let at = group.members.iter().position(|other| other.name == name)?;
        Some(group.roles(at)?.start)
    };
    let stages = group.members.iter().enumerate();
    let mut stages = stages.filter(|(_, member)| member.terms.stage.is_some());
    let is_last = stages.next_back().is_some_and(|(last, _)| last == index);
    RoleTerms {
        period_ns: own.period_ns.unwrap_or_default(),
        budget_ns: own.budget_ns.unwrap_or_default(),
        follows: follows.and_then(|follows| role_of(&follows.whom)),
        follow_ns: follows.map_or(0, |follows| follows.at_most_ns),
        // Behind the last stage there is no queue.
        high: own.stage.filter(|_| !is_last).map_or(0, |stage| stage.high),
        step: own.stage.map_or(0, |stage| stage.step),
    }
}

fn first_values(member: &Member) -> [i64; VARIABLES] {
    let mut words = [0; VARIABLES];
    for (word, variable) in words.iter_mut().zip(&member.state) {
        *word = variable.first.word();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(text: &str) -> Group {
        let file = consort_groups::read("f.toml", "f", text).unwrap();
        file.groups[0].clone()
    }

    fn all_terms(group: &Group) -> Vec<RoleTerms> {
        let members = group.members.iter().enumerate();
        members
            .map(|(index, member)| terms(group, index, member))
            .collect()
    }

    #[test]
    fn stages_queues_and_servers_become_terms() {
        let group = group(
            "[group.a]\nfunction = \"pipeline\"\nhigh = 5\nstep = 2\nbootstrap = 3\nstate = { queued = 4, busy = true }\n\
             members = [\"read\", { name = \"x\", follows = \"show\", at_most = \"3ms\" }, \"show\"]",
        );
        let stage = |high| RoleTerms {
            high,
            step: 2,
            ..RoleTerms::default()
        };
        let server = RoleTerms {
            follows: Some(2),
            follow_ns: 3_000_000,
            ..RoleTerms::default()
        };
        assert_eq!(all_terms(&group), [stage(5), server, stage(0)]);
        assert_eq!(bootstrap(&group), 3);
        assert_eq!(first_values(&group.members[0]), [4, 1, 0, 0]);
    }

    /// Each thread of a set has a role of its own, and those behind it are counted on.
    #[test]
    fn sets_take_several_roles() {
        let group = group(
            "[group.a]\nfunction = \"period\"\nmembers = [{ name = \"set\", period = \"5ms\", count = 3 },\n\
             { name = \"one\", period = \"8ms\", budget = \"2ms\" }, { name = \"server\", period = \"9ms\", follows = \"one\" }]",
        );
        assert_eq!(group.roles(0), Some(0..3));
        assert_eq!(group.roles(1), Some(3..4));
        let all = all_terms(&group);
        assert_eq!((all[1].period_ns, all[1].budget_ns), (8_000_000, 2_000_000));
        assert_eq!(all[2].follows, Some(3));
    }

    #[test]
    fn a_domain_is_as_its_file_says() {
        let group = group(
            "[group.a]\nfunction = \"coop\"\norder = \"service\"\npreempt = true\nmembers = [\"x\"]",
        );
        let Function::Coop(coop) = group.function else {
            panic!("{:?}", group.function);
        };
        let options = domain_options(coop);
        assert!(domains::check_options(options).is_ok());
        assert_eq!(domains::order_name(options.order), Some("service"));
        assert_eq!(options.flags, consort_abi::CONSORT_JOIN_PREEMPT);
        assert_eq!(group.roles(0), None);
    }
}
