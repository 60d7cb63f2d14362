// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of reports, and standard output.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
    path::Path,
};

use consort_sim::report::Summary;

use super::failure::SimFailure;

pub const PAGE: &str = "index.html";
pub const TRACE: &str = "trace.json";
const SUMMARY: &str = "summary.json";

/// Names the file that could not be written.
pub fn writing(path: &Path) -> impl FnOnce(io::Error) -> SimFailure + '_ {
    |source| SimFailure::Write {
        path: path.to_owned(),
        source,
    }
}

/// Makes a folder for a report, and those above it.
pub fn make_folder(path: &Path) -> Result<(), SimFailure> {
    fs::create_dir_all(path).map_err(writing(path))
}

pub fn write_text(path: &Path, text: &str) -> Result<(), SimFailure> {
    fs::write(path, text).map_err(writing(path))
}

/// A summary as JSON, with a newline at its end.
pub fn summary_json(summary: &Summary) -> Result<String, SimFailure> {
    text_of(serde_json::to_string_pretty(summary))
}

/// Two summaries as one object.
pub fn summaries_json(a: &Summary, b: &Summary) -> Result<String, SimFailure> {
    let both = BTreeMap::from([("a", a), ("b", b)]);
    text_of(serde_json::to_string_pretty(&both))
}

fn text_of(text: serde_json::Result<String>) -> Result<String, SimFailure> {
    text.map(|text| text + "\n")
        .map_err(|error| SimFailure::Output(error.into()))
}

pub fn write_summary(folder: &Path, summary: &Summary) -> Result<(), SimFailure> {
    write_text(&folder.join(SUMMARY), &summary_json(summary)?)
}

/// Prints, and fails where nobody reads.
pub fn print(text: &str) -> Result<(), SimFailure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(SimFailure::Output)
}
