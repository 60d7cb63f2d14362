// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort sim compare`.

use std::path::Path;

use consort_sim::{
    report::{comparison, csv, csv_head, page, Run, Summary},
    scenario::{Configuration, Scenario},
};

use super::{
    args::{Choice, CompareArgs},
    failure::SimFailure,
    files::{make_folder, print, summaries_json, write_summary, write_text, PAGE, TRACE},
    simulate::{load, simulate, Simulated, Written},
    userlevel,
};

pub fn compare(args: &CompareArgs) -> Result<(), SimFailure> {
    userlevel::refuse(&args.scenario)?;
    let scenario = load(&args.scenario, &args.choice)?;
    let folder = args.choice.report.as_deref();
    let a = side(&scenario, &args.one, folder, "a")?;
    let b = side(&scenario, &args.other, folder, "b")?;
    if let Some(folder) = folder {
        let traces = ["a", "b"].map(|side| format!("{side}/{TRACE}"));
        let runs = [shown(&a, &traces[0]), shown(&b, &traces[1])];
        write_text(&folder.join(PAGE), &page(&scenario.name, &runs))?;
    }
    let verdict = a.verdict().and_then(|()| b.verdict());
    let (mut ones, mut others) = (vec![a.summary], vec![b.summary]);
    let mut rows = String::new();
    let mut note = |seed, a: &Summary, b: &Summary| {
        for (configuration, summary) in [(&args.one, a), (&args.other, b)] {
            rows.push_str(&csv(&configuration.to_string(), seed, summary));
        }
    };
    let first = scenario.setup.seed;
    note(first, &ones[0], &others[0]);
    let mut later = Ok(());
    for seed in (first..).skip(1).take(args.seeds as usize - 1) {
        let choice = Choice {
            seed: Some(seed),
            kernel: args.choice.kernel,
            report: None,
        };
        let scenario = load(&args.scenario, &choice)?;
        let a = side(&scenario, &args.one, None, "a")?;
        let b = side(&scenario, &args.other, None, "b")?;
        note(seed, &a.summary, &b.summary);
        later = later.and_then(|()| a.verdict()).and_then(|()| b.verdict());
        ones.push(a.summary);
        others.push(b.summary);
    }
    print(&match (args.json, args.csv) {
        (true, _) => summaries_json(&ones[0], &others[0])?,
        (_, true) => csv_head() + &rows,
        _ => comparison(&ones, &others),
    })?;
    verdict.and(later)
}

/// As the page shows it.
fn shown<'r>(done: &'r Simulated, trace: &'r str) -> Run<'r> {
    Run {
        summary: &done.summary,
        recorder: &done.recorder,
        trace,
    }
}

/// One of the two runs, and its part of the report.
fn side(
    scenario: &Scenario,
    configuration: &Configuration,
    folder: Option<&Path>,
    name: &str,
) -> Result<Simulated, SimFailure> {
    let Some(folder) = folder else {
        return simulate(scenario, configuration, Written::default());
    };
    let folder = folder.join(name);
    make_folder(&folder)?;
    let trace = folder.join(TRACE);
    let written = Written {
        trace: Some(&trace),
        ..Written::default()
    };
    let done = simulate(scenario, configuration, written)?;
    write_summary(&folder, &done.summary)?;
    Ok(done)
}
