// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a run tells its reader: tables, plots, traces.
