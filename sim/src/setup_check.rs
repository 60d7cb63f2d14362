// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a setup fits together, so that nothing in a run can be out of range.

use crate::error::Error;
use crate::ffi::CONSORT_ROLES;
use crate::groups::Group;
use crate::setup::{ActionKind, Call, Limit, Program, RoleCall, Setup, Step};
use std::ops::RangeInclusive;

/// What the C side of the model has room for.
const CPUS_MAX: usize = 1024;
const ROLES_MAX: usize = CONSORT_ROLES as usize;
/// What the kernel takes for cpu.max.
const QUOTA_NS: RangeInclusive<u64> = 1_000_000..=1_000_000_000_000;
const PERIOD_NS: RangeInclusive<u64> = 1_000_000..=1_000_000_000;

fn wrong(field: impl Into<String>, found: impl ToString, expected: impl Into<String>) -> Error {
    Error::Setup {
        field: field.into(),
        found: found.to_string(),
        expected: expected.into(),
    }
}

fn below(field: &str, found: usize, count: usize, of: &str) -> Result<(), Error> {
    if found < count {
        return Ok(());
    }
    Err(wrong(
        field,
        found,
        format!("the number of one of {count} {of}, from 0"),
    ))
}

/// As the kernel does.
fn check_limit(field: &str, cgroup: usize, limit: Option<&Limit>) -> Result<(), Error> {
    let Some(limit) = limit else {
        return Ok(());
    };
    if cgroup == 0 {
        return Err(wrong(field, "of the root", "of a cgroup below it"));
    }
    if !QUOTA_NS.contains(&limit.quota_ns) || !PERIOD_NS.contains(&limit.period_ns) {
        return Err(wrong(
            field,
            format!("{} of {} ns", limit.quota_ns, limit.period_ns),
            "a quota of 1 ms or more, in a period of 1 ms to 1 s",
        ));
    }
    if limit.burst_ns > limit.quota_ns {
        return Err(wrong(
            field,
            limit.burst_ns,
            "a burst no larger than the quota",
        ));
    }
    Ok(())
}

impl Setup {
    /// # Errors
    /// Names the first field that is out of range, and what was expected.
    pub fn check(&self) -> Result<(), Error> {
        self.check_machine()?;
        self.check_cgroups()?;
        for (number, task) in self.tasks.iter().enumerate() {
            let field = |name: &str| format!("tasks[{number}].{name}");
            below(&field("cgroup"), task.cgroup, self.cgroups.len(), "cgroups")?;
            if !(-20..=19).contains(&task.nice) {
                return Err(wrong(field("nice"), task.nice, "-20 to 19"));
            }
            if let Some(cpus) = &task.affinity {
                self.check_cpus(&field("affinity"), cpus)?;
            }
            self.check_program(&field("program"), &task.program)?;
        }
        for (number, user) in self.users.iter().enumerate() {
            let checked = user.object();
            checked.map_err(|why| {
                wrong(format!("users[{number}]"), why, "a function that is right")
            })?;
        }
        for (number, group) in self.groups.iter().enumerate() {
            self.check_group(&format!("groups[{number}]"), group)?;
        }
        for (number, action) in self.actions.iter().enumerate() {
            self.check_action(&format!("actions[{number}]"), &action.what)?;
        }
        Ok(())
    }

    fn check_machine(&self) -> Result<(), Error> {
        let machine = &self.machine;
        let cpus = machine.llc_of.len();
        if cpus == 0 || cpus > CPUS_MAX {
            return Err(wrong(
                "machine.llc_of",
                format!("{cpus} CPUs"),
                format!("1 to {CPUS_MAX}"),
            ));
        }
        if machine.core_of.len() != cpus || machine.node_of.len() != cpus {
            return Err(wrong(
                "machine",
                format!("{} and {}", machine.core_of.len(), machine.node_of.len()),
                format!("{cpus} entries in core_of and node_of, one for each CPU"),
            ));
        }
        for cpu in &machine.offline {
            below("machine.offline", *cpu as usize, cpus, "CPUs")?;
        }
        if machine.online().next().is_none() {
            return Err(wrong("machine.offline", "all CPUs", "at least one online"));
        }
        for llc in 0..machine.llc_of.iter().max().map_or(0, |llc| *llc) {
            if !machine.llc_of.contains(&llc) {
                return Err(wrong(
                    "machine.llc_of",
                    format!("no CPU in cache {llc}"),
                    "caches numbered from 0 without gaps",
                ));
            }
        }
        Ok(())
    }

    fn check_cgroups(&self) -> Result<(), Error> {
        if self.cgroups.is_empty() {
            return Err(wrong("cgroups", "empty", "at least the root"));
        }
        for (number, cgroup) in self.cgroups.iter().enumerate() {
            let field = format!("cgroups[{number}].parent");
            match (number, cgroup.parent) {
                (0, None) => {}
                (0, Some(_)) => return Err(wrong(field, "a cgroup", "none: number 0 is the root")),
                (_, None) => {
                    return Err(wrong(field, "none", "a cgroup: only number 0 is the root"))
                }
                (_, Some(parent)) => below(&field, parent, number, "cgroups before it")?,
            }
            if !(1..=10_000).contains(&cgroup.weight) {
                return Err(wrong(
                    format!("cgroups[{number}].weight"),
                    cgroup.weight,
                    "1 to 10000",
                ));
            }
            check_limit(
                &format!("cgroups[{number}].max"),
                number,
                cgroup.max.as_ref(),
            )?;
        }
        Ok(())
    }

    fn check_cpus(&self, field: &str, cpus: &[u32]) -> Result<(), Error> {
        if cpus.is_empty() {
            return Err(wrong(field, "empty", "at least one CPU"));
        }
        for cpu in cpus {
            below(field, *cpu as usize, self.machine.llc_of.len(), "CPUs")?;
        }
        Ok(())
    }

    fn check_domain(&self, field: &str, domain: usize) -> Result<(), Error> {
        below(field, domain, self.domains.len(), "domains")
    }

    fn check_group(&self, field: &str, group: &Group) -> Result<(), Error> {
        if group.roles.len() > ROLES_MAX {
            let expected = format!("at most {ROLES_MAX}");
            return Err(wrong(format!("{field}.roles"), group.roles.len(), expected));
        }
        for (number, role) in group.roles.iter().enumerate() {
            let field = |name: &str| format!("{field}.roles[{number}].{name}");
            below(&field("task"), role.task, self.tasks.len(), "tasks")?;
            if let Some(leader) = role.follows {
                below(
                    &field("follows"),
                    leader as usize,
                    group.roles.len(),
                    "roles",
                )?;
            }
        }
        Ok(())
    }

    fn check_program(&self, field: &str, program: &Program) -> Result<(), Error> {
        match program {
            Program::Steps(steps) => self.check_steps(field, steps),
            Program::Player(player) => {
                if player.chunk_ns == 0 || player.load <= 0.0 || player.load.is_nan() {
                    return Err(wrong(field, "0", "chunk_ns and load above 0"));
                }
                player
                    .domain
                    .map_or(Ok(()), |domain| self.check_domain(field, domain))
            }
            Program::Hog => Ok(()),
            Program::MuteLiar { domain }
            | Program::PoliteLiar { domain, .. }
            | Program::Garbage { domain, .. }
            | Program::Script { domain, .. } => self.check_domain(field, *domain),
        }
    }

    fn check_steps(&self, field: &str, steps: &[Step]) -> Result<(), Error> {
        for (number, step) in steps.iter().enumerate() {
            let field = format!("{field}[{number}]");
            match step {
                Step::Resume(task) | Step::Fork(task) => {
                    below(&field, *task, self.tasks.len(), "tasks")?;
                }
                Step::Put { queue } | Step::Take { queue } => {
                    below(&field, *queue as usize, self.queues.len(), "queues")?;
                }
                Step::Nice(nice) if !(-20..=19).contains(nice) => {
                    return Err(wrong(field, nice, "-20 to 19"));
                }
                Step::Affinity(cpus) => self.check_cpus(&field, cpus)?,
                Step::Cgroup(cgroup) => below(&field, *cgroup, self.cgroups.len(), "cgroups")?,
                Step::Join(domain) => self.check_domain(&field, *domain)?,
                Step::Loop { steps, .. } => self.check_steps(&field, steps)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn check_action(&self, field: &str, action: &ActionKind) -> Result<(), Error> {
        let task_of = |task: usize| below(field, task, self.tasks.len(), "tasks");
        match action {
            ActionKind::CpuOffline(cpu) | ActionKind::CpuOnline(cpu) => {
                below(field, *cpu as usize, self.machine.llc_of.len(), "CPUs")
            }
            ActionKind::Nice { task, .. } | ActionKind::Kill { task } => task_of(*task),
            ActionKind::Affinity { task, cpus } => {
                task_of(*task)?;
                self.check_cpus(field, cpus)
            }
            ActionKind::MoveToCgroup { task, cgroup } => {
                task_of(*task)?;
                below(field, *cgroup, self.cgroups.len(), "cgroups")
            }
            ActionKind::CgroupWeight { cgroup, .. } => {
                below(field, *cgroup, self.cgroups.len(), "cgroups")
            }
            ActionKind::CgroupMax { cgroup, max } => {
                below(field, *cgroup, self.cgroups.len(), "cgroups")?;
                check_limit(field, *cgroup, max.as_ref())
            }
            ActionKind::Call(call) => match call {
                Call::AddToReservation { task, .. } | Call::Leave { task } => task_of(*task),
                Call::Join { task, domain, .. } => {
                    task_of(*task)?;
                    self.check_domain(field, *domain)
                }
                Call::DestroyDomain(domain) => self.check_domain(field, *domain),
                Call::SetUser { group, .. } => below(field, *group, self.groups.len(), "groups"),
                Call::PutUser { user, .. } => {
                    user.map_or(Ok(()), |user| below(field, user, self.users.len(), "users"))
                }
                Call::Role { group, what, .. } => {
                    below(field, *group, self.groups.len(), "groups")?;
                    match what {
                        RoleCall::Bind { task } | RoleCall::Unbind { task } => task_of(*task),
                        _ => Ok(()),
                    }
                }
                _ => Ok(()),
            },
            ActionKind::Tunables(_) | ActionKind::DaemonDies { .. } | ActionKind::Dump => Ok(()),
        }
    }
}
