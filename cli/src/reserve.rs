// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort reserve`, `release`, `lend` and `recollect`.

use std::str::FromStr;

use serde_json::{json, Value};

use crate::{
    args::{LendArgs, RecollectArgs, ReleaseArgs, ReserveArgs},
    connection::Connection,
    failure::Failure,
    rate::Rate,
};

/// For whom: a process or a thread by its number, or a cgroup by its folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whom {
    Number(i32),
    Cgroup(String),
}

impl FromStr for Whom {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(number) => Ok(Whom::Number(number)),
            Err(_) if text.starts_with(|first: char| first.is_ascii_digit() || first == '-') => {
                Err(format!("'{text}' is no number of a process or thread; a cgroup whose name begins so is ./{text}"))
            }
            Err(_) => Ok(Whom::Cgroup(text.strip_prefix("./").unwrap_or(text).to_owned())),
        }
    }
}

impl Whom {
    /// The process that asks.
    pub const SELF: Whom = Whom::Number(0);

    fn into_request(self, mut request: Value, thread: bool) -> Value {
        match self {
            Whom::Number(number) => {
                request["number"] = number.into();
                request["scope"] = scope(thread).into();
            }
            Whom::Cgroup(path) => request["cgroup"] = path.into(),
        }
        request
    }
}

/// What is to be reserved.
pub fn request(whom: Whom, thread: bool, class: &str, rate: Rate, period_ns: u64) -> Value {
    let request = json!({
        "command": "reserve", "class": class, "rate": rate.to_json(), "period_ns": period_ns,
    });
    whom.into_request(request, thread)
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
    let whom = args.whom.clone();
    let request = request(whom, args.thread, &args.class, args.rate, args.period);
    Connection::open()?.control(&request).map(|_| ())
}

/// Asks the daemon to end a reservation.
pub fn release(args: &ReleaseArgs) -> Result<(), Failure> {
    let request = json!({"command": "release"});
    let request = args.whom.clone().into_request(request, args.thread);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_processes_and_names_are_cgroups() {
        assert_eq!("4711".parse(), Ok(Whom::Number(4711)));
        assert_eq!(
            "user.slice/a".parse(),
            Ok(Whom::Cgroup("user.slice/a".into()))
        );
        assert_eq!("./4711".parse(), Ok(Whom::Cgroup("4711".into())));
        for text in ["4711x", "-", "99999999999"] {
            assert!(text.parse::<Whom>().is_err(), "{text}");
        }
    }
}
