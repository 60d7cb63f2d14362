// SPDX-License-Identifier: MIT OR Apache-2.0
//! Players while one daemon follows another: how late do their due events get?

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::{json, Value};

use super::{ms, number};
use crate::{
    check,
    suite::{
        board::Field,
        consort::{slice_ns, Daemon},
        machine::attached,
        process::Role,
        Outcome,
    },
};

/// Between two replacements, and before the first one.
const APART: Duration = Duration::from_secs(1);
/// 25 pictures a second, each with half a millisecond of work when it is due; decoding takes the rest of the CPU.
const PERIOD_MS: u64 = 40;
const EVENT_US: u64 = 500;

/// `replace PLAYERS TIMES`: players of one domain decode whenever they may, with the CPU to themselves, while so many
/// daemons follow each other; and as long without.
pub fn replace(arguments: &[&str]) -> Result<Value, String> {
    let count = number(arguments, 0, "a number of players")?;
    let times = number(arguments, 1, "a number of replacements")?;
    check!(count > 0 && times > 0, "expected players and replacements");
    let mut daemon = Daemon::start(&[])?;
    let slice_ns = slice_ns()?;
    let words = format!("player film {PERIOD_MS} {EVENT_US} {}", slice_ns / 1000);
    let players = (0..count).map(|_| Role::ready(&words));
    let players = Players(players.collect::<Result<_, _>>()?);
    let attached_before = attached()?;
    players.forget();
    let began = Instant::now();
    for _ in 0..times {
        sleep(APART);
        daemon = daemon.replaced(&[])?;
    }
    sleep(APART);
    let took = began.elapsed();
    let during = players.lateness();
    players.forget();
    sleep(took);
    let without = players.lateness();
    check!(
        attached()? == attached_before,
        "the scheduler was attached anew"
    );
    players.check()?;
    Ok(json!({
        "players": count,
        "replacements": times,
        "slice_ms": ms(slice_ns),
        "events": during.events,
        "late_events": during.late,
        "worst_ms": ms(during.worst_ns),
        "gap_ms": ms(during.worst_ns.saturating_sub(slice_ns)),
        "without": {
            "events": without.events,
            "late_events": without.late,
            "worst_ms": ms(without.worst_ns),
            "gap_ms": ms(without.worst_ns.saturating_sub(slice_ns)),
        },
    }))
}

struct Players(Vec<Role>);

struct Lateness {
    events: u64,
    /// By more than a slice.
    late: u64,
    worst_ns: u64,
}

impl Players {
    fn forget(&self) {
        for player in &self.0 {
            [Field::Served, Field::Overdue, Field::Extra]
                .into_iter()
                .for_each(|field| player.board.set(field, 0));
        }
    }

    fn lateness(&self) -> Lateness {
        let all = |field: Field| self.0.iter().map(move |player| player.get(field));
        Lateness {
            events: all(Field::Served).sum(),
            late: all(Field::Overdue).sum(),
            worst_ns: all(Field::Extra).max().unwrap_or_default(),
        }
    }

    /// All were members all the time.
    fn check(&self) -> Outcome {
        let outside: u64 = self.0.iter().map(|player| player.get(Field::Errors)).sum();
        check!(
            outside == 0,
            "players were told {outside} times that they are no members"
        );
        Ok(())
    }
}
