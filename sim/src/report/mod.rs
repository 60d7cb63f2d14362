// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a run tells its reader: tables, plots, traces.

mod both;
mod distribution;
mod intervals;
mod page;
mod palette;
mod perfetto;
mod recorder;
mod summary;
mod svg;
mod table;

pub use both::Both;
pub use distribution::Distribution;
pub use page::{page, Run};
pub use perfetto::Trace;
pub use recorder::{Recorder, TaskRecord};
pub use summary::{Row, Summary};
pub use table::{comparison, table};
