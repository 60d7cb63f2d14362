// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort usage`.

use consort_kernel::format_ns;
use serde_json::{json, Value};

use crate::{
    args::UsageArgs,
    connection::Connection,
    failure::Failure,
    status::{all_pages, print, word},
    table::{Paint, Side, Table},
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
    let right = |name| (name, Side::Right);
    let mut table = Table::new(&[
        right("number"),
        ("command", Side::Left),
        ("class", Side::Left),
        right("asked"),
        right("lent"),
        right("held"),
        right("given"),
        right("1 s"),
        right("10 s"),
        right("60 s"),
        right("late"),
        right("suggested"),
        right("period"),
        right("threads"),
    ]);
    for held in list {
        let rate = |value: f64| format!("{value:.4}");
        let known = |value: &Value| value.as_f64().map_or("-".to_owned(), rate);
        table.row(vec![
            match word(&held["kind"]) {
                kind @ ("cgroup" | "group") => kind.to_owned(),
                _ => held["number"].to_string(),
            },
            word(&held["command"]).to_owned(),
            word(&held["class"]).to_owned(),
            known(&held["asked"]),
            rate(sum(&held["lent"])),
            rate(sum(&held["held"])),
            known(&held["given"]),
            known(&held["used"][0]),
            known(&held["used"][1]),
            known(&held["used"][2]),
            held["late_seconds"].to_string(),
            known(&held["suggested"]),
            format_ns(held["period_ns"].as_u64().unwrap_or_default()),
            held["threads"].to_string(),
        ]);
    }
    table.text(Paint::for_stdout())
}

/// Of a list of credits.
fn sum(credits: &Value) -> f64 {
    let rates = credits.as_array().into_iter().flatten();
    rates
        .filter_map(|credit| credit["rate"].as_f64())
        .fold(0.0, |sum, rate| sum + rate)
}
