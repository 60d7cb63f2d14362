// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort reserve`, `release`, `lend` and `recollect`.

use serde_json::{json, Value};

use crate::{
    args::{LendArgs, RecollectArgs, ReleaseArgs, ReserveArgs},
    connection::Connection,
    failure::Failure,
    rate::Rate,
};

/// What is to be reserved, for process or thread `number`; 0 is this process.
pub fn request(number: i32, scope: &str, class: &str, rate: Rate, period_ns: u64) -> Value {
    json!({
        "command": "reserve", "number": number, "scope": scope, "class": class,
        "rate": rate.to_json(), "period_ns": period_ns,
    })
}

/// JSON has no word for what is no number.
fn check_number(rate: f64) -> Result<(), Failure> {
    match rate.is_finite() {
        true => Ok(()),
        false => Err(Failure::BadRate(rate)),
    }
}

fn scope(thread: bool) -> &'static str {
    match thread {
        true => "thread",
        false => "any",
    }
}

/// Asks the daemon to admit a rate.
pub fn reserve(args: &ReserveArgs) -> Result<(), Failure> {
    let scope = scope(args.thread);
    let request = request(args.number, scope, &args.class, args.rate, args.period);
    Connection::open()?.control(&request).map(|_| ())
}

/// Asks the daemon to end a reservation.
pub fn release(args: &ReleaseArgs) -> Result<(), Failure> {
    let scope = scope(args.thread);
    let request = json!({"command": "release", "number": args.number, "scope": scope});
    Connection::open()?.control(&request).map(|_| ())
}

/// Asks the daemon to let another use a part of a reservation.
pub fn lend(args: &LendArgs) -> Result<(), Failure> {
    check_number(args.rate)?;
    let request = json!({"command": "lend", "from": args.from, "to": args.to, "rate": args.rate});
    Connection::open()?.control(&request).map(|_| ())
}

/// Asks the daemon to take back what was lent.
pub fn recollect(args: &RecollectArgs) -> Result<(), Failure> {
    args.rate.map_or(Ok(()), check_number)?;
    let request =
        json!({"command": "take_back", "from": args.from, "to": args.to, "rate": args.rate});
    Connection::open()?.control(&request).map(|_| ())
}
