// SPDX-License-Identifier: MIT OR Apache-2.0
//! The daemon's books, as `consort` tells them, against what those who asked were told.

use super::reservations::Told;
use consort_bench_player::clock::{now_ns, sleep_until_ns, NS_PER_MS};
use consort_bench_player::error::Error;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

const LOOK_EVERY_NS: u64 = 100 * NS_PER_MS;
/// Rates are millionths; sums of them in floating point are nearer than this.
const EXACT: f64 = 1e-7;

/// What is reserved: classes and reservations.
pub struct Page {
    classes: Vec<Value>,
    reservations: Vec<Value>,
}

#[derive(Debug, Serialize)]
pub struct Books {
    /// Reservations when the storm had ended, the video's included.
    held: usize,
    /// Reservations that are not what their owner was told, or that the scheduler knows nobody of; classes whose sum is
    /// not that of their reservations, or more than they admit.
    wrong: Vec<String>,
    /// Reservations that are still there when all have ended, besides the video's.
    left: usize,
}

/// # Errors
/// When the command cannot be run, or its answer is none.
pub fn read(consort: &str) -> Result<Page, Error> {
    let list = |words: &[&str], name: &str| {
        let output = Command::new(consort)
            .args(words)
            .output()
            .map_err(|source| Error::io(format!("run {consort} {}", words.join(" ")), source))?;
        let mut answer: Value = serde_json::from_slice(&output.stdout).map_err(Error::Json)?;
        serde_json::from_value(answer[name].take()).map_err(Error::Json)
    };
    Ok(Page {
        reservations: list(&["usage", "--json"], "reservations")?,
        classes: list(&["class", "list", "--json"], "classes")?,
    })
}

/// Looks until only these processes have reserved, at the latest until `end_ns`.
///
/// # Errors
/// Those of [`read`].
pub fn read_until(consort: &str, end_ns: u64, owners: &[i32]) -> Result<Page, Error> {
    loop {
        let page = read(consort)?;
        let next_ns = now_ns() + LOOK_EVERY_NS;
        if page.reservations.len() <= owners.len() || next_ns >= end_ns {
            return Ok(page);
        }
        sleep_until_ns(next_ns);
    }
}

impl Books {
    pub fn compare(
        held: &Page,
        told: impl Iterator<Item = (i32, Told)>,
        left: &Page,
        video: i32,
    ) -> Books {
        let mut wrong = wrong_sums(held);
        let mut by_owner: BTreeMap<i64, &Value> = BTreeMap::new();
        for one in &held.reservations {
            let owner = one["number"].as_i64().unwrap_or_default();
            if by_owner.insert(owner, one).is_some() {
                wrong.push(format!("process {owner} has two reservations"));
            }
            if one["threads"] != 1 && owner != i64::from(video) {
                wrong.push(format!(
                    "process {owner} has {} threads in force, not 1",
                    one["threads"]
                ));
            }
        }
        for (owner, told) in told {
            wrong.extend(wrong_reservation(
                owner,
                told,
                by_owner.get(&owner.into()).copied(),
            ));
        }
        let left = left.reservations.iter();
        Books {
            held: held.reservations.len(),
            wrong,
            left: left.filter(|one| one["number"] != video).count(),
        }
    }
}

fn rate(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

/// What others have lent it needs no rate of its own.
fn wrong_reservation(owner: i32, told: Told, written: Option<&Value>) -> Option<String> {
    let asked = written.map_or(0.0, |one| rate(&one["asked"]));
    let class = written.and_then(|one| one["class"].as_str());
    let is_right = match told {
        Told::Unknown => true,
        Told::Nothing => asked == 0.0,
        Told::Holds(expected, rate) => {
            (asked - rate).abs() < EXACT && class == Some(Told::class(expected))
        }
    };
    (!is_right).then(|| format!("process {owner} was told {told:?}, and has {asked} in {class:?}"))
}

fn wrong_sums(page: &Page) -> Vec<String> {
    let mut wrong = Vec::new();
    for class in &page.classes {
        let of_class = page
            .reservations
            .iter()
            .filter(|one| one["class"] == class["name"]);
        let sum: f64 = of_class.map(|one| rate(&one["asked"])).sum();
        let asked = rate(&class["asked"]);
        if (sum - asked).abs() > EXACT * page.reservations.len() as f64 {
            wrong.push(format!(
                "class {} has {asked}, its reservations {sum}",
                class["name"]
            ));
        }
        if class["admits"]
            .as_f64()
            .is_some_and(|admits| asked > admits + EXACT)
        {
            wrong.push(format!(
                "class {} has {asked}, more than it admits",
                class["name"]
            ));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn page(owners: &[(i32, f64)], asked: f64) -> Page {
        let one = |(number, asked): &(i32, f64)| json!({ "number": number, "class": "guaranteed", "asked": asked, "threads": 1 });
        Page {
            classes: vec![json!({ "name": "guaranteed", "asked": asked, "admits": 0.5 })],
            reservations: owners.iter().map(one).collect(),
        }
    }

    fn books(held: &Page, told: &[(i32, Told)], left: &Page) -> Books {
        Books::compare(held, told.iter().copied(), left, 1)
    }

    #[test]
    fn books_that_say_what_was_told_are_right() {
        let held = page(&[(1, 0.3), (2, 0.1)], 0.4);
        let told = [
            (2, Told::Holds(0, 0.1)),
            (3, Told::Nothing),
            (4, Told::Unknown),
        ];
        let books = books(&held, &told, &page(&[(1, 0.3)], 0.3));
        assert_eq!(
            (books.held, books.left, books.wrong.len()),
            (2, 0, 0),
            "{:?}",
            books.wrong
        );
    }

    #[test]
    fn what_differs_is_wrong() {
        let held = page(&[(1, 0.3), (2, 0.1), (3, 0.1)], 0.6);
        let told = [
            (2, Told::Holds(0, 0.2)),
            (3, Told::Nothing),
            (4, Told::Holds(0, 0.1)),
        ];
        let books = books(&held, &told, &held);
        // The sum is not that, and is more than is admitted; and one for each process.
        assert_eq!((books.left, books.wrong.len()), (2, 5), "{:?}", books.wrong);
    }
}
