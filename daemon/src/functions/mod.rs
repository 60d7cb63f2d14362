// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decision functions of users' own: what is loaded, what is being verified, and which groups have them.
//!
//! A function is checked and confined here (`consort_df`), verified by the kernel in a process of its own, which nobody waits
//! for, and put at a number of the scheduler's. The command asks for the outcome by a ticket. A group has the function of
//! its owner's that its file names; another one that is loaded in its place is asked from the next choice on.

mod command;
mod hex;
mod show;

use std::{
    collections::{BTreeMap, VecDeque},
    os::fd::OwnedFd,
    time::Instant,
};

use consort_df::{Kind, Object};
use consort_groups::function::Function;
use consort_kernel::USER_FUNCTIONS;
use nix::errno::Errno;
use tracing::{info, warn};

pub use self::command::{FunctionCommand, Outcome, Ticket};
use self::hex::{from_hex, to_hex};
pub use self::show::{FunctionPage, FunctionRow, UserRow};
use crate::{
    audit,
    groups::{
        host::{Looked, Verification},
        FileKey,
    },
    peer::Peer,
    service::Service,
    Refusal,
};

/// Functions that a user may have at a time; root may have as many as there is room for.
const FUNCTIONS_OF_USER_MAX: usize = 16;
/// Functions of a user's that wait to be verified, root's too: no user takes another one's place.
const WAITING_OF_USER_MAX: usize = FUNCTIONS_OF_USER_MAX;
/// Outcomes that a user has not asked for: those that are not there yet, and as many others.
const OUTCOMES_OF_USER_MAX: usize = 2 * (WAITING_OF_USER_MAX + 1);

/// A function that is loaded, or was when the daemon ended.
#[derive(Debug)]
struct Loaded {
    number: u32,
    kind: Kind,
    instructions: usize,
    bytes: usize,
    /// `None`: the kernel has not verified it yet, or refuses it now.
    steps: Option<u32>,
    refused: Option<String>,
}

#[derive(Debug)]
struct Waiting {
    /// `None`: a daemon before was asked, and it is in the store already.
    ticket: Option<Ticket>,
    key: Key,
    bytes: Vec<u8>,
    object: Object,
}

/// By owner and name.
type Key = (u32, String);

#[derive(Debug, Default)]
pub struct Functions {
    loaded: BTreeMap<Key, Loaded>,
    waiting: VecDeque<Waiting>,
    verifying: Option<(Waiting, Box<dyn Verification>)>,
    outcomes: BTreeMap<Ticket, (u32, Outcome)>,
    next: Ticket,
}

impl Functions {
    /// A ticket for `uid`. With too many on its account the oldest outcome there is that nobody will hear.
    fn ticket(&mut self, uid: u32, is_own: impl Fn(u32) -> bool) -> Ticket {
        let own = self.outcomes.iter().filter(|(_, (of, _))| is_own(*of));
        if own.clone().count() >= OUTCOMES_OF_USER_MAX {
            let mut ended = own.filter(|(_, (_, outcome))| *outcome != Outcome::Verifying);
            let oldest = ended.next().map(|(ticket, _)| *ticket);
            oldest.and_then(|oldest| self.outcomes.remove(&oldest));
        }
        self.next += 1;
        self.outcomes.insert(self.next, (uid, Outcome::Verifying));
        self.next
    }

    fn end(&mut self, ticket: Option<Ticket>, outcome: Outcome) {
        if let Some((_, kept)) = ticket.and_then(|ticket| self.outcomes.get_mut(&ticket)) {
            *kept = outcome;
        }
    }

    fn is_waiting(&self, key: &Key) -> bool {
        let verifying = self.verifying.iter().map(|(waiting, _)| waiting);
        self.waiting
            .iter()
            .chain(verifying)
            .any(|waiting| waiting.key == *key)
    }

    /// A number that nobody's function has.
    fn free(&self) -> Option<u32> {
        (0..USER_FUNCTIONS).find(|number| self.loaded.values().all(|one| one.number != *number))
    }
}

/// Does what is asked and returns the answer in JSON. `shown_uid`: whose functions are shown; `None`: everybody's.
///
/// # Errors
/// What loading and removing refuse.
pub fn answer(
    service: &mut Service,
    peer: &Peer,
    shown_uid: Option<u32>,
    command: FunctionCommand,
) -> Result<serde_json::Result<Vec<u8>>, Refusal> {
    Ok(match command {
        FunctionCommand::Load {
            name,
            object,
            replaces,
        } => {
            let bytes = from_hex(&object)?;
            let ticket = service.load_function(peer, &name, bytes, replaces)?;
            serde_json::to_vec(&serde_json::json!({ "ticket": ticket }))
        }
        FunctionCommand::Outcome { ticket } => {
            serde_json::to_vec(&service.function_outcome(peer, ticket)?)
        }
        FunctionCommand::Remove { name, uid } => {
            service.remove_function(peer, &name, uid)?;
            serde_json::to_vec(&serde_json::json!({}))
        }
        FunctionCommand::List { after } => {
            serde_json::to_vec(&service.functions_page(shown_uid, after))
        }
    })
}

impl Service {
    /// Has a function verified, to be loaded under a name of the asker's.
    ///
    /// # Errors
    /// EINVAL for an object that breaks a rule, EEXIST or ENOENT for a name that is there or not, EDQUOT, ENOSPC, EAGAIN.
    pub fn load_function(
        &mut self,
        peer: &Peer,
        name: &str,
        bytes: Vec<u8>,
        replaces: bool,
    ) -> Result<Ticket, Refusal> {
        let key = (peer.uid, checked(name)?);
        let is_there = self.functions.loaded.contains_key(&key);
        if is_there && !replaces {
            let text =
                format!("{name} is loaded: `consort df replace` puts another one in its place");
            return Err(Refusal::new(Errno::EEXIST, text));
        }
        if !is_there && replaces {
            let text =
                format!("no function of yours is called {name}: `consort df load` loads a new one");
            return Err(Refusal::new(Errno::ENOENT, text));
        }
        let object = Object::read(&bytes)
            .map_err(|problem| Refusal::new(Errno::EINVAL, problem.to_string()))?;
        if self.functions.is_waiting(&key) {
            let text = format!("another {name} is being verified: wait for that");
            return Err(Refusal::new(Errno::EAGAIN, text));
        }
        let account = self.users.account(peer.uid);
        let own = |key: &&Key| self.users.account(key.0) == account;
        let waiting = self.functions.waiting.iter().map(|waiting| &waiting.key);
        let waits = waiting.filter(own).count();
        let has = self.functions.loaded.keys().filter(own).count();
        if peer.uid != 0 && !is_there && has + waits >= FUNCTIONS_OF_USER_MAX {
            let text = format!(
                "you have {has} functions, and may have {FUNCTIONS_OF_USER_MAX}: `consort df remove` one"
            );
            return Err(Refusal::new(Errno::EDQUOT, text));
        }
        // Whoever sends more than can be verified waits alone.
        if waits >= WAITING_OF_USER_MAX {
            let text = "too many functions of yours wait to be verified: try again in a moment";
            return Err(Refusal::new(Errno::EAGAIN, text));
        }
        if !is_there && self.functions.free().is_none() {
            let text = format!("{USER_FUNCTIONS} functions are loaded, for which there is room");
            return Err(Refusal::new(Errno::ENOSPC, text));
        }
        let is_own = |uid: u32| self.users.account(uid) == account;
        let ticket = self.functions.ticket(peer.uid, is_own);
        self.functions.waiting.push_back(Waiting {
            ticket: Some(ticket),
            key,
            bytes,
            object,
        });
        audit::done(self, peer, "df load", name);
        self.tick_functions();
        Ok(ticket)
    }

    /// What has become of a function that the asker wanted loaded.
    ///
    /// # Errors
    /// ENOENT for a ticket that is nobody's, or another user's.
    pub fn function_outcome(&mut self, peer: &Peer, ticket: Ticket) -> Result<Outcome, Refusal> {
        self.tick_functions();
        let found = self.functions.outcomes.get(&ticket);
        match found.filter(|(uid, _)| *uid == peer.uid) {
            Some((_, Outcome::Verifying)) => Ok(Outcome::Verifying),
            Some((_, outcome)) => {
                let outcome = outcome.clone();
                self.functions.outcomes.remove(&ticket);
                Ok(outcome)
            }
            None => {
                let text = format!("no function of yours is verified under number {ticket}");
                Err(Refusal::new(Errno::ENOENT, text))
            }
        }
    }

    /// Takes a function out of the kernel.
    ///
    /// # Errors
    /// ENOENT, EPERM for a stranger's, EBUSY while a group has it.
    pub fn remove_function(
        &mut self,
        peer: &Peer,
        name: &str,
        uid: Option<u32>,
    ) -> Result<(), Refusal> {
        let uid = uid.unwrap_or(peer.uid);
        if peer.uid != 0 && uid != peer.uid {
            let text =
                format!("functions of user {uid} are not yours: remove your own, or as root");
            return Err(Refusal::new(Errno::EPERM, text));
        }
        let key = (uid, name.to_owned());
        let Some(loaded) = self.functions.loaded.get(&key) else {
            let text = format!("no function is called {name:?}: `consort df list` lists them");
            return Err(Refusal::new(Errno::ENOENT, text));
        };
        let groups = self.groups_with(&key);
        if let Some((file, group, _)) = groups.first() {
            let text = format!(
                "group {group} of the file {} has {name}: delete that file, or let it say something else",
                file.name
            );
            return Err(Refusal::new(Errno::EBUSY, text));
        }
        let number = loaded.number;
        if let Some(store) = self.groups.store() {
            store.drop_function(uid, name).map_err(|error| {
                let text = format!("cannot remove {name} from the store: {error}");
                Refusal::new(Errno::EIO, text)
            })?;
        }
        self.functions.loaded.remove(&key);
        self.host.drop_user(number);
        audit::done(self, peer, "df remove", name);
        Ok(())
    }

    /// The number of the function that a group of user `uid` names.
    ///
    /// # Errors
    /// ENOENT when there is none of that name.
    pub(crate) fn function_number(&self, uid: u32, name: &str) -> Result<u32, Refusal> {
        let loaded = self.functions.loaded.get(&(uid, name.to_owned()));
        loaded.map(|loaded| loaded.number).ok_or_else(|| {
            let text = format!(
                "no decision function of yours is called {name}: `consort df load {name}.c` loads one, `consort df list` lists them"
            );
            Refusal::new(Errno::ENOENT, text)
        })
    }

    /// Called a few times a second, and whenever somebody asks: goes on with what is to be verified.
    pub(crate) fn tick_functions(&mut self) {
        if let Some((waiting, verification)) = self.functions.verifying.take() {
            match verification.look() {
                Looked::NotYet(verification) => {
                    self.functions.verifying = Some((waiting, verification));
                    return;
                }
                Looked::Done {
                    program,
                    steps,
                    took,
                } => {
                    self.users.charge_cpu(waiting.key.0, took, Instant::now());
                    let ticket = waiting.ticket;
                    let outcome = match self.put_function(waiting, &program, steps) {
                        Ok(()) => Outcome::Loaded {
                            steps,
                            verified_us: took.as_micros() as u64,
                        },
                        Err(refusal) => Outcome::Refused { why: refusal.text },
                    };
                    self.functions.end(ticket, outcome);
                }
                Looked::Refused { why, took } => {
                    self.users.charge_cpu(waiting.key.0, took, Instant::now());
                    self.refuse_function(&waiting, why);
                }
            }
        }
        let Some(waiting) = self.functions.waiting.pop_front() else {
            return;
        };
        let confined = waiting.object.confine();
        let begun = confined
            .map_err(|problem| problem.to_string())
            .and_then(|confined| {
                self.host
                    .verify_user(&confined)
                    .map_err(|error| error.to_string())
            });
        match begun {
            Ok(verification) => self.functions.verifying = Some((waiting, verification)),
            Err(why) => self.refuse_function(&waiting, why),
        }
    }

    fn refuse_function(&mut self, waiting: &Waiting, why: String) {
        if waiting.ticket.is_none() {
            warn!(
                uid = waiting.key.0,
                name = waiting.key.1,
                why,
                "a decision function cannot be loaded any more"
            );
            if let Some(loaded) = self.functions.loaded.get_mut(&waiting.key) {
                loaded.refused = Some(why.clone());
            }
        }
        self.functions.end(waiting.ticket, Outcome::Refused { why });
    }

    /// Puts a verified function where its groups find it.
    fn put_function(
        &mut self,
        waiting: Waiting,
        program: &OwnedFd,
        steps: u32,
    ) -> Result<(), Refusal> {
        let Waiting {
            ticket,
            key,
            bytes,
            object,
        } = waiting;
        let there = self.functions.loaded.get(&key).map(|loaded| loaded.number);
        let number = there.or_else(|| self.functions.free());
        let number = number.ok_or_else(|| {
            let text = format!("{USER_FUNCTIONS} functions are loaded, for which there is room");
            Refusal::new(Errno::ENOSPC, text)
        })?;
        self.keep_function(&key, (number, &to_hex(&bytes)), program, ticket.is_some())?;
        info!(
            uid = key.0,
            name = key.1,
            number,
            steps,
            "decision function loaded"
        );
        for (_, _, id) in self.groups_with(&key) {
            // One that was too slow has gone: the new one is asked again.
            if let Err(error) = self.host.set_user(id, number) {
                warn!(group = id, %error, "a group does not ask its function again");
            }
        }
        let loaded = Loaded {
            number,
            kind: object.kind(),
            instructions: object.instructions(),
            bytes: bytes.len(),
            steps: Some(steps),
            refused: None,
        };
        self.functions.loaded.insert(key, loaded);
        Ok(())
    }

    /// Gives the scheduler a function, and the next daemon with it if it is new.
    fn keep_function(
        &mut self,
        (uid, name): &Key,
        (number, hex): (u32, &str),
        program: &OwnedFd,
        is_new: bool,
    ) -> Result<(), Refusal> {
        let Some(store) = self.groups.store().filter(|_| is_new) else {
            return Ok(self.host.put_user(number, program)?);
        };
        store.write_function(number, hex).map_err(|error| {
            let text = format!("cannot keep the function, so nothing was changed: {error}");
            Refusal::new(Errno::EIO, text)
        })?;
        self.host.put_user(number, program)?;
        if let Err(error) = store.keep_function(*uid, name) {
            warn!(uid, name, %error, "a decision function cannot be kept: it ends with the daemon");
        }
        Ok(())
    }

    /// What a daemon before has left: it is verified anew, and groups may name it at once.
    pub(crate) fn restore_functions(&mut self, left: Vec<(u32, String, u32, String)>) {
        for (uid, name, number, hex) in left {
            let is_free = number < USER_FUNCTIONS
                && self
                    .functions
                    .loaded
                    .values()
                    .all(|one| one.number != number);
            let bytes = from_hex(&hex).ok().filter(|_| is_free);
            let object = bytes.as_ref().and_then(|bytes| Object::read(bytes).ok());
            let (Some(bytes), Some(object)) = (bytes, object) else {
                warn!(uid, name, "a decision function cannot be restored");
                continue;
            };
            let key = (uid, name);
            let loaded = Loaded {
                number,
                kind: object.kind(),
                instructions: object.instructions(),
                bytes: bytes.len(),
                steps: None,
                refused: None,
            };
            self.functions.loaded.insert(key.clone(), loaded);
            self.functions.waiting.push_back(Waiting {
                ticket: None,
                key,
                bytes,
                object,
            });
        }
        self.tick_functions();
    }

    /// Groups in force that have the function.
    fn groups_with(&self, key: &Key) -> Vec<(FileKey, String, u32)> {
        let made = self.groups.made.values();
        let have = made.filter(|made| {
            made.file.uid == key.0
                && matches!(&made.group.function, Function::User(name) if *name == key.1)
        });
        have.filter_map(|made| Some((made.file.clone(), made.group.name.clone(), made.id?)))
            .collect()
    }
}

fn checked(name: &str) -> Result<String, Refusal> {
    let max = consort_groups::NAME_BYTES_MAX;
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if (1..=max).contains(&name.len()) && name.bytes().all(is_good) {
        return Ok(name.to_owned());
    }
    let text = format!(
        "{name:?} cannot be the name of a function: expected 1 to {max} of a-z, A-Z, 0-9, '-' and '_'"
    );
    Err(Refusal::new(Errno::EINVAL, text))
}
