// SPDX-License-Identifier: MIT OR Apache-2.0
//! The user-level host in `consort sim run` and `consort sim explore`.

use std::{fs, path::Path, time::Duration};

use consort_sim::{
    scenario::Configuration,
    userlevel::{self, Outcome, Plan},
};
use serde_json::Value;

use super::{
    args::{ExploreArgs, RunArgs},
    failure::SimFailure,
    files::{make_folder, print, write_text},
};

/// The plan in a scenario with `"host": "user"`; none if it is another scenario.
pub fn read(path: &Path) -> Result<Option<Plan>, SimFailure> {
    // The reader of scenarios for the kernel's scheduler says what is wrong with this one.
    let parsed = fs::read_to_string(path).map(|text| serde_json::from_str::<Value>(&text));
    let Ok(Ok(value)) = parsed else {
        return Ok(None);
    };
    if value["host"] != "user" {
        return Ok(None);
    }
    let wrong = |what: String| SimFailure::Plan {
        path: path.to_owned(),
        what,
    };
    let plan: Plan = serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?;
    plan.check().map_err(wrong)?;
    Ok(Some(plan))
}

/// Only `consort sim run` has something to say of it.
///
/// # Errors
/// [`SimFailure::Plan`] when the scenario has `"host": "user"`.
pub fn refuse(path: &Path) -> Result<(), SimFailure> {
    match read(path)? {
        None => Ok(()),
        Some(_) => Err(SimFailure::Plan {
            path: path.to_owned(),
            what: "\"host\" is \"user\": only `consort sim run` runs such a scenario".to_owned(),
        }),
    }
}

/// Runs it, and says what came of it.
pub fn run(mut plan: Plan, args: &RunArgs) -> Result<(), SimFailure> {
    let without_effect = [
        ("--csv", args.csv),
        ("--trace", args.trace.is_some()),
        ("--report", args.choice.report.is_some()),
        ("--kernel", args.choice.kernel.is_some()),
        ("--as", args.configuration != Configuration::default()),
    ];
    if let Some((option, _)) = without_effect.iter().find(|it| it.1) {
        return Err(SimFailure::Plan {
            path: args.scenario.clone(),
            what: format!("{option} has no effect where \"host\" is \"user\"; leave it out"),
        });
    }
    plan.seed = args.choice.seed.unwrap_or(plan.seed);
    let outcome = userlevel::run(&plan);
    print(&match args.json {
        true => json(&outcome)?,
        false => describe(&plan, &outcome),
    })?;
    match outcome.broken.first() {
        None => Ok(()),
        Some(first) => Err(SimFailure::Found(format!(
            "{} broke a rule: {first}",
            args.scenario.display()
        ))),
    }
}

fn json(outcome: &Outcome) -> Result<String, SimFailure> {
    let text = serde_json::to_string_pretty(outcome);
    let text = text.map_err(|error| SimFailure::Output(error.into()))?;
    Ok(text + "\n")
}

fn describe(plan: &Plan, outcome: &Outcome) -> String {
    let ms = |ns: u64| ns as f64 / 1e6;
    let mut out = format!(
        "user level: {} members, {} running at a time, {:.1} ms\n\
         turns {}, given to others {}, members skipped {}\n\
         late by {:.3} ms at most, nobody had a turn for {:.3} ms at most\n",
        plan.members,
        plan.cpus,
        ms(outcome.end_ns),
        outcome.turns,
        outcome.handovers,
        outcome.skipped,
        ms(outcome.late_ns_max),
        ms(outcome.stall_ns_max),
    );
    for broken in &outcome.broken {
        out += &format!("broken: {broken}\n");
    }
    out
}

/// Random plans, until one breaks a rule. One process: a run takes milliseconds.
pub fn explore(args: &ExploreArgs, first_seed: u64) -> Result<(), SimFailure> {
    let time_max = args.minutes.map(|it| Duration::from_secs_f64(it * 60.0));
    let (done, found) = userlevel::explore(first_seed, args.seeds, time_max, &mut |_| {});
    let head = format!("{done} scenarios at user level, from seed {first_seed}");
    let Some(found) = found else {
        return print(&format!("{head}: no rule was broken\n"));
    };
    make_folder(&args.save)?;
    let path = args
        .save
        .join(format!("broken-user-{}.json", found.plan.seed));
    let text = serde_json::to_string_pretty(&found.plan);
    let text = text.map_err(|error| SimFailure::Output(error.into()))?;
    write_text(&path, &(text + "\n"))?;
    let first = found.outcome.broken.first();
    Err(SimFailure::Found(format!(
        "{head}: that of seed {}, made small, broke a rule: {}. Replay it with: consort sim run {}",
        found.plan.seed,
        first.map_or("", String::as_str),
        path.display()
    )))
}
