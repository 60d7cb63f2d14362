// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort sim run`.

use consort_sim::report::{csv, csv_head, page, table, Run};

use super::{
    args::RunArgs,
    failure::SimFailure,
    files::{make_folder, print, summary_json, write_summary, write_text, PAGE, TRACE},
    simulate::{load, simulate, Written},
    userlevel,
};

pub fn run(args: &RunArgs) -> Result<(), SimFailure> {
    if let Some(plan) = userlevel::read(&args.scenario)? {
        return userlevel::run(plan, args);
    }
    let scenario = load(&args.scenario, &args.choice)?;
    let folder = args.choice.report.as_deref();
    if let Some(folder) = folder {
        make_folder(folder)?;
    }
    let trace = folder.map(|folder| folder.join(TRACE));
    let written = Written {
        trace: trace.as_deref(),
        recording: args.trace.as_deref(),
    };
    let done = simulate(&scenario, &args.configuration, written)?;
    if let Some(folder) = folder {
        let run = Run {
            summary: &done.summary,
            recorder: &done.recorder,
            trace: TRACE,
        };
        write_text(&folder.join(PAGE), &page(&scenario.name, &[run]))?;
        write_summary(folder, &done.summary)?;
    }
    let seed = scenario.setup.seed;
    print(&match (args.json, args.csv) {
        (true, _) => summary_json(&done.summary)?,
        (_, true) => csv_head() + &csv(&args.configuration.to_string(), seed, &done.summary),
        _ => table(&done.summary),
    })?;
    done.verdict()
}
