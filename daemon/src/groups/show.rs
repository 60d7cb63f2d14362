// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `consort show` draws: files, groups, members and threads, as rows that a page can end after. The command puts the
//! tree together.

use consort_groups::{
    function::Function,
    variable::{Variable, VARIABLES_MAX},
    CHOICE_MAX,
};
use consort_kernel::{Missed, RoleStatus, UserStatus, NEVER_NS};
use serde::Serialize;

use super::{
    names::{Known, Source},
    restore::Unrestored,
    FileKey, GroupId, Made,
};
use crate::{pages::first_page, service::Service};

/// Some rows, in the order of the tree.
#[derive(Debug, Serialize)]
pub struct GroupPage {
    pub rows: Vec<Row>,
    /// Ask again with `after` set to the last one's `row`.
    pub more: bool,
}

#[derive(Debug, Serialize)]
pub struct Row {
    pub row: usize,
    #[serde(flatten)]
    pub what: What,
}

#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum What {
    Group(GroupRow),
    /// Of the group before it.
    Member(MemberRow),
    /// Of the member before it.
    Thread(ThreadRow),
    /// A thread whose name no group has.
    Stray(ThreadRow),
    /// A file that the store has, and that is not in force.
    Aside(AsideRow),
}

#[derive(Debug, Serialize)]
pub struct GroupRow {
    pub file: String,
    pub uid: u32,
    pub name: String,
    /// The scheduler's, as traces have it; `null`: the scheduler does not know the group.
    pub number: Option<u32>,
    pub parent: Option<String>,
    /// With its parameters.
    pub function: String,
    pub class: Option<String>,
    /// CPUs that it was promised; what groups below it have of that is counted.
    pub rate: Option<f64>,
    pub period_ns: Option<u64>,
    /// CPUs that its own reservation used over the last second.
    pub used: Option<f64>,
    /// Who runs, or why nobody does; `null` for a group without members.
    pub doing: Option<Doing>,
    /// What its function does that is its user's own; `null`: it has none, or the scheduler does not tell.
    pub user: Option<UserStatus>,
}

/// What a group does, or why it does nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Doing {
    /// A member has a CPU.
    Runs,
    /// A member wants one, and others have their turn.
    Waits,
    /// A member wants one, and the group is as far ahead of its share as it may be.
    BeyondShare,
    /// All members sleep.
    Sleeps,
    /// All members sleep, and its plans wait for their trigger or are paused.
    Untriggered,
    /// No thread has a member's name.
    Unbound,
}

#[derive(Debug, Serialize)]
pub struct MemberRow {
    pub name: String,
    /// How long intervals are of which a plan does not say it.
    pub interval_ns: Option<u64>,
    /// What the function knows of it; empty: nothing.
    pub terms: String,
    pub rule: Option<String>,
    /// The scheduler's number of the first of its `count` roles, as traces have it; `null`: it has none.
    pub role: Option<u32>,
    /// Threads that may have the name.
    pub count: u32,
    pub bound: usize,
    /// Threads that have the name, and no place.
    pub waiting: usize,
    /// Intervals that passed while no thread had the name, of those of its `count` places that nobody has.
    pub missed_vacant: u64,
}

#[derive(Debug, Serialize)]
pub struct ThreadRow {
    pub name: String,
    pub uid: u32,
    pub pid: i32,
    pub tid: i32,
    /// As ps(1) has it.
    pub command: String,
    /// "announced", "launched" or "rule".
    pub source: &'static str,
    pub bound: bool,
    /// Why the scheduler would not have it.
    pub refused: Option<String>,
    /// As ps(1) has it: R runs or wants to, S sleeps, D waits for a device.
    pub ps: Option<char>,
    /// `null`: the scheduler does not tell this one from others of its group.
    pub role: Option<RoleRow>,
}

#[derive(Debug, Serialize)]
pub struct AsideRow {
    pub name: String,
    pub uid: u32,
    /// Why it could not be restored.
    pub why: String,
}

/// What the decision function knows of a thread, and what became of its intervals.
#[derive(Debug, Serialize)]
pub struct RoleRow {
    pub runs: bool,
    pub awake: bool,
    /// Its interval is on.
    pub on: bool,
    /// It runs as if in no group: there are seats for no more accounts.
    pub outside: bool,
    /// Its group is as far ahead of its share as it may be.
    pub blocked: bool,
    /// By their names.
    pub state: Vec<(String, i64)>,
    pub control: Vec<(String, i64)>,
    /// Until its interval or the next one begins, if there is one to come; negative: since it did.
    pub begins_in_ns: Option<i64>,
    /// Intervals in which it ran, if it had anything to do.
    pub kept: u64,
    /// The others, by cause.
    pub missed: Missed,
    pub late_max_ns: u64,
    /// CPU time since it was bound.
    pub ran_ns: u64,
}

impl GroupPage {
    /// The rows after number `after` that user `shown_uid` has, or everybody.
    pub fn of(service: &Service, shown_uid: Option<u32>, after: Option<usize>) -> Self {
        let first = after.map_or(0, |after| after.saturating_add(1));
        let keys = plan(service, shown_uid);
        let rows = keys.into_iter().enumerate().skip(first);
        let (rows, more) = first_page(rows.map(|(row, key)| Row {
            row,
            what: service.row_of(key),
        }));
        GroupPage { rows, more }
    }
}

/// What a row is about: cheap to list, for pages that begin in the middle.
#[derive(Clone, Copy)]
enum Key<'s> {
    Group(GroupId),
    Member(GroupId, usize),
    Thread(i32),
    Stray(i32),
    Aside(&'s FileKey, &'s Unrestored),
}

fn plan(service: &Service, shown_uid: Option<u32>) -> Vec<Key<'_>> {
    let groups = &service.groups;
    let shown = |uid: u32| shown_uid.is_none_or(|shown| shown == uid);
    let mut keys = Vec::new();
    for (key, file) in groups.files.iter().filter(|(key, _)| shown(key.uid)) {
        for group in &file.description.groups {
            let Some(id) = file.groups.get(&group.name) else {
                continue;
            };
            keys.push(Key::Group(*id));
            for (index, member) in group.members.iter().enumerate() {
                keys.push(Key::Member(*id, index));
                let named = groups.names.of(key.uid, &member.name);
                keys.extend(named.map(|(tid, _)| Key::Thread(tid)));
            }
        }
    }
    let strays = groups
        .names
        .after(i32::MIN)
        .filter(|(_, known)| shown(known.uid) && groups.member(known.uid, &known.name).is_none());
    keys.extend(strays.map(|(tid, _)| Key::Stray(tid)));
    let aside = groups.unrestored.iter().filter(|(key, _)| shown(key.uid));
    keys.extend(aside.map(|(key, file)| Key::Aside(key, file)));
    keys
}

impl Service {
    fn row_of(&self, key: Key) -> What {
        match key {
            Key::Group(id) => What::Group(self.describe_group(&self.groups.made[&id])),
            Key::Member(id, index) => {
                What::Member(self.describe_member(&self.groups.made[&id], index))
            }
            Key::Thread(tid) => What::Thread(self.describe_thread(tid)),
            Key::Stray(tid) => What::Stray(self.describe_thread(tid)),
            Key::Aside(key, file) => What::Aside(AsideRow {
                name: key.name.clone(),
                uid: key.uid,
                why: file.why.clone(),
            }),
        }
    }

    fn describe_group(&self, made: &Made) -> GroupRow {
        let Made { file, group, .. } = made;
        let promise = group.promise.as_ref();
        GroupRow {
            file: file.name.clone(),
            uid: file.uid,
            name: group.name.clone(),
            number: made.id,
            parent: group.parent.clone(),
            function: group.function.to_string(),
            class: promise.map(|promise| promise.class.clone()),
            rate: promise.map(|promise| promise.rate.value()),
            period_ns: promise.map(|promise| promise.period_ns),
            used: self.used_by_group(file, &group.name),
            doing: made.id.map(|id| self.doing(id, made)),
            user: match group.function {
                Function::User(_) => made.id.and_then(|id| self.host.user_status(id).ok()),
                _ => None,
            },
        }
    }

    /// Of groups with more threads some are looked at, since that is a system call each.
    fn doing(&self, id: u32, made: &Made) -> Doing {
        let mut told: Vec<RoleStatus> = Vec::new();
        for (index, seats) in made.seats.iter().enumerate() {
            if told.len() >= CHOICE_MAX {
                break;
            }
            let first = made.roles(index).map(|roles| roles.start);
            let bound = seats
                .iter()
                .enumerate()
                .filter_map(|(seat, tid)| Some((seat, (*tid)?)));
            for (seat, tid) in bound.take(CHOICE_MAX) {
                let role = first.map(|first| first + seat as u32);
                let status = role.and_then(|role| self.host.role_status(id, role).ok());
                told.push(status.unwrap_or_else(|| RoleStatus {
                    awake: self.is_awake(tid),
                    ..RoleStatus::default()
                }));
            }
        }
        let has = |what: fn(&RoleStatus) -> bool| told.iter().any(what);
        match () {
            () if told.is_empty() => Doing::Unbound,
            () if has(|role| role.runs) => Doing::Runs,
            () if has(|role| role.awake && role.blocked) => Doing::BeyondShare,
            () if has(|role| role.awake) => Doing::Waits,
            () if made.has_plans && has(|role| role.zero_ns == NEVER_NS) => Doing::Untriggered,
            () => Doing::Sleeps,
        }
    }

    fn is_awake(&self, tid: i32) -> bool {
        let known = self.groups.names.get(tid);
        let state = known.and_then(|known| self.processes.state(known.pid, tid));
        state == Some('R')
    }

    /// What the scheduler knows of a thread that is bound.
    fn role_row(&self, tid: i32) -> Option<RoleRow> {
        let (id, index) = self.groups.names.get(tid)?.bound?;
        let made = self.groups.made.get(&id)?;
        let seat = made.seat_of(index, tid)?;
        let role = made.roles(index)?.start + seat as u32;
        let told: RoleStatus = self.host.role_status(made.id?, role).ok()?;
        let member = &made.group.members[index];
        let named = |variables: &[Variable], words: [i64; VARIABLES_MAX]| {
            let names = variables.iter().map(|variable| variable.name.clone());
            names.zip(words).collect()
        };
        Some(RoleRow {
            runs: told.runs,
            awake: told.awake,
            on: told.on,
            state: named(&member.state, told.state),
            control: named(&member.control, told.control),
            outside: told.outside,
            blocked: told.blocked,
            begins_in_ns: begins_in_ns(&told),
            kept: told.kept,
            missed: told.missed,
            late_max_ns: told.late_max_ns,
            ran_ns: told.ran_ns,
        })
    }

    fn describe_member(&self, made: &Made, index: usize) -> MemberRow {
        let member = &made.group.members[index];
        let named = self.groups.names.of(made.file.uid, &member.name).count();
        let bound = made.seats[index].iter().flatten().count();
        MemberRow {
            name: member.name.clone(),
            interval_ns: member.terms.interval_ns,
            terms: member.terms.to_string(),
            rule: member.rule.as_ref().map(ToString::to_string),
            role: made.roles(index).map(|roles| roles.start),
            count: member.count,
            bound,
            waiting: named.saturating_sub(bound),
            missed_vacant: self.missed_vacant(made, index),
        }
    }

    /// The scheduler looks at the intervals of a place that nobody has when it is asked, and not before.
    fn missed_vacant(&self, made: &Made, index: usize) -> u64 {
        let (Some(id), Some(roles)) = (made.id, made.roles(index)) else {
            return 0;
        };
        roles
            .zip(&made.seats[index])
            .filter(|(_, tid)| tid.is_none())
            .filter_map(|(role, _)| self.host.role_status(id, role).ok())
            .map(|told| told.missed.vacant)
            .sum()
    }

    fn describe_thread(&self, tid: i32) -> ThreadRow {
        let known = self.groups.names.get(tid);
        let of = |value: fn(&Known) -> i32| known.map_or(0, value);
        let pid = of(|known| known.pid);
        let command = self.processes.thread_name(pid, tid).unwrap_or_default();
        ThreadRow {
            name: known.map_or(String::new(), |known| known.name.clone()),
            uid: known.map_or(0, |known| known.uid),
            pid,
            tid,
            // It goes to terminals, root's among them.
            command: command.replace(char::is_control, "?"),
            source: match known.map(|known| known.source) {
                Some(Source::Announced { .. }) => "announced",
                Some(Source::Launched) => "launched",
                Some(Source::Rule) | None => "rule",
            },
            bound: known.is_some_and(|known| known.bound.is_some()),
            refused: known.and_then(|known| known.refused.clone()),
            ps: self.processes.state(pid, tid),
            role: self.role_row(tid),
        }
    }
}

fn begins_in_ns(told: &RoleStatus) -> Option<i64> {
    let from_ns = (told.from_ns != NEVER_NS).then_some(told.from_ns)?;
    Some(from_ns.wrapping_sub(super::plan::now_ns()) as i64)
}
