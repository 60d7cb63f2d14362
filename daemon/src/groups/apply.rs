// SPDX-License-Identifier: MIT OR Apache-2.0
//! Applies group files: all of one, or nothing.

use std::time::Instant;

use consort_groups::{
    difference::{lines, steps, take_all, Placed, Step, Take},
    function::Function,
    read, Description, Group,
};
use consort_rates::accounts::number_in;
use nix::errno::Errno;
use tracing::warn;

use super::{plan::Standing, File, FileKey, GroupId, Made};
use crate::{admission::UserLimits, audit, config, peer::Peer, service::Service, Refusal};

/// All files of one user, with those of its subordinate numbers.
const BYTES_OF_USER_MAX: usize = 1 << 20;

/// One apply on its way.
struct Applying<'a> {
    service: &'a mut Service,
    key: &'a FileKey,
    /// What survives; `None`: the file goes.
    text: Option<&'a str>,
    /// Of who applies; `None`: it was within them before, and stays in force should they be lower now.
    limits: Option<UserLimits>,
    /// The text is in the store already.
    is_kept: bool,
    /// Where plans of groups were that it has ended: they go on there if those are made again.
    stood: Vec<(String, Standing)>,
}

impl Take for Applying<'_> {
    type Error = Refusal;

    fn take(&mut self, step: &Step) -> Result<(), Refusal> {
        let key = self.key;
        match step {
            Step::Promise { group, to, .. } => {
                self.service
                    .set_promise(key, group, to.as_ref(), self.limits)
            }
            Step::Group { from, to } => {
                if let Some(from) = from {
                    let name = &from.group.name;
                    let standing = self.service.standing_of(key, name);
                    self.stood
                        .extend(standing.map(|standing| (name.clone(), standing)));
                    self.service.remove_group(key, name);
                }
                match to {
                    Some(to) => self.service.make_group(key, to, self.limits.is_some()),
                    None => Ok(()),
                }
            }
            Step::Member {
                group, index, to, ..
            } => self.service.set_member(key, group, *index, to),
        }
    }

    fn turn_back(&mut self) {
        self.limits = None;
    }

    fn keep(&mut self) -> Result<(), Refusal> {
        let Some(store) = self.service.groups.store.as_ref().filter(|_| !self.is_kept) else {
            return Ok(());
        };
        let kept = match self.text {
            Some(text) => store.keep_file(self.key, text),
            None => store.drop_file(self.key),
        };
        kept.map_err(|error| {
            let text = format!("cannot keep the file, so nothing was changed: {error}");
            Refusal::new(Errno::EIO, text)
        })
    }

    fn stuck(&mut self, step: &Step, refusal: Refusal) {
        warn!(group = step.group(), %refusal, "a step that could not be kept cannot be undone");
    }
}

impl Service {
    /// Puts in force what `text` says, in place of what a file of that name said before; the lines tell what changes.
    /// `only_look`: nothing does.
    ///
    /// # Errors
    /// EINVAL for a file that is wrong, EPERM for a stranger's threads, EEXIST for a name that another file has, and what
    /// ledger, limits and scheduler refuse. Nothing is changed then.
    pub fn apply_file(
        &mut self,
        peer: &Peer,
        name: &str,
        text: &str,
        only_look: bool,
    ) -> Result<Vec<String>, Refusal> {
        let to = read(name, name, text)
            .map_err(|problems| Refusal::new(Errno::EINVAL, problems.to_string()))?;
        let key = FileKey {
            uid: peer.uid,
            name: to.name.clone(),
        };
        self.check_file(&key, &to, text.len())?;
        let old = self.groups.files.get(&key);
        let from = old.map_or_else(Description::default, |file| file.description.clone());
        let changes = lines(&from, &to);
        if only_look || (old.is_some() && from == to) {
            return Ok(changes);
        }
        let asker = peer.pid;
        let limits = self.limits_of_process(asker);
        self.replace(&key, (&from, to), Some(text), Some(limits), false)?;
        self.drop_plans(key.uid);
        audit::done(
            self,
            peer,
            "apply",
            &format!("{}: {} changes", key.name, changes.len()),
        );
        Ok(changes)
    }

    /// Ends all that a file describes. Root names whose file it is.
    ///
    /// # Errors
    /// ENOENT when there is none of that name, EPERM for a stranger's.
    pub fn delete_file(
        &mut self,
        peer: &Peer,
        name: &str,
        uid: Option<u32>,
    ) -> Result<Vec<String>, Refusal> {
        let uid = uid.unwrap_or(peer.uid);
        if peer.uid != 0 && uid != peer.uid {
            let text =
                format!("group files of user {uid} are not yours: delete your own, or as root");
            return Err(Refusal::new(Errno::EPERM, text));
        }
        let key = FileKey {
            uid,
            name: name.to_owned(),
        };
        let Some(file) = self.groups.files.get(&key) else {
            if self.groups.unrestored.contains_key(&key) {
                return self.delete_unrestored(peer, &key);
            }
            let text = format!("no group file {name:?} is in force: `consort show` lists them");
            return Err(Refusal::new(Errno::ENOENT, text));
        };
        let from = file.description.clone();
        let changes = lines(&from, &Description::default());
        self.replace(&key, (&from, Description::default()), None, None, false)?;
        self.drop_plans(uid);
        audit::done(self, peer, "delete", &key.name);
        Ok(changes)
    }

    pub(super) fn replace(
        &mut self,
        key: &FileKey,
        (from, to): (&Description, Description),
        text: Option<&str>,
        limits: Option<UserLimits>,
        is_kept: bool,
    ) -> Result<(), Refusal> {
        let steps = steps(from, &to);
        let file = self.groups.files.entry(key.clone());
        file.or_insert_with(|| File {
            description: Description::default(),
            bytes: 0,
            groups: Default::default(),
        });
        let mut applying = Applying {
            service: self,
            key,
            text,
            limits,
            is_kept,
            stood: Vec::new(),
        };
        let done = take_all(&mut applying, steps);
        let stood = applying.stood;
        if done.is_ok() {
            self.groups.describe(key, to, text.map_or(0, str::len));
            self.groups.unrestored.remove(key);
        } else {
            // The last one is of what was to be.
            for (group, standing) in stood.into_iter().rev() {
                self.stand_again(key, &group, standing);
            }
        }
        if self
            .groups
            .files
            .get(key)
            .is_some_and(|file| file.groups.is_empty())
        {
            self.groups.files.remove(key);
        }
        self.settle_file(key);
        done
    }

    /// What the file alone does not tell: other files, other users, limits.
    pub(super) fn check_file(
        &self,
        key: &FileKey,
        to: &Description,
        bytes: usize,
    ) -> Result<(), Refusal> {
        let account = self.users.account(key.uid);
        let files = self.groups.files.iter();
        let in_force = files.map(|(key, file)| (key, file.bytes));
        let unrestored = self.groups.unrestored.iter();
        let unrestored = unrestored.map(|(key, file)| (key, file.bytes));
        let others = in_force
            .chain(unrestored)
            .filter(|(other, _)| *other != key && self.users.account(other.uid) == account);
        let sum: usize = others.map(|(_, bytes)| bytes).sum();
        if sum + bytes > BYTES_OF_USER_MAX {
            let text = format!(
                "user {account} has group files of {sum} bytes, and may have {BYTES_OF_USER_MAX} in sum: delete some"
            );
            return Err(Refusal::new(Errno::EDQUOT, text));
        }
        self.check_plans_of_sets(key.uid, to)?;
        for group in &to.groups {
            if let Some(promise) = &group.promise {
                self.reservations.ledger.classes().find(&promise.class)?;
            }
            if let Function::User(name) = &group.function {
                self.function_number(key.uid, name)?;
            }
        }
        let users = config::users();
        for (_, _, member) in to.members() {
            let other = self.groups.member(key.uid, &member.name);
            let other = other.and_then(|(id, _)| self.groups.made.get(&id));
            if let Some(other) = other.filter(|other| other.file != *key) {
                let text = format!(
                    "{} is a member of group {} of the file {}: a name is one member's; call it otherwise, or delete that file",
                    member.name, other.group.name, other.file.name
                );
                return Err(Refusal::new(Errno::EEXIST, text));
            }
            let user = member.rule.as_ref().and_then(|rule| rule.user.as_deref());
            if let Some(user) = user {
                check_user(&users, key.uid, &member.name, user)?;
            }
        }
        Ok(())
    }

    /// `is_new`: its user is to be allowed one more.
    fn make_group(&mut self, key: &FileKey, placed: &Placed, is_new: bool) -> Result<(), Refusal> {
        let now = Instant::now();
        let id = match placed.group.members.is_empty() {
            true => None,
            false => {
                if is_new {
                    self.users.check_domains(key.uid, now)?;
                }
                let payer = placed.payer.as_ref();
                let reservation =
                    payer.and_then(|payer| self.reservation_of_group(key, &payer.group));
                let id = self.create_group(key, &placed.group, reservation)?;
                self.users.add_domain(key.uid, now);
                let group = &placed.group.name;
                self.groups.note_group(id, key.uid, &key.name, group);
                Some(id)
            }
        };
        let made = Made::new(key, placed, id);
        let number = self.groups.insert(made);
        if let Some(file) = self.groups.files.get_mut(key) {
            file.groups.insert(placed.group.name.clone(), number);
        }
        self.load_plans(number, key, &placed.group)
            .inspect_err(|_| self.remove_group(key, &placed.group.name))
    }

    fn create_group(
        &mut self,
        key: &FileKey,
        group: &Group,
        reservation: Option<u32>,
    ) -> Result<u32, Refusal> {
        let Function::User(name) = &group.function else {
            return Ok(self.host.create_group(group, reservation)?);
        };
        let number = self.function_number(key.uid, name)?;
        Ok(self.host.create_user_group(group, number, reservation)?)
    }

    fn remove_group(&mut self, key: &FileKey, name: &str) {
        let file = self.groups.files.get_mut(key);
        let Some(number) = file.and_then(|file| file.groups.remove(name)) else {
            return;
        };
        let threads = self
            .groups
            .made
            .get(&number)
            .map(|made| made.threads().collect::<Vec<i32>>());
        for tid in threads.unwrap_or_default() {
            self.unbind(tid);
        }
        let Some(id) = self.groups.remove(number).and_then(|made| made.id) else {
            return;
        };
        self.users.remove_domain(key.uid, Instant::now());
        if let Some(store) = &self.groups.store {
            store.forget_group(id);
        }
        self.destroy_group_or_doom(id);
    }

    pub(super) fn destroy_group_or_doom(&mut self, id: u32) {
        match self.host.destroy_group(id) {
            Ok(()) => {}
            Err(error) if error.errno() == libc::EBUSY => self.groups.doomed.push(id),
            Err(error) => warn!(group = id, %error, "cannot remove a group"),
        }
    }

    fn set_member(
        &mut self,
        key: &FileKey,
        group: &str,
        index: usize,
        to: &consort_groups::Member,
    ) -> Result<(), Refusal> {
        let number = self.group_number(key, group);
        let Some(made) = number.and_then(|number| self.groups.made.get_mut(&number)) else {
            let text = format!("there is no group {group}");
            return Err(Refusal::new(Errno::ENOENT, text));
        };
        let from = std::mem::replace(&mut made.group.members[index], to.clone());
        let (Some(id), Some(roles)) = (made.id, made.roles(index)) else {
            return Ok(());
        };
        let Err(error) = self.host.set_member(id, &made.group, roles.clone(), index) else {
            return Ok(());
        };
        made.group.members[index] = from;
        // Some of its threads may have what it was to be.
        if let Err(error) = self.host.set_member(id, &made.group, roles, index) {
            warn!(group, %error, "a member that cannot be changed cannot be taken back");
        }
        Err(error.into())
    }

    pub(super) fn group_number(&self, key: &FileKey, group: &str) -> Option<GroupId> {
        self.groups.files.get(key)?.groups.get(group).copied()
    }
}

/// Only root names strangers.
fn check_user(users: &str, uid: u32, member: &str, user: &str) -> Result<(), Refusal> {
    let Some(named) = number_in(users, user) else {
        let text =
            format!("the rule of {member} names user {user:?}, whom this machine does not know");
        return Err(Refusal::new(Errno::ENOENT, text));
    };
    if uid != 0 && named != uid {
        let text = format!(
            "the rule of {member} names threads of user {user}, and the file is of user {uid}: name your own, or apply it as root"
        );
        return Err(Refusal::new(Errno::EPERM, text));
    }
    Ok(())
}
