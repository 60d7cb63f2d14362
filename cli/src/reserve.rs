// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort reserve` and `consort release`.

use serde_json::{json, Value};

use crate::{
    args::{ReleaseArgs, ReserveArgs},
    connection::Connection,
    failure::Failure,
};

/// What is to be reserved, for process or thread `number`; 0 is this process.
pub fn request(
    number: i32,
    scope: &str,
    class: &str,
    rate: f64,
    period_ns: u64,
) -> Result<Value, Failure> {
    // JSON has no word for what is no number.
    if !rate.is_finite() {
        return Err(Failure::BadRate(rate));
    }
    Ok(json!({
        "command": "reserve", "number": number, "scope": scope, "class": class, "rate": rate,
        "period_ns": period_ns,
    }))
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
    let request = request(args.number, scope, &args.class, args.rate, args.period)?;
    Connection::open()?.control(&request).map(|_| ())
}

/// Asks the daemon to end a reservation.
pub fn release(args: &ReleaseArgs) -> Result<(), Failure> {
    let scope = scope(args.thread);
    let request = json!({"command": "release", "number": args.number, "scope": scope});
    Connection::open()?.control(&request).map(|_| ())
}
