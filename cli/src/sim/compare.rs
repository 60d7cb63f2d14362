// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort sim compare`.

use std::path::Path;

use consort_sim::{
    report::{comparison, page, Run},
    scenario::{Configuration, Scenario},
};

use super::{
    args::CompareArgs,
    failure::SimFailure,
    files::{make_folder, print, summaries_json, write_summary, write_text, PAGE, TRACE},
    simulate::{load, simulate, Simulated},
};

pub fn compare(args: &CompareArgs) -> Result<(), SimFailure> {
    let scenario = load(&args.scenario, &args.choice)?;
    let folder = args.choice.report.as_deref();
    let a = side(&scenario, &args.one, folder, "a")?;
    let b = side(&scenario, &args.other, folder, "b")?;
    if let Some(folder) = folder {
        let runs = [&a, &b].map(|done| Run {
            summary: &done.summary,
            recorder: &done.recorder,
        });
        write_text(&folder.join(PAGE), &page(&scenario.name, &runs))?;
    }
    print(&match args.json {
        true => summaries_json(&a.summary, &b.summary)?,
        false => comparison(&a.summary, &b.summary),
    })?;
    a.verdict().and_then(|()| b.verdict())
}

/// One of the two runs, and its part of the report.
fn side(
    scenario: &Scenario,
    configuration: &Configuration,
    folder: Option<&Path>,
    name: &str,
) -> Result<Simulated, SimFailure> {
    let Some(folder) = folder else {
        return simulate(scenario, configuration, None);
    };
    let folder = folder.join(name);
    make_folder(&folder)?;
    let done = simulate(scenario, configuration, Some(&folder.join(TRACE)))?;
    write_summary(&folder, &done.summary)?;
    Ok(done)
}
