// SPDX-License-Identifier: MIT OR Apache-2.0
//! Puts in force what the store has. A file that cannot be, be it for want of memory or because a user is not known for a
//! moment, is set aside: the next daemon tries it again, after those that were in force, to which it gives way. Its user can
//! delete it, and it counts for that one.

use std::{collections::BTreeSet, io, path::Path};

use consort_groups::{read, Description};
use nix::errno::Errno;
use tracing::{error, info, warn};

use super::{FileKey, Groups, Store};
use crate::{audit, peer::Peer, service::Service, Refusal};

/// Longer reasons are cut.
const WHY_CHARS_MAX: usize = 400;

/// A file that the store has, and that is not in force.
#[derive(Debug)]
pub(crate) struct Unrestored {
    /// Of its text.
    pub bytes: usize,
    /// Why it is not, in a line.
    pub why: String,
    /// Whose plans are kept for it.
    members: BTreeSet<String>,
}

impl Unrestored {
    fn of(key: &FileKey, text: &str, why: &Refusal) -> Self {
        let said = read(&key.name, &key.name, text).unwrap_or_default();
        let members = said.members().map(|(_, _, member)| member.name.clone());
        Unrestored {
            bytes: text.len(),
            why: shown(&why.to_string()),
            members: members.collect(),
        }
    }
}

impl Service {
    /// Puts in force what the store has: called once, with the programs of a daemon before, and before anybody is served.
    pub fn open_groups(&mut self, folder: &Path) {
        let left = match Store::open(folder) {
            Ok((store, left)) => {
                self.groups.store = Some(store);
                left
            }
            Err(error) => return warn_of_no_store(folder, &error),
        };
        self.restore_launched(left.launched);
        self.restore_announced(left.announced);
        self.restore_functions(left.functions);
        for (uid, member, plan) in left.plans {
            self.groups.plans.insert((uid, member), plan);
        }
        for (key, text) in left.files {
            if !self.restore_file(&key, &text) {
                self.in_store(&key, "set aside", Store::set_aside);
            }
        }
        for (key, text) in left.aside {
            // Its user may have put another one in its place.
            let groups = &self.groups;
            let is_there = groups.files.contains_key(&key) || groups.unrestored.contains_key(&key);
            if !is_there && self.restore_file(&key, &text) {
                self.in_store(&key, "brought back", Store::bring_back);
            }
        }
        let users: BTreeSet<u32> = self.groups.plans.keys().map(|(uid, _)| *uid).collect();
        users.into_iter().for_each(|uid| self.drop_plans(uid));
        self.go_on();
    }

    /// False when the file is not in force.
    fn restore_file(&mut self, key: &FileKey, text: &str) -> bool {
        match self.make_file(key, text) {
            Ok(()) => {
                info!(file = key.name, uid = key.uid, "group file restored");
                true
            }
            Err(refusal) => {
                warn!(
                    file = key.name,
                    uid = key.uid,
                    %refusal,
                    "a group file cannot be restored: the next daemon tries again"
                );
                let unrestored = Unrestored::of(key, text, &refusal);
                self.groups.unrestored.insert(key.clone(), unrestored);
                false
            }
        }
    }

    fn make_file(&mut self, key: &FileKey, text: &str) -> Result<(), Refusal> {
        let to = read(&key.name, &key.name, text)
            .map_err(|problems| Refusal::new(Errno::EINVAL, problems.to_string()))?;
        self.check_file(key, &to, text.len())?;
        self.replace(key, (&Description::default(), to), Some(text), None, true)
    }

    fn in_store(
        &self,
        key: &FileKey,
        what: &str,
        done: impl FnOnce(&Store, &FileKey) -> io::Result<()>,
    ) {
        let outcome = self.groups.store.as_ref().map(|store| done(store, key));
        if let Some(Err(error)) = outcome {
            warn!(file = key.name, uid = key.uid, %error, "a group file cannot be {what} in the store");
        }
    }

    /// Ends what is in the store alone.
    ///
    /// # Errors
    /// EIO when it cannot be removed.
    pub(super) fn delete_unrestored(
        &mut self,
        peer: &Peer,
        key: &FileKey,
    ) -> Result<Vec<String>, Refusal> {
        if let Some(store) = &self.groups.store {
            store.drop_file(key).map_err(|error| {
                let text = format!("cannot remove the file, so nothing was changed: {error}");
                Refusal::new(Errno::EIO, text)
            })?;
        }
        self.groups.unrestored.remove(key);
        self.drop_plans(key.uid);
        audit::done(self, peer, "delete", &key.name);
        Ok(vec![format!(
            "- file {}, which could not be restored",
            key.name
        )])
    }
}

/// The first line, for terminals: a file may have put anything into it.
fn shown(why: &str) -> String {
    let line = why.lines().next().unwrap_or_default();
    let short: String = line.chars().take(WHY_CHARS_MAX).collect();
    short.replace(char::is_control, "?")
}

impl Groups {
    /// Whether a file that may be in force again has a member of that name.
    pub(super) fn awaits(&self, uid: u32, member: &str) -> bool {
        let mut own = self.unrestored.iter().filter(|(key, _)| key.uid == uid);
        own.any(|(_, file)| file.members.contains(member))
    }
}

fn warn_of_no_store(folder: &Path, error: &io::Error) {
    error!(
        %error,
        store = %folder.display(),
        "the store of group files cannot be used: what is applied from now on ends with the daemon"
    );
}
