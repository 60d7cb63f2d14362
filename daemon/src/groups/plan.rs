// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plans of members: loaded, triggered, paused, set to another place. A plan belongs to a member's name and stays when its
//! group is made anew; when it began does not.

use std::{collections::HashMap, time::Duration};

use consort_groups::{
    frames::{check_rate, most_needed_ns, Interval, INTERVALS_MAX, INTERVAL_MIN_NS, LENGTH_MAX_NS},
    Description, Group,
};
use consort_kernel::{format_ns, NEVER_NS};
use nix::{
    errno::Errno,
    time::{clock_gettime, ClockId},
};
use tracing::warn;

use super::{scheduler::bootstrap, FileKey, GroupId};
use crate::{audit, peer::Peer, service::Service, Refusal};

/// Intervals of all plans of one user and its subordinate numbers, for each thread: the scheduler keeps them in memory.
const INTERVALS_OF_USER_MAX: usize = 4 * INTERVALS_MAX;

/// When a member is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub intervals: Vec<Interval>,
    /// It begins anew so long after its beginning; 0: it does not.
    pub repeat_ns: u64,
}

/// Where the plans of a group are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Standing {
    /// `None`: they stand still.
    pub began_ns: Option<u64>,
    /// After their beginning; `None`: they have not been paused.
    pub paused_at_ns: Option<u64>,
}

/// What is to be done with the plans of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// They begin now.
    Trigger,
    /// They stand still where they are.
    Pause,
    /// They go on from where they stand.
    Resume,
    /// They go on so long after their beginning, or will, if they stand still.
    Seek(u64),
}

impl Plan {
    /// # Errors
    /// EINVAL for intervals that are too many, too short, too late, or not one after the other.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        let refuse = |text: String| Err(Refusal::new(Errno::EINVAL, text));
        let count = self.intervals.len();
        if count == 0 || count > INTERVALS_MAX {
            return refuse(format!("{count} intervals: expected 1 to {INTERVALS_MAX}"));
        }
        let mut before_ns = 0;
        for (number, one) in self.intervals.iter().enumerate() {
            let length_ns = one.end_ns.checked_sub(one.start_ns);
            let is_right = one.start_ns >= before_ns
                && one.end_ns <= LENGTH_MAX_NS
                && length_ns.is_some_and(|length_ns| length_ns >= INTERVAL_MIN_NS);
            if !is_right {
                return refuse(format!(
                    "interval {} is from {} to {}: expected 100us at least, after the end of the one before, within 30 days",
                    number + 1,
                    format_ns(one.start_ns),
                    format_ns(one.end_ns)
                ));
            }
            before_ns = one.end_ns;
        }
        if self.repeat_ns != 0 && !(before_ns..=LENGTH_MAX_NS).contains(&self.repeat_ns) {
            return refuse(format!(
                "the plan is to begin anew after {}, before its end: expected {} at least",
                format_ns(self.repeat_ns),
                format_ns(before_ns)
            ));
        }
        Ok(())
    }
}

/// CLOCK_MONOTONIC, which plans go by.
pub(super) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC);
    let now = now.map_or(Duration::ZERO, Duration::from);
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

impl Service {
    /// Gives a member of the asking user's a plan, in place of the one that it has; `None`: none. `anyway`: also if its
    /// group's rate has no time for it.
    ///
    /// # Errors
    /// ENOENT when there is no such member, EINVAL for a plan that is wrong, or whose member cannot have one, EDQUOT beyond the
    /// group's rate or the user's limit, and what the scheduler refuses. Nothing is changed then.
    pub fn set_plan(
        &mut self,
        peer: &Peer,
        member: &str,
        plan: Option<Plan>,
        anyway: bool,
    ) -> Result<(), Refusal> {
        let (id, index) = self.find_member(peer.uid, member)?;
        if let Some(plan) = &plan {
            plan.check()?;
            self.check_plan(peer.uid, (id, member), plan, anyway)?;
        }
        let old = self
            .groups
            .plans
            .get(&(peer.uid, member.to_owned()))
            .cloned();
        self.load_in_scheduler((id, index), plan.as_ref(), old.as_ref())?;
        if let Err(refusal) = self.keep_plan(peer.uid, member, plan.as_ref()) {
            if let Err(error) = self.load_in_scheduler((id, index), old.as_ref(), None) {
                warn!(member, %error, "a plan that could not be kept cannot be taken back");
            }
            return Err(refusal);
        }
        let count = plan.as_ref().map_or(0, |plan| plan.intervals.len());
        let key = (peer.uid, member.to_owned());
        match plan {
            Some(plan) => self.groups.plans.insert(key, plan),
            None => self.groups.plans.remove(&key),
        };
        self.note_plans(id);
        audit::done(self, peer, "plan", &format!("{member}: {count} intervals"));
        Ok(())
    }

    fn find_member(&self, uid: u32, member: &str) -> Result<(GroupId, usize), Refusal> {
        self.groups.member(uid, member).ok_or_else(|| {
            let text = format!(
                "no group file of user {uid} has a member {member:?}: `consort show` lists them"
            );
            Refusal::new(Errno::ENOENT, text)
        })
    }

    /// Threads that a member's name stands for: the scheduler keeps a plan for each.
    fn threads_of(&self, uid: u32, member: &str) -> usize {
        let place = self.groups.member(uid, member);
        let made = place.and_then(|(id, index)| self.groups.made.get(&id)?.seats.get(index));
        made.map_or(1, Vec::len)
    }

    /// Intervals that the scheduler keeps of the plans on a user's account, where members stand for so many `threads`.
    fn intervals_of(&self, uid: u32, threads: impl Fn(u32, &str) -> usize) -> usize {
        let account = self.users.account(uid);
        let plans = self.groups.plans.iter();
        let own = plans.filter(|((of, _), _)| self.users.account(*of) == account);
        own.map(|((of, name), plan)| plan.intervals.len() * threads(*of, name))
            .sum()
    }

    /// Whether a user's plans are within its limit once a file says what its members stand for.
    pub(super) fn check_plans_of_sets(&self, uid: u32, to: &Description) -> Result<(), Refusal> {
        let counts: HashMap<&str, usize> = to
            .members()
            .map(|(_, _, member)| (member.name.as_str(), member.count as usize))
            .collect();
        let sum = self.intervals_of(uid, |of, name| {
            let count = counts.get(name).filter(|_| of == uid).copied();
            count.unwrap_or_else(|| self.threads_of(of, name))
        });
        match sum > INTERVALS_OF_USER_MAX {
            true => Err(too_many_intervals(self.users.account(uid), sum)),
            false => Ok(()),
        }
    }

    fn check_plan(
        &self,
        uid: u32,
        (id, member): (GroupId, &str),
        plan: &Plan,
        anyway: bool,
    ) -> Result<(), Refusal> {
        let threads = |name: &str| self.threads_of(uid, name);
        let sum = self.intervals_of(uid, |of, name| match (of, name) == (uid, member) {
            true => 0,
            false => self.threads_of(of, name),
        });
        if sum + plan.intervals.len() * threads(member) > INTERVALS_OF_USER_MAX {
            return Err(too_many_intervals(self.users.account(uid), sum));
        }
        let promise = self.payer_of(id).and_then(|(file, payer)| {
            let description = &self.groups.files.get(file)?.description;
            let rate = description.own_rate(payer)?;
            Some((rate, payer.promise.as_ref()?.period_ns))
        });
        let Some((rate, period_ns)) = promise.filter(|_| !anyway) else {
            return Ok(());
        };
        let needed = most_needed_ns(&plan.intervals, plan.repeat_ns, period_ns);
        // The other threads of the same member follow the same plan.
        let own_ns = needed.saturating_mul(threads(member).saturating_sub(1) as u64);
        let others_ns = self.needed_beside_ns(uid, (id, member), period_ns);
        let others_ns = others_ns.saturating_add(own_ns);
        check_rate(&plan.intervals, plan.repeat_ns, rate, period_ns, others_ns)
            .map_err(|too_much| Refusal::new(Errno::EDQUOT, too_much.to_string()))
    }

    /// The group whose rate pays for another one of its file.
    fn payer_of(&self, id: GroupId) -> Option<(&FileKey, &Group)> {
        let made = self.groups.made.get(&id)?;
        let file = self.groups.files.get(&made.file)?;
        Some((&made.file, file.description.payer(&made.group)?))
    }

    /// What the plans of a user's other members need of the rate that pays for this one's, in any window of that length: the
    /// sum of what each needs at most, since they need not begin at the same time.
    fn needed_beside_ns(&self, uid: u32, (id, member): (GroupId, &str), window_ns: u64) -> u64 {
        let payer = |id| {
            let (file, group) = self.payer_of(id)?;
            Some((file, group.name.as_str()))
        };
        let own = payer(id);
        let plans = self.groups.plans.iter();
        let others = plans.filter(|((of, name), _)| {
            let place = self.groups.member(uid, name);
            *of == uid && name != member && place.and_then(|(id, _)| payer(id)) == own
        });
        let needed = others.map(|((_, name), plan)| {
            let one_ns = most_needed_ns(&plan.intervals, plan.repeat_ns, window_ns);
            one_ns.saturating_mul(self.threads_of(uid, name) as u64)
        });
        needed.fold(0, u64::saturating_add)
    }

    /// All threads of a member have its plan, or all have the old one.
    pub(super) fn load_in_scheduler(
        &mut self,
        (id, index): (GroupId, usize),
        plan: Option<&Plan>,
        old: Option<&Plan>,
    ) -> Result<(), Refusal> {
        let made = self.groups.made.get(&id);
        let place = made.and_then(|made| Some((made.id?, made.roles(index)?)));
        let Some((group, roles)) = place else {
            let text = "members of coop groups say themselves when they are due, and those of fair groups of more than 32 \
                        threads are not told apart: expected a member of another group";
            return Err(Refusal::new(Errno::EINVAL, text));
        };
        let (intervals, repeat_ns) = for_scheduler(plan);
        for role in roles.clone() {
            let Err(error) = self.host.load_plan(group, role, &intervals, repeat_ns) else {
                continue;
            };
            let (intervals, repeat_ns) = for_scheduler(old);
            for changed in roles.start..role {
                if let Err(error) = self.host.load_plan(group, changed, &intervals, repeat_ns) {
                    warn!(group, changed, %error, "a plan that all cannot have cannot be taken back");
                }
            }
            return Err(error.into());
        }
        Ok(())
    }

    /// The plans of a group that was made, of those of its members that have any.
    pub(super) fn load_plans(
        &mut self,
        id: GroupId,
        key: &FileKey,
        group: &Group,
    ) -> Result<(), Refusal> {
        for (index, member) in group.members.iter().enumerate() {
            let plan = self
                .groups
                .plans
                .get(&(key.uid, member.name.clone()))
                .cloned();
            if let Some(plan) = plan {
                self.load_in_scheduler((id, index), Some(&plan), None)?;
            }
        }
        self.note_plans(id);
        Ok(())
    }

    fn note_plans(&mut self, id: GroupId) {
        let groups = &mut self.groups;
        if let Some(made) = groups.made.get_mut(&id) {
            let mut members = made.group.members.iter();
            made.has_plans = members.any(|one| {
                groups
                    .plans
                    .contains_key(&(made.file.uid, one.name.clone()))
            });
        }
    }

    /// Forgets plans of members that no file has any more, and none that may be in force again.
    pub(super) fn drop_plans(&mut self, uid: u32) {
        let own = self.groups.plans.keys().filter(|(of, _)| *of == uid);
        let gone = own.filter(|(_, name)| {
            self.groups.member(uid, name).is_none() && !self.groups.awaits(uid, name)
        });
        let gone: Vec<(u32, String)> = gone.cloned().collect();
        for key in gone {
            if let Err(refusal) = self.keep_plan(uid, &key.1, None) {
                warn!(member = key.1, %refusal, "cannot remove a plan from the store");
            }
            self.groups.plans.remove(&key);
        }
    }

    fn keep_plan(&self, uid: u32, member: &str, plan: Option<&Plan>) -> Result<(), Refusal> {
        let Some(store) = &self.groups.store else {
            return Ok(());
        };
        let kept = match plan {
            Some(plan) => store.keep_plan(uid, member, plan),
            None => store.drop_plan(uid, member),
        };
        kept.map_err(|error| {
            let text = format!("cannot keep the plan, so nothing was changed: {error}");
            Refusal::new(Errno::EIO, text)
        })
    }

    /// Lets the plans of the group that has a member begin, stand still or go on.
    ///
    /// # Errors
    /// ENOENT when there is no such member, EINVAL for a group whose members have no plans.
    pub fn move_plans(&mut self, peer: &Peer, member: &str, to: Move) -> Result<(), Refusal> {
        let (id, _) = self.find_member(peer.uid, member)?;
        let made = self.groups.made.get(&id).filter(|made| made.has_plans);
        let Some((made, group)) = made.and_then(|made| Some((made, made.id?))) else {
            let text =
                format!("no member of {member}'s group has a plan: `consort plan load` gives one");
            return Err(Refusal::new(Errno::EINVAL, text));
        };
        let (now_ns, bootstrap) = (now_ns(), bootstrap(&made.group));
        let began_ns = self.began_ns(group);
        let at_ns = match (made.paused_at_ns, began_ns) {
            (Some(at_ns), None) => at_ns,
            (_, Some(began_ns)) => now_ns.saturating_sub(began_ns),
            (None, None) => 0,
        };
        let is_moving = began_ns.is_some();
        let (zero_ns, paused_at_ns) = match to {
            Move::Trigger => (now_ns, None),
            Move::Pause => (NEVER_NS, Some(at_ns)),
            Move::Resume if is_moving => return Ok(()),
            Move::Resume => (now_ns.saturating_sub(at_ns), None),
            Move::Seek(at_ns) if is_moving => (now_ns.saturating_sub(at_ns), None),
            Move::Seek(at_ns) => (NEVER_NS, Some(at_ns)),
        };
        self.host.begin_plans(group, zero_ns, bootstrap)?;
        if let Some(made) = self.groups.made.get_mut(&id) {
            made.paused_at_ns = paused_at_ns;
        }
        audit::done(self, peer, "plan", &format!("{member}: {to:?}"));
        Ok(())
    }

    /// Where the plans of a group are; `None`: it has none.
    pub(super) fn standing_of(&self, key: &FileKey, group: &str) -> Option<Standing> {
        let made = self.groups.made.get(&self.group_number(key, group)?)?;
        let id = made.id.filter(|_| made.has_plans)?;
        Some(Standing {
            began_ns: self.began_ns(id),
            paused_at_ns: made.paused_at_ns,
        })
    }

    /// The plans of a group that was made again go on where they were.
    pub(super) fn stand_again(&mut self, key: &FileKey, group: &str, standing: Standing) {
        let number = self.group_number(key, group);
        let made = number.and_then(|number| self.groups.made.get_mut(&number));
        let Some(made) = made.filter(|made| made.has_plans) else {
            return;
        };
        made.paused_at_ns = standing.paused_at_ns;
        let (Some(id), Some(began_ns)) = (made.id, standing.began_ns) else {
            return;
        };
        if let Err(error) = self.host.begin_plans(id, began_ns, 0) {
            warn!(group, %error, "plans stand still until they are triggered again");
        }
    }

    /// When the plans of a group began; `None`: they stand still. A program may have triggered them itself.
    fn began_ns(&self, group: u32) -> Option<u64> {
        let told = self.host.role_status(group, 0).ok()?;
        (told.zero_ns != NEVER_NS).then_some(told.zero_ns)
    }
}

fn for_scheduler(plan: Option<&Plan>) -> (Vec<consort_kernel::Interval>, u64) {
    let interval = |one: &Interval| consort_kernel::Interval {
        start_ns: one.start_ns,
        end_ns: one.end_ns,
    };
    let intervals = plan.map(|plan| plan.intervals.iter().map(interval).collect());
    let repeat_ns = plan.map_or(0, |plan| plan.repeat_ns);
    (intervals.unwrap_or_default(), repeat_ns)
}

fn too_many_intervals(uid: u32, sum: usize) -> Refusal {
    let text = format!(
        "user {uid} has plans of {sum} intervals, one for each thread of their members, and may have {INTERVALS_OF_USER_MAX} \
         in sum: unload some"
    );
    Refusal::new(Errno::EDQUOT, text)
}
