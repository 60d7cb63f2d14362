// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs in containers, which have numbers of their own for users, processes and threads, and a socket that was handed in.

use std::fs;

use serde_json::Value;

use crate::{
    check,
    suite::{
        board::Field,
        consort::{await_members, reservations},
        process::{wait_until, Role, ALICE, PATIENCE},
        Cpus, Needs, Outcome, Test,
    },
};

pub const TESTS: &[Test] = &[Test {
    name: "containers.join_reserve_lend",
    cpus: Cpus::Any,
    needs: Needs::Daemon,
    run: join_reserve_lend,
}];

/// A container of an ordinary user's: it joins, reserves and lends by its own numbers, and the books have those of the machine.
fn join_reserve_lend() -> Outcome {
    let role = Role::ready_as(ALICE, "container")?;
    await_members(1)?;
    check!(
        role.get(Field::Errors) == 0,
        "what must be refused was granted {} times",
        role.get(Field::Errors)
    );
    let pid = child_of(role.pid())?;
    let threads = numbers(&format!("/proc/{pid}/task"))?;
    let held = reservations()?;
    let whose = |one: &Value| one["number"].as_u64().unwrap_or_default();
    let asked = |rate: f64| held.iter().find(|one| one["asked"] == rate);
    let of_process = asked(0.2).ok_or_else(|| format!("the process has none: {held:?}"))?;
    check!(
        whose(of_process) == pid && of_process["uid"] == ALICE,
        "expected process {pid} of {ALICE}: {of_process}"
    );
    let lent = of_process["lent"].as_array().cloned().unwrap_or_default();
    check!(
        lent.len() == 1 && lent[0]["rate"] == 0.05,
        "expected a credit of 0.05: {of_process}"
    );
    let of_thread = asked(0.1).ok_or_else(|| format!("the thread has none: {held:?}"))?;
    let thread = whose(of_thread);
    check!(
        thread != pid && threads.contains(&thread),
        "expected a thread of {pid}, {threads:?}: {of_thread}"
    );
    check!(
        lent[0]["reservation"] == of_thread["reservation"] && held.len() == 2,
        "expected a credit to the thread, and no other reservation: {held:?}"
    );
    drop(role);
    wait_until(PATIENCE, "the container's reservations to end", || {
        Ok(reservations()?.is_empty())
    })
}

/// Its only child.
fn child_of(pid: u32) -> Result<u64, String> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let child = text.trim().parse();
    child.map_err(|_| format!("{path} has {text:?}, expected one number"))
}

/// The names in a folder that are numbers.
fn numbers(folder: &str) -> Result<Vec<u64>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{folder}: {error}"))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Ok(names.filter_map(|name| name.parse().ok()).collect())
}
