// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a run tells its reader: tables, plots, traces.

mod both;
mod comparison;
mod csv;
mod distribution;
mod intervals;
mod page;
mod palette;
mod perfetto;
mod recorder;
mod recording;
mod summary;
mod svg;
mod table;

pub use both::Both;
pub use comparison::comparison;
pub use csv::{csv, csv_head};
pub use distribution::Distribution;
pub use page::{page, Run};
pub use perfetto::Trace;
pub use recorder::{Recorder, TaskRecord};
pub use recording::Recording;
pub use summary::{group_name, Row, Summary};
pub use table::table;
