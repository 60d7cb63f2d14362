// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces: what a scheduler did and what programs said of themselves, on one clock.
//!
//! The record is that of `abi/consort_trace.h`, for the kernel, programs, files and the simulator alike. [`Writer`] and
//! [`Reader`] know files, [`Rings`] the memory that a recorder shares with programs; [`Report`], [`csv`](write_csv),
//! [`Parquet`](write_parquet) and [`Perfetto`](write_perfetto) say what was recorded.

mod csv;
mod file;
mod filter;
mod histogram;
mod interval;
mod parquet;
mod perfetto;
mod reason;
mod record;
mod report;
mod rings;
mod table;
mod threads;
mod waits;

pub use csv::write_csv;
pub use file::{read, Header, ReadError, Trace, Writer};
pub use filter::{Filter, Kind, Kinds};
pub use histogram::Histogram;
pub use interval::{Became, Interval, Miss, OfRole, Role, Roles};
pub use parquet::write_parquet;
pub use perfetto::write_perfetto;
pub use reason::Reason;
pub use record::{Label, Left, Record, Source, What};
pub use report::Report;
pub use rings::{Rings, RINGS_VARIABLE};
pub use threads::{Thread, Threads};
pub use waits::{Blame, Blamed, Run, Waits};
