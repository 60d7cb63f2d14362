// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program that says what it does, for traces.

use std::{thread::sleep, time::Duration};

use consort::{now_ns, trace, Domain, Next};

use super::{argument, work_ns};
use crate::suite::board::Board;

const MS: u64 = 1_000_000;

/// `teller plain ROUNDS`: sleeps in each round, and says when it begins and ends that. `teller member ROUNDS`: as a member,
/// in polls; in the end it breaks the contract.
pub fn teller(_: &Board, arguments: &[&str]) -> Result<(), String> {
    let kind: String = argument(arguments, 0)?;
    let rounds: i64 = argument(arguments, 1)?;
    let member = match kind.as_str() {
        "member" => Some(
            Domain::named("told")
                .event_ns(MS)
                .join()
                .map_err(|error| error.to_string())?,
        ),
        _ => None,
    };
    for round in 0..rounds {
        trace::event("test", "begin", round);
        match &member {
            None => sleep(Duration::from_millis(3)),
            Some(member) => {
                let polled = member.poll(Next::due(now_ns() + 5 * MS));
                polled.map_err(|error| error.to_string())?;
            }
        }
        trace::event("test", "end", round);
        work_ns(MS / 2);
    }
    sleep(Duration::from_millis(3));
    Ok(())
}
