// SPDX-License-Identifier: MIT OR Apache-2.0
//! Its groups: what a scheduler keeps of them, and refuses.

use std::{collections::BTreeMap, ops::Range, os::fd::OwnedFd, time::Duration};

use consort_daemon::groups::host::{Bind, Confined, GroupHost, Looked, Verification};
use consort_groups::Group;
use consort_kernel::{Error, Interval, RoleStatus, INTERVAL_MIN_NS, NEVER_NS};
use nix::sys::memfd::{memfd_create, MFdFlags};

use super::{refusal, FakeGroup, FakeHost};

/// The kernel finds nothing wrong, and takes no time, or goes on for as long as the test likes.
#[derive(Debug)]
struct FakeVerification(FakeHost);

impl Verification for FakeVerification {
    fn look(self: Box<Self>) -> Looked {
        if self.0.record().verifies_on {
            return Looked::NotYet(self);
        }
        Looked::Done {
            program: memfd_create("program", MFdFlags::MFD_CLOEXEC).unwrap(),
            steps: 1,
            took: Duration::ZERO,
        }
    }
}

impl GroupHost for FakeHost {
    fn verify_user(&self, _confined: &Confined) -> Result<Box<dyn Verification>, Error> {
        Self::refused(&self.record(), "verify_user")?;
        Ok(Box::new(FakeVerification(self.clone())))
    }

    fn put_user(&mut self, _number: u32, _program: &OwnedFd) -> Result<(), Error> {
        Self::refused(&self.record(), "put_user")
    }

    fn create_group(&mut self, group: &Group, reservation: Option<u32>) -> Result<u32, Error> {
        let mut record = self.record();
        Self::refused(&record, "create_group")?;
        record.live_or_die();
        let exists = |id: &u32| record.reservations.contains_key(id);
        assert!(reservation.as_ref().is_none_or(exists));
        assert!(!group.members.is_empty());
        record.next += 1;
        let id = record.next;
        let made = FakeGroup {
            group: group.clone(),
            reservation,
            threads: BTreeMap::new(),
            plans: BTreeMap::new(),
            begun: None,
        };
        record.groups.insert(id, made);
        Ok(id)
    }

    fn destroy_group(&mut self, id: u32) -> Result<(), Error> {
        let mut record = self.record();
        Self::refused(&record, "destroy_group")?;
        record.live_or_die();
        let gone = record.groups.remove(&id).expect("the group exists");
        assert!(gone.threads.is_empty(), "group {id} has threads");
        Ok(())
    }

    fn set_member(
        &mut self,
        id: u32,
        group: &Group,
        roles: Range<u32>,
        index: usize,
    ) -> Result<(), Error> {
        let mut record = self.record();
        Self::refused(&record, "set_member")?;
        record.live_or_die();
        assert_eq!(group.roles(index), Some(roles));
        let made = record.groups.get_mut(&id).expect("the group exists");
        made.group.members[index] = group.members[index].clone();
        Ok(())
    }

    fn bind(&mut self, bind: Bind) -> Result<(), Error> {
        let mut record = self.record();
        record.binds += 1;
        Self::refused(&record, "bind")?;
        if record.unbindable.contains(&bind.thread.tid) {
            return Err(refusal("bind", libc::ESRCH));
        }
        record.live_or_die();
        assert!(bind
            .page
            .is_none_or(|(client, _)| record.pages.contains(&client)));
        let has_one = |group: &FakeGroup| group.threads.contains_key(&bind.thread.tid);
        if record.members.contains_key(&bind.thread.tid) || record.groups.values().any(has_one) {
            return Err(refusal("bind", libc::EEXIST));
        }
        let group = record
            .groups
            .get_mut(&bind.group)
            .expect("the group exists");
        let threads: u32 = group.group.members.iter().map(|member| member.count).sum();
        assert!(bind.role.is_none_or(|role| role < threads));
        let plays = |other: &Bind| bind.role.is_some() && other.role == bind.role;
        assert!(!group.threads.values().any(plays), "the role is played");
        group.threads.insert(bind.thread.tid, bind);
        Ok(())
    }

    fn unbind(&mut self, bind: Bind) -> Result<(), Error> {
        let mut record = self.record();
        record.live_or_die();
        if record.executed.contains(&bind.thread.tid) {
            return Err(refusal("unbind", libc::ESRCH));
        }
        let group = record
            .groups
            .get_mut(&bind.group)
            .expect("the group exists");
        assert_eq!(group.threads.remove(&bind.thread.tid), Some(bind));
        Ok(())
    }

    fn role_status(&self, id: u32, role: u32) -> Result<RoleStatus, Error> {
        let record = self.record();
        let Some(group) = record.groups.get(&id) else {
            return Err(refusal("role_status", libc::ENOENT));
        };
        let mut threads = group.threads.values();
        let played = threads.find(|bind| bind.role == Some(role));
        Ok(RoleStatus {
            tid: played.map_or(0, |bind| bind.thread.tid),
            awake: played.is_some(),
            state: [7, 0, 0, 0],
            from_ns: NEVER_NS,
            zero_ns: group.begun.map_or(NEVER_NS, |(zero_ns, _)| zero_ns),
            ..RoleStatus::default()
        })
    }

    fn load_plan(
        &mut self,
        id: u32,
        role: u32,
        intervals: &[Interval],
        repeat_ns: u64,
    ) -> Result<(), Error> {
        let mut record = self.record();
        Self::refused(&record, "load_plan")?;
        if record.unplannable == Some(role) && !intervals.is_empty() {
            return Err(refusal("load a plan", libc::ENOMEM));
        }
        record.live_or_die();
        let ends = intervals
            .windows(2)
            .all(|pair| pair[0].end_ns <= pair[1].start_ns);
        assert!(
            ends && intervals
                .iter()
                .all(|one| one.end_ns - one.start_ns >= INTERVAL_MIN_NS)
        );
        let last_ns = intervals.last().map_or(0, |last| last.end_ns);
        assert!(repeat_ns == 0 || repeat_ns >= last_ns);
        let group = record.groups.get_mut(&id).expect("the group exists");
        match intervals.is_empty() {
            true => group.plans.remove(&role),
            false => group.plans.insert(role, (intervals.to_vec(), repeat_ns)),
        };
        Ok(())
    }

    fn begin_plans(&mut self, id: u32, zero_ns: u64, bootstrap: u32) -> Result<(), Error> {
        let mut record = self.record();
        Self::refused(&record, "begin_plans")?;
        record.live_or_die();
        let group = record.groups.get_mut(&id).expect("the group exists");
        group.begun = Some((zero_ns, bootstrap));
        Ok(())
    }
}
