// SPDX-License-Identifier: MIT OR Apache-2.0
//! Honest programs beside one that keeps the daemon busy: how much longer do their requests take, and what do they lose of
//! the CPU beyond what any program beside them has? What the daemon does for that program is a part of what it has.

use std::time::Instant;

use serde_json::{json, Map, Value};

use super::{ms, number};
use crate::{
    check,
    roles::attack,
    suite::{
        board::Field,
        consort::{status, Daemon},
        process::{Role, ALICE, BOB},
        Outcome,
    },
};

const HOGS: usize = 3;
/// Requests of the asker's a second: of an ordinary user, who has a part of the daemon's time, and the CPU is emulated.
const ASKED_PER_S: u64 = 20;
/// Each attack is another user's, so that none is in debt for the one before.
const FIRST_ATTACKER: u32 = 2000;

/// `attacks SECONDS [NAME...]`: each attack for so long, from its first message on, and once more (`later`), when its user has
/// nothing saved; and as long without any. With names only these.
pub fn attacks(arguments: &[&str]) -> Result<Value, String> {
    let seconds = number(arguments, 0, "seconds of each attack")?;
    check!((1..=25).contains(&seconds), "expected 1 to 25 seconds");
    let only = arguments.get(1..).unwrap_or_default();
    let unknown = only
        .iter()
        .find(|one| !attack::names().any(|name| name == **one));
    check!(unknown.is_none(), "there is no attack {unknown:?}");
    let _daemon = Daemon::start(&[])?;
    let honest = Honest::start(seconds)?;
    let peace = honest.watch(None)?;
    let (mut worst, mut worst_later) = (Loss::default(), Loss::default());
    let mut told = Map::new();
    let is_asked = |name: &str| only.is_empty() || only.contains(&name);
    for (index, name) in attack::names()
        .enumerate()
        .filter(|(_, name)| is_asked(name))
    {
        let uid = FIRST_ATTACKER + index as u32;
        let attacker = Attacker::start(uid, name)?;
        let begin = honest.watch(Some(&attacker))?;
        let later = honest.watch(Some(&attacker))?;
        worst.note(&Loss::of(&begin, &peace));
        worst_later.note(&Loss::of(&later, &peace));
        let one = json!({
            "begin": begin.told(&peace),
            "later": later.told(&peace),
            "rounds": attacker.role.get(Field::Work),
            "connections_ended": attacker.role.get(Field::Errors),
            "daemon_ms": ms(attacker.daemons_ns()?),
        });
        told.insert(name.to_owned(), one);
    }
    honest.check()?;
    Ok(json!({
        "p99_ratio": worst.p99_ratio,
        "cpu_percent_lost": worst.cpu_percent,
        "later": {
            "p99_ratio": worst_later.p99_ratio,
            "cpu_percent_lost": worst_later.cpu_percent,
        },
        "without": {
            "p99_ms": ms(peace.p99_ns),
            "p50_ms": ms(peace.p50_ns),
            "honest_percent": 100.0 * peace.honest,
        },
        "attacks": told,
    }))
}

/// What a program that always wants the CPU has beside the hogs.
fn fair() -> f64 {
    1.0 / (HOGS + 1) as f64
}

/// Programs that only want the CPU, and one that asks the daemon now and then.
struct Honest {
    hogs: Vec<Role>,
    asker: Role,
}

struct Attacker {
    role: Role,
    uid: u32,
}

impl Attacker {
    fn start(uid: u32, name: &str) -> Result<Attacker, String> {
        let role = Role::start_as(uid, &format!("attack {name}"))?;
        Ok(Attacker { role, uid })
    }

    /// Its own, and the daemon's for it.
    fn cpu_time_ns(&self) -> Result<u64, String> {
        Ok(self.role.cpu_time_ns()? + self.daemons_ns()?)
    }

    fn daemons_ns(&self) -> Result<u64, String> {
        let status = status()?;
        let users = status["users"].as_array().into_iter().flatten();
        let own = users.filter(|user| user["uid"] == self.uid);
        Ok(own.filter_map(|user| user["cpu_us"].as_u64()).sum::<u64>() * 1000)
    }
}

/// What was seen in one window.
struct Seen {
    p99_ns: u64,
    p50_ns: u64,
    /// Parts of the CPU.
    honest: f64,
    attacker: f64,
}

impl Seen {
    fn told(&self, peace: &Seen) -> Value {
        let loss = Loss::of(self, peace);
        json!({
            "p99_ratio": loss.p99_ratio,
            "p99_ms": ms(self.p99_ns),
            "p50_ms": ms(self.p50_ns),
            "cpu_percent_lost": loss.cpu_percent,
            "attacker_percent": 100.0 * self.attacker,
        })
    }
}

#[derive(Default)]
struct Loss {
    p99_ratio: f64,
    cpu_percent: f64,
}

impl Loss {
    fn of(seen: &Seen, peace: &Seen) -> Loss {
        let lost = peace.honest - seen.honest - seen.attacker.min(fair());
        Loss {
            p99_ratio: seen.p99_ns as f64 / peace.p99_ns as f64,
            cpu_percent: 100.0 * lost,
        }
    }

    /// Takes the worse of each.
    fn note(&mut self, other: &Loss) {
        self.p99_ratio = self.p99_ratio.max(other.p99_ratio);
        self.cpu_percent = self.cpu_percent.max(other.cpu_percent);
    }
}

impl Honest {
    fn start(seconds: u64) -> Result<Honest, String> {
        let asker = Role::ready_as(
            ALICE,
            &format!("asker {} {ASKED_PER_S}", seconds * ASKED_PER_S),
        )?;
        let hogs = (0..HOGS).map(|_| Role::ready_as(BOB, "hog"));
        let hogs = hogs.collect::<Result<_, _>>()?;
        Ok(Honest { hogs, asker })
    }

    fn cpu_time_ns(&self) -> Result<u64, String> {
        self.hogs.iter().map(Role::cpu_time_ns).sum()
    }

    /// Lets the asker ask, and looks at shares meanwhile.
    fn watch(&self, attacker: Option<&Attacker>) -> Result<Seen, String> {
        let of_attacker = || attacker.map_or(Ok(0), Attacker::cpu_time_ns);
        // Asking for the status takes time, too.
        let attackers = of_attacker()?;
        let (began, before) = (Instant::now(), self.cpu_time_ns()?);
        self.asker.command(self.asker.get(Field::Done) + 1)?;
        let (wall_ns, honest_ns) = (
            began.elapsed().as_nanos() as f64,
            self.cpu_time_ns()? - before,
        );
        Ok(Seen {
            p99_ns: self.asker.get(Field::Extra),
            p50_ns: self.asker.get(Field::Late),
            honest: honest_ns as f64 / wall_ns,
            attacker: (of_attacker()? - attackers) as f64 / wall_ns,
        })
    }

    fn check(&self) -> Outcome {
        let refused = self.asker.get(Field::Errors);
        check!(refused == 0, "the honest were refused {refused} times");
        Ok(())
    }
}
