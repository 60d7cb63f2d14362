// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort set`.

use std::cmp::Ordering;

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
    let connection = Connection::open()?;
    let before = connection.control(&json!({"command": "status"}))?;
    let before_ns = before["tunables"][field].as_u64().unwrap_or_default();
    let mut command = json!({"command": "set"});
    command[field] = args.value_ns.into();
    let now = connection.control(&command)?;
    let value_ns = now[field].as_u64().unwrap_or_default();
    print(&format!(
        "{name} {}, it was {}{}\n",
        format_ns(value_ns),
        format_ns(before_ns),
        match value_ns.cmp(&before_ns) {
            Ordering::Less => ": shorter turns, everybody waits less and switches more often",
            Ordering::Equal => "",
            Ordering::Greater => ": longer turns, everybody waits longer and switches less often",
        }
    ))
}
