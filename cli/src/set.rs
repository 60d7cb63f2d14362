// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort set`.

use consort_kernel::format_ns;
use serde_json::json;

use crate::{
    args::{SetArgs, Tunable},
    connection::Connection,
    failure::Failure,
    status::print,
};

/// Asks the daemon to change one tunable, and prints what holds now.
pub fn set(args: &SetArgs) -> Result<(), Failure> {
    let (field, name) = match args.tunable {
        Tunable::Granularity => ("granularity_ns", "granularity"),
        Tunable::MinSlice => ("min_slice_ns", "min-slice"),
    };
    let mut command = json!({"command": "set"});
    command[field] = args.value_ns.into();
    let now = Connection::open()?.control(&command)?;
    let value_ns = now[field].as_u64().unwrap_or_default();
    print(&format!("{name} {}\n", format_ns(value_ns)))
}
