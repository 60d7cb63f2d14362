// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort reserve`, `release`, `lend` and `recollect`.

use std::str::FromStr;

use serde_json::{json, Value};

use crate::{
    args::{LendArgs, Quiet, RecollectArgs, ReleaseArgs, ReserveArgs},
    connection::Connection,
    failure::Failure,
    rate::Rate,
    status::{print, word},
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
            Ok(0) => Err("0 would be this command, which ends at once: expected the number of a process or thread".to_owned()),
            Ok(1) => Err("1 starts everything else, and all of that would share what it has reserved: expected the number of a program, or a cgroup".to_owned()),
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

/// The number of a process or thread, as on a command line.
///
/// # Errors
/// A text that says what was expected.
pub fn parse_number(text: &str) -> Result<i32, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!(
            "{text:?} is no process or thread: expected its number, such as 4711"
        )),
    }
}

fn scope(thread: bool) -> &'static str {
    match thread {
        true => "thread",
        false => "any",
    }
}

/// Asks the daemon to admit a rate, and says what is reserved.
pub fn reserve(args: &ReserveArgs) -> Result<(), Failure> {
    let whom = args.whom.clone();
    let request = request(whom, args.thread, &args.class, args.rate, args.period);
    let held = Connection::open()?.control(&request)?;
    say(&args.quiet, || {
        let asked = match held["auto"].as_array() {
            Some(range) => format!(
                "{} now, and {} to {} as it needs,",
                held["asked"], range[0], range[1]
            ),
            None => held["asked"].to_string(),
        };
        format!(
            "{} has reserved {asked} of a CPU in {}; while all of the class want theirs it gets {}",
            name(&held),
            word(&held["class"]),
            rounded(&held["given"])
        )
    })
}

/// Asks the daemon to end a reservation, and says what it was.
pub fn release(args: &ReleaseArgs) -> Result<(), Failure> {
    let request = json!({"command": "release"});
    let request = args.whom.clone().into_request(request, args.thread);
    let was = Connection::open()?.control(&request)?;
    say(&args.quiet, || {
        format!(
            "{} has no reservation any more; it was {} of a CPU in {}",
            name(&was),
            was["asked"],
            word(&was["class"])
        )
    })
}

/// Asks the daemon to let another use a part of a reservation, and says what both have then.
pub fn lend(args: &LendArgs) -> Result<(), Failure> {
    let request = json!({"command": "lend", "from": args.from, "to": args.to, "rate": args.rate});
    let both = Connection::open()?.control(&request)?;
    say(&args.quiet, || {
        format!("lent {}: {}", args.rate, balance(&both))
    })
}

/// Asks the daemon to take back what was lent, and says what both have then.
pub fn recollect(args: &RecollectArgs) -> Result<(), Failure> {
    let request =
        json!({"command": "take_back", "from": args.from, "to": args.to, "rate": args.rate});
    let both = Connection::open()?.control(&request)?;
    say(&args.quiet, || {
        let what = args.rate.map_or("all".to_owned(), |rate| rate.to_string());
        format!("{what} is back: {}", balance(&both))
    })
}

fn say(quiet: &Quiet, text: impl Fn() -> String) -> Result<(), Failure> {
    match quiet.quiet {
        true => Ok(()),
        false => print(&format!("{}\n", text())),
    }
}

/// Whose a reservation is: `4711 (ffplay)`, or a cgroup's folder.
fn name(held: &Value) -> String {
    match held["kind"] == "cgroup" {
        true => word(&held["command"]).to_owned(),
        false => format!("{} ({})", held["number"], word(&held["command"])),
    }
}

fn rounded(rate: &Value) -> String {
    let text = format!("{:.4}", rate.as_f64().unwrap_or_default());
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_owned()
}

/// What lender and receiver may use now.
fn balance(both: &Value) -> String {
    let of = |side: &str| {
        let held = &both[side];
        if held.is_null() {
            // Of another user, or it had that credit only.
            return None;
        }
        let credits = |list: &str| {
            let credits = held[list].as_array().into_iter().flatten();
            credits.filter_map(|it| it["rate"].as_f64()).sum::<f64>()
        };
        let asked = held["asked"].as_f64().unwrap_or_default();
        let now = asked + credits("held") - credits("lent");
        Some(format!("{} has {} now", name(held), rounded(&now.into())))
    };
    let sides: Vec<String> = ["from", "to"].into_iter().filter_map(of).collect();
    sides.join(", ")
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
        for text in ["4711x", "-", "99999999999", "0", "1"] {
            assert!(text.parse::<Whom>().is_err(), "{text}");
        }
    }
}
