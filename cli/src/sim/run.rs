// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort sim run`.

use consort_sim::report::{page, table, Run};

use super::{
    args::RunArgs,
    failure::SimFailure,
    files::{make_folder, print, summary_json, write_summary, write_text, PAGE, TRACE},
    simulate::{load, simulate},
};

pub fn run(args: &RunArgs) -> Result<(), SimFailure> {
    let scenario = load(&args.scenario, &args.choice)?;
    let folder = args.choice.report.as_deref();
    if let Some(folder) = folder {
        make_folder(folder)?;
    }
    let trace = folder.map(|folder| folder.join(TRACE));
    let done = simulate(&scenario, &args.configuration, trace.as_deref())?;
    if let Some(folder) = folder {
        let run = Run {
            summary: &done.summary,
            recorder: &done.recorder,
        };
        write_text(&folder.join(PAGE), &page(&scenario.name, &[run]))?;
        write_summary(folder, &done.summary)?;
    }
    print(&match args.json {
        true => summary_json(&done.summary)?,
        false => table(&done.summary),
    })?;
    done.verdict()
}
