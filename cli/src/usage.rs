// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort usage`.

use std::fmt::Write as _;

use consort_kernel::format_ns;
use serde_json::{json, Value};

use crate::{
    args::UsageArgs,
    connection::Connection,
    failure::Failure,
    status::{all_pages, print, word},
};

/// Prints what reservations asked for, get and use.
pub fn usage(args: &UsageArgs) -> Result<(), Failure> {
    let connection = Connection::open()?;
    let reservations = all_pages(&connection, "reservations", "reservation")?;
    let text = match args.json {
        true => format!("{:#}\n", json!({ "reservations": reservations })),
        false => describe(&reservations),
    };
    print(&text)
}

fn describe(reservations: &Value) -> String {
    let Some(list) = reservations.as_array().filter(|list| !list.is_empty()) else {
        return "no reservations\n".to_owned();
    };
    let mut out = String::from(
        "  number  command          class           asked    lent    held   given    1 s    10 s     60 s  late  suggested  period    threads\n",
    );
    for held in list {
        let used = |window: usize| match held["used"][window].as_f64() {
            Some(rate) => format!("{rate:.4}"),
            None => "-".to_owned(),
        };
        // Writing into a String cannot fail.
        let _ = writeln!(
            out,
            "{:>8}  {:<15}  {:<12}  {:>7.4} {:>7.4} {:>7.4} {:>7.4} {:>7} {:>7} {:>7}  {:>4}  {:>9}  {:<8}  {}",
            match held["kind"] == "cgroup" {
                true => "cgroup".to_owned(),
                false => held["number"].to_string(),
            },
            word(&held["command"]),
            word(&held["class"]),
            held["asked"].as_f64().unwrap_or_default(),
            sum(&held["lent"]),
            sum(&held["held"]),
            held["given"].as_f64().unwrap_or_default(),
            used(0),
            used(1),
            used(2),
            held["late_seconds"],
            suggested(held),
            format_ns(held["period_ns"].as_u64().unwrap_or_default()),
            held["threads"]
        );
    }
    out
}

/// Of a list of credits.
fn sum(credits: &Value) -> f64 {
    let rates = credits.as_array().into_iter().flatten();
    rates
        .filter_map(|credit| credit["rate"].as_f64())
        .fold(0.0, |sum, rate| sum + rate)
}

fn suggested(held: &Value) -> String {
    match held["suggested"].as_f64() {
        Some(rate) => format!("{rate:.4}"),
        None => "-".to_owned(),
    }
}
