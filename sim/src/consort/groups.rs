// SPDX-License-Identifier: MIT OR Apache-2.0
//! The daemon's part in groups with decision functions: it makes them, and binds threads to roles.

use super::{members::new_mapping, Consort};
use crate::ffi::{
    self, consort_became, consort_domain_args, consort_interval, consort_join_args,
    consort_leave_args, consort_mapping, consort_plan_args, consort_role_args, consort_told,
    consort_variables, CONSORT_NO_ROLE, CONSORT_PLAN_PART, CONSORT_ROLE_BEGIN, CONSORT_ROLE_STATE,
    CONSORT_ROLE_STATUS, CONSORT_ROLE_TELL, CONSORT_ROLE_TERMS,
};
use crate::groups::{Group, Interval, Missed, Role, RoleTotal, Told};
use crate::kernel::{Kernel, Life};
use crate::setup::{any_step, Program, RoleCall, Step, TaskIndex};
use crate::trace::{TaskId, What};

/// A thread's words are in the first slot of its program's page.
const SLOT: u32 = 0;
const ENOMEM: u32 = 12;

struct Page {
    client: u32,
    mapping: Box<consort_mapping>,
}

#[derive(Default)]
pub(super) struct Groups {
    /// The scheduler's numbers of the setup's groups; 0: could not be made.
    numbers: Vec<u32>,
    /// Of threads that publish, by task.
    pages: Vec<Option<Page>>,
    /// The scheduler's numbers of the groups' reservations.
    pub reservations: Vec<Option<u32>>,
}

impl Consort {
    pub(super) fn create_groups(&mut self, k: &mut Kernel) {
        let setup = std::rc::Rc::clone(&k.setup);
        for (index, group) in setup.groups.iter().enumerate() {
            let reservation = self.reserve_for_group(k, index, group);
            let mut args = consort_domain_args {
                function: group.function as u32,
                user: group.user,
                reservation: reservation.unwrap_or_default(),
                ..Default::default()
            };
            self.enter_free(k);
            if let Some(create) = self.scheduler.domain_create {
                // SAFETY: the argument is the program's own struct.
                unsafe { create(&mut args) };
            }
            let number = if args.error == 0 { args.domain } else { 0 };
            self.groups.numbers.push(number);
            self.groups.reservations.push(reservation);
            if number != 0 {
                self.describe_group(k, number, group);
            }
        }
    }

    /// 0: there is none.
    pub(super) fn group_number(&self, group: usize) -> u32 {
        self.groups.numbers.get(group).copied().unwrap_or_default()
    }

    fn describe_group(&mut self, k: &mut Kernel, number: u32, group: &Group) {
        for (role, terms) in (0..).zip(&group.roles) {
            self.call_role(k, args_of(number, role, terms));
            let errno = self.load_plan(k, number, role, &terms.plan, terms.repeat_ns);
            let no_memory = errno == ENOMEM && k.memory_failed;
            if errno != 0 && !no_memory {
                k.violate("refusal", format!("a plan is refused: errno {errno}"));
            }
        }
        let args = consort_role_args {
            operation: CONSORT_ROLE_BEGIN,
            domain: number,
            zero_ns: group.begins_ns.unwrap_or(u64::MAX),
            bootstrap: group.bootstrap,
            ..Default::default()
        };
        self.call_role(k, args);
    }

    /// What a daemon might ask for, right or wrong.
    pub(super) fn call_of_role(
        &mut self,
        k: &mut Kernel,
        group: usize,
        role: u32,
        what: &RoleCall,
    ) {
        let number = self.groups.numbers.get(group).copied().unwrap_or_default();
        let about = |operation| consort_role_args {
            operation,
            domain: number,
            role,
            ..Default::default()
        };
        let args = match what {
            RoleCall::Terms(terms) => args_of(number, role, terms),
            RoleCall::Plan { plan, repeat_ns } => {
                self.load_plan(k, number, role, plan, *repeat_ns);
                return;
            }
            RoleCall::Begin { zero_ns, bootstrap } => consort_role_args {
                zero_ns: *zero_ns,
                bootstrap: *bootstrap,
                ..about(CONSORT_ROLE_BEGIN)
            },
            RoleCall::State(value) => consort_role_args {
                state: [*value; 4],
                ..about(CONSORT_ROLE_STATE)
            },
            RoleCall::Tell(tell) => consort_role_args {
                tell: *tell,
                ..about(CONSORT_ROLE_TELL)
            },
            RoleCall::Status => about(CONSORT_ROLE_STATUS),
            RoleCall::Bind { task } => {
                if let Some(task) = living(k, *task) {
                    self.bind(k, task, group, role);
                }
                return;
            }
            RoleCall::Unbind { task } => {
                if let Some(task) = living(k, *task) {
                    self.unbind(k, task);
                }
                return;
            }
            RoleCall::Destroy => return self.destroy_group(k, group),
        };
        self.call_role(k, args);
    }

    fn unbind(&mut self, k: &mut Kernel, task: TaskId) {
        let mut args = consort_leave_args {
            tid: k.tasks[task as usize].c.pid,
            ..Default::default()
        };
        self.enter_free(k);
        if let Some(leave) = self.scheduler.leave {
            // SAFETY: the argument is the program's own struct.
            unsafe { leave(&mut args) };
        }
    }

    /// Where it has members it stays.
    fn destroy_group(&mut self, k: &mut Kernel, group: usize) {
        let Some(number) = self.groups.numbers.get(group).copied() else {
            return;
        };
        if self.destroy(k, number) == 0 {
            self.groups.numbers[group] = 0;
        }
    }

    fn destroy(&mut self, k: &mut Kernel, domain: u32) -> u32 {
        let mut args = consort_domain_args {
            domain,
            ..Default::default()
        };
        self.enter_free(k);
        if let Some(destroy) = self.scheduler.domain_destroy {
            // SAFETY: the argument is the program's own struct.
            unsafe { destroy(&mut args) };
        }
        args.error
    }

    fn call_role(&mut self, k: &mut Kernel, mut args: consort_role_args) -> consort_role_args {
        self.enter_free(k);
        if let Some(role) = self.scheduler.role {
            // SAFETY: the argument is the program's own struct.
            unsafe { role(&mut args) };
        }
        args
    }

    /// The errno of it. Without intervals the role is to have no plan.
    fn load_plan(
        &mut self,
        k: &mut Kernel,
        domain: u32,
        role: u32,
        plan: &[(u64, u64)],
        repeat_ns: u64,
    ) -> u32 {
        let mut args = consort_plan_args {
            domain,
            role,
            all: plan.len() as u32,
            repeat_ns,
            ..Default::default()
        };
        if plan.is_empty() {
            return self.plan_part(k, &mut args, plan);
        }
        for part in plan.chunks(CONSORT_PLAN_PART as usize) {
            if self.plan_part(k, &mut args, part) != 0 {
                break;
            }
            args.first += args.nr;
        }
        args.error
    }

    fn plan_part(
        &mut self,
        k: &mut Kernel,
        args: &mut consort_plan_args,
        part: &[(u64, u64)],
    ) -> u32 {
        args.nr = part.len() as u32;
        for (at, (start_ns, end_ns)) in part.iter().enumerate() {
            // SAFETY: the scheduler's variable, which only its daemon writes; a part has as many intervals at most.
            unsafe {
                *self.scheduler.plan_part.add(at) = consort_interval {
                    start_ns: *start_ns,
                    end_ns: *end_ns,
                };
            }
        }
        self.enter_free(k);
        if let Some(plan) = self.scheduler.plan {
            // SAFETY: the argument is the program's own struct.
            unsafe { plan(args) };
        }
        args.error
    }

    /// A task begins: it plays the first vacant role that is for it.
    pub(super) fn bind_first(&mut self, k: &mut Kernel, task: TaskId) {
        let setup = std::rc::Rc::clone(&k.setup);
        let of = k.tasks[task as usize].of;
        for (index, group) in setup.groups.iter().enumerate() {
            let roles = (0..).zip(&group.roles);
            for (role, _) in roles.filter(|(_, role)| role.task == of) {
                if self.bind(k, task, index, role) {
                    return;
                }
            }
        }
    }

    fn bind(&mut self, k: &mut Kernel, task: TaskId, group: usize, role: u32) -> bool {
        let number = self.groups.numbers.get(group).copied().unwrap_or_default();
        if number == 0 {
            return false;
        }
        let client = self.page_for(k, task);
        let mut args = consort_join_args {
            tid: k.tasks[task as usize].c.pid,
            domain: number,
            client,
            slot: SLOT,
            role,
            ..Default::default()
        };
        self.enter_free(k);
        if let Some(join) = self.scheduler.join {
            // SAFETY: the argument is the program's own struct.
            unsafe { join(&mut args) };
        }
        if args.error != 0 {
            return false;
        }
        k.tasks[task as usize].plays = Some(group);
        k.emit(What::Membership {
            task,
            domain: k.setup.domains.len() + group,
            joined: true,
        });
        true
    }

    /// The number of the thread's page, if it publishes anything; 0: it is a thread as any other.
    fn page_for(&mut self, k: &Kernel, task: TaskId) -> u32 {
        let of = k.tasks[task as usize].of;
        if !publishes(&k.setup.tasks[of].program) {
            return 0;
        }
        let index = task as usize;
        if self.groups.pages.len() <= index {
            self.groups.pages.resize_with(index + 1, || None);
        }
        if let Some(page) = &self.groups.pages[index] {
            return page.client;
        }
        let client = self.members.take_number();
        let mut mapping = new_mapping();
        if let Some(set_page) = self.scheduler.set_page {
            // SAFETY: the page lives as long as the run.
            unsafe { set_page(client, &mut *mapping) };
        }
        self.groups.pages[index] = Some(Page { client, mapping });
        client
    }

    /// A thread's words; none: it has no page.
    pub(super) fn words(&mut self, task: TaskId) -> Option<*mut consort_variables> {
        let page = self.groups.pages.get_mut(task as usize)?.as_mut()?;
        Some(std::ptr::from_mut(
            &mut page.mapping.variables[SLOT as usize],
        ))
    }

    pub(super) fn role_totals(&mut self, k: &mut Kernel) -> Vec<RoleTotal> {
        let setup = std::rc::Rc::clone(&k.setup);
        let mut totals = Vec::new();
        for (index, group) in setup.groups.iter().enumerate() {
            let number = self.groups.numbers.get(index).copied().unwrap_or_default();
            if number == 0 {
                continue;
            }
            for (role, terms) in (0..).zip(&group.roles) {
                let args = consort_role_args {
                    operation: CONSORT_ROLE_STATUS,
                    domain: number,
                    role,
                    ..Default::default()
                };
                let told = self.call_role(k, args);
                let name = &setup.tasks[terms.task].name;
                totals.push(total_of(&group.name, name, &told));
            }
        }
        totals
    }

    /// What the scheduler has found since there were `seen`.
    pub(super) fn intervals_told(&self, told: &consort_told, seen: u64) -> Told {
        let room = told.last.len() as u64;
        let lost = (told.count - seen).saturating_sub(room);
        let numbers = &self.groups.numbers;
        let interval = |number: u64| {
            let it = &told.last[(number % room) as usize];
            let group = numbers.iter().position(|number| *number == it.group)?;
            Some((it.pid, interval_of(it, group)))
        };
        Told {
            count: told.count,
            intervals: (seen + lost..told.count).filter_map(interval).collect(),
            lost,
        }
    }

    /// At the end of a run: nobody plays anything any more.
    pub(super) fn end_groups(&mut self, k: &mut Kernel) {
        for number in std::mem::take(&mut self.groups.numbers) {
            if number == 0 {
                continue;
            }
            let errno = self.destroy(k, number);
            if errno != 0 {
                let detail = format!("group {number} cannot be removed: errno {errno}");
                k.violate("leak", detail);
            }
        }
        self.end_reservations_of_groups(k);
    }
}

fn args_of(domain: u32, role: u32, terms: &Role) -> consort_role_args {
    consort_role_args {
        operation: CONSORT_ROLE_TERMS,
        domain,
        role,
        period_ns: terms.period_ns,
        budget_ns: terms.budget_ns,
        follow_ns: terms.follow_ns,
        follows: terms.follows.unwrap_or(CONSORT_NO_ROLE),
        high: terms.high,
        step: terms.step,
        ..Default::default()
    }
}

/// The first instance of a task that has not ended.
fn living(k: &Kernel, index: TaskIndex) -> Option<TaskId> {
    let mut tasks = k.tasks.iter();
    let found = tasks.find(|task| task.of == index && task.life != Life::Dead);
    found.map(|task| task.id)
}

fn publishes(program: &Program) -> bool {
    let tells = |step: &Step| matches!(step, Step::Tell(_) | Step::State { .. } | Step::Put { .. });
    match program {
        Program::Steps(steps) => any_step(steps, &tells),
        _ => false,
    }
}

fn interval_of(it: &consort_became, group: usize) -> Interval {
    Interval {
        at_ns: it.at_ns,
        from_ns: it.from_ns,
        until_ns: it.until_ns,
        late_ns: it.late_ns,
        group,
        role: it.role.into(),
        count: it.count,
        became: it.became.into(),
        why: it.why.into(),
    }
}

fn total_of(group: &str, task: &str, told: &ffi::consort_role_args) -> RoleTotal {
    let [vacant, asleep, outside, share, others] = told.missed;
    RoleTotal {
        group: group.to_owned(),
        task: task.to_owned(),
        kept: told.kept,
        missed: Missed {
            vacant,
            asleep,
            outside,
            share,
            others,
        },
        late_mean_ms: told.late_ns as f64 / told.kept.max(1) as f64 / 1e6,
        late_max_ms: told.late_max_ns as f64 / 1e6,
    }
}
