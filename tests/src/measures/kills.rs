// SPDX-License-Identifier: MIT OR Apache-2.0
//! A daemon that is killed again and again, at any instant of its own: is anything lost of what it had said yes to?

use std::{thread, time::Duration};

use nix::sys::signal::Signal;
use serde_json::{json, Value};

use super::number;
use crate::suite::{
    board::Field,
    client::Client,
    consort::{await_state, members, reservations, Daemon},
    machine::attached,
    manager::Manager,
    process::{set_policy, wait_until, Role, PATIENCE},
    Outcome,
};

const MEMBERS: usize = 4;
/// Of the members: those that keep what they have reserved.
const KEPT: usize = 2;
const PERIOD_NS: u64 = 30_000_000;
/// Between two requests, so that they are no more than one may ask.
const PAUSE: Duration = Duration::from_millis(1);
/// A daemon is killed within so long after it serves; one of some, within so long after it was started.
const KILLED_WITHIN_US: u64 = 30_000;
const KILLED_YOUNG_WITHIN_US: u64 = 300_000;
const YOUNG_ONE_OF: u64 = 4;
/// Above the daemon, which runs at 1.
const PRIORITY: i32 = 50;

/// `kills NUMBER SEED`: what was lost by so many kills, or by the first that lost something, while a program asks for changes
/// all the time. A service manager keeps the scheduler.
pub fn kills(arguments: &[&str]) -> Result<Value, String> {
    let wanted = number(arguments, 0, "a number of kills")?;
    let mut random = Random(number(arguments, 1, "a seed")? * 2 + 1);
    let manager = Manager::start()?;
    let mut daemon = manager.start_daemon(&[])?;
    let mut changes = Changes::start()?;
    let attached_before = attached()?;
    let (mut kills, mut young, mut lost) = (0, 0, Lost::default());
    let killing = &manager;
    while kills < wanted && lost.first.is_none() {
        let dies_young = random.below(YOUNG_ONE_OF) == 0;
        let after = Duration::from_micros(random.below(KILLED_WITHIN_US));
        let young_after = Duration::from_micros(random.below(KILLED_YOUNG_WITHIN_US));
        daemon = thread::scope(|scope| -> Result<Daemon, String> {
            let killer = scope.spawn(move || -> Result<Daemon, String> {
                kill_after(daemon, after)?;
                if dies_young {
                    kill_after(killing.spawn_daemon(&[])?, young_after)?;
                }
                killing.start_daemon(&[])
            });
            while !killer.is_finished() {
                if !changes.is_astray {
                    changes.make_one()?;
                }
                thread::sleep(PAUSE);
            }
            killer
                .join()
                .map_err(|_| "the killer panicked".to_owned())?
        })?;
        kills += 1 + u64::from(dies_young);
        young += u64::from(dies_young);
        lost.look(&changes, kills)?;
    }
    let anew = attached()? - attached_before;
    drop(daemon);
    manager.let_go();
    await_state("disabled")?;
    Ok(json!({
        "kills": kills,
        "while_starting": young,
        "lost": lost.members + lost.reservations + lost.credits,
        "members_lost": lost.members,
        "reservations_lost": lost.reservations,
        "credits_lost": lost.credits,
        "first_loss": lost.first,
        "requests": changes.made,
        "requests_cut": changes.cut,
        "attached_anew": anew,
        "told_outside": changes.outside(),
    }))
}

/// Kills it from above, so that it is interrupted wherever it is.
fn kill_after(mut daemon: Daemon, after: Duration) -> Outcome {
    set_policy(0, libc::SCHED_FIFO, PRIORITY)?;
    thread::sleep(after);
    let killed = daemon.signal(Signal::SIGKILL);
    set_policy(0, libc::SCHED_OTHER, 0)?;
    killed?;
    daemon.exit_code().map(|_| ())
}

/// The same seed kills at the same instants.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// What others of the kept members have: whether it has reserved, and whether the first one lends to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct State {
    has_reserved: bool,
    is_lent_to: bool,
}

/// One after the other, and again; each with the state that it leads to.
const STATES: [State; 4] = [
    State {
        has_reserved: true,
        is_lent_to: false,
    },
    State {
        has_reserved: true,
        is_lent_to: true,
    },
    State {
        has_reserved: true,
        is_lent_to: false,
    },
    State {
        has_reserved: false,
        is_lent_to: false,
    },
];

/// Programs, and the one that asks for changes.
struct Changes {
    roles: Vec<Role>,
    client: Client,
    /// The place in `STATES` that was acknowledged last.
    at: usize,
    made: u64,
    /// Without an answer.
    cut: u64,
    /// A request that was cut came to neither state.
    is_astray: bool,
}

impl Changes {
    fn start() -> Result<Changes, String> {
        let roles = (0..MEMBERS).map(|_| Role::ready("steady film 20 1"));
        let changes = Changes {
            roles: roles.collect::<Result<_, _>>()?,
            client: Client::hello()?,
            at: STATES.len() - 1,
            made: 0,
            cut: 0,
            is_astray: false,
        };
        changes.client.command(&changes.reserve(0, 0.2))?;
        changes.client.command(&changes.reserve(1, 0.1))?;
        Ok(changes)
    }

    fn pid(&self, index: usize) -> u32 {
        self.roles[index].pid()
    }

    fn reserve(&self, index: usize, rate: f64) -> Value {
        json!({
            "command": "reserve", "number": self.pid(index), "class": "guaranteed", "rate": rate,
            "period_ns": PERIOD_NS,
        })
    }

    /// Asks for what leads to the next state.
    fn make_one(&mut self) -> Outcome {
        let (from, to) = (self.pid(0), self.pid(KEPT));
        let next = (self.at + 1) % STATES.len();
        let request = match next {
            0 => self.reserve(KEPT, 0.05),
            1 => json!({"command": "lend", "from": from, "to": to, "rate": 0.1}),
            2 => json!({"command": "take_back", "from": from, "to": to, "rate": null}),
            _ => json!({"command": "release", "number": to}),
        };
        self.made += 1;
        let sent = self.client.control(request.to_string().as_bytes());
        match sent {
            Ok(Some(reply)) if reply.error == 0 => self.at = next,
            Ok(Some(reply)) if reply.error == libc::EAGAIN => {}
            Ok(Some(reply)) => {
                return Err(format!("{request}: errno {}: {}", reply.error, reply.text))
            }
            Ok(None) | Err(_) => self.find_out(next)?,
        }
        Ok(())
    }

    /// The daemon ended before it answered: it has done what was asked, or has not.
    fn find_out(&mut self, next: usize) -> Outcome {
        self.cut += 1;
        // The next daemon may be killed while it answers, too.
        let mut seen = STATES[self.at];
        wait_until(PATIENCE, "a page, and what holds", || {
            self.client = Client::hello()?;
            seen = self.seen()?.1;
            Ok(true)
        })?;
        if seen == STATES[next] {
            self.at = next;
        }
        self.is_astray = seen != STATES[self.at];
        Ok(())
    }

    /// How many of the kept reservations there are, and the others' state.
    fn seen(&self) -> Result<(usize, State), String> {
        let held = reservations()?;
        let of = |pid: u32| held.iter().find(|one| one["number"] == pid);
        let kept = [(0, 0.2), (1, 0.1)]
            .into_iter()
            .filter(|(index, rate)| of(self.pid(*index)).is_some_and(|one| one["asked"] == *rate));
        let other = of(self.pid(KEPT));
        let lent = of(self.pid(0)).and_then(|one| one["lent"].as_array().cloned());
        let state = State {
            has_reserved: other.is_some_and(|one| one["asked"] == 0.05),
            is_lent_to: lent.is_some_and(|lent| lent.iter().any(|one| one["rate"] == 0.1)),
        };
        Ok((kept.count(), state))
    }

    fn outside(&self) -> u64 {
        self.roles.iter().map(|role| role.get(Field::Errors)).sum()
    }
}

#[derive(Default)]
struct Lost {
    members: u64,
    reservations: u64,
    credits: u64,
    first: Option<String>,
}

impl Lost {
    /// Counts what is not there.
    fn look(&mut self, changes: &Changes, kills: u64) -> Outcome {
        let members = members()?;
        let (kept, state) = changes.seen()?;
        let expected = STATES[changes.at];
        let missing = (MEMBERS as u64).abs_diff(members);
        self.members += missing;
        let others = u64::from(state.has_reserved != expected.has_reserved);
        self.reservations += (KEPT - kept) as u64 + others;
        self.credits += u64::from(state.is_lent_to != expected.is_lent_to);
        if missing > 0 || kept < KEPT || state != expected {
            self.first.get_or_insert(format!(
                "after {kills} kills: {members} members, {kept} kept reservations, {state:?} instead of {expected:?}"
            ));
        }
        Ok(())
    }
}
