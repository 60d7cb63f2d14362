// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort plan`.

use consort_daemon::wire::CONTROL_TEXT_BYTES_MAX;
use consort_groups::{
    frames::{self, Interval},
    Problem, Problems,
};
use consort_kernel::format_ns;
use serde_json::{json, Value};

use super::{read_text, show::rows, shown};
use crate::{
    args::{PlanCommand, PlanLoadArgs},
    connection::Connection,
    failure::Failure,
    status::print,
    table::count,
};

/// Where the schedule says nothing, and neither does a member.
const LENGTH_NS: u64 = consort_groups::function::INTERVAL_NS;

pub fn plan(command: &PlanCommand) -> Result<(), Failure> {
    let (doing, member) = match command {
        PlanCommand::Load(args) => return load(args),
        PlanCommand::Unload(args) => ("plan_unload", &args.member),
        PlanCommand::Trigger(args) => ("plan_trigger", &args.member),
        PlanCommand::Pause(args) => ("plan_pause", &args.member),
        PlanCommand::Resume(args) => ("plan_resume", &args.member),
        PlanCommand::Seek(args) => {
            let request = json!({
                "command": "group", "doing": "plan_seek", "member": args.member, "at_ns": args.at,
            });
            return Connection::open()?.control(&request).map(drop);
        }
    };
    let request = json!({"command": "group", "doing": doing, "member": member});
    Connection::open()?.control(&request).map(drop)
}

fn load(args: &PlanLoadArgs) -> Result<(), Failure> {
    let text = read_text(&args.file)?;
    let file = shown(&args.file);
    let Some(member) = args.member.as_ref().filter(|_| !args.check) else {
        let intervals = frames::read(&file, &text, args.length.unwrap_or(LENGTH_NS))?;
        return print(&format!("{file} is right: {}\n", described(&intervals)));
    };
    let connection = Connection::open()?;
    let length_ns = match args.length {
        Some(length_ns) => length_ns,
        None => interval_of(&connection, member)?,
    };
    let intervals = frames::read(&file, &text, length_ns)?;
    let request = request(&intervals, member, args);
    if request.to_string().len() > CONTROL_TEXT_BYTES_MAX {
        return Err(too_long(file, intervals.len()).into());
    }
    connection.control(&request)?;
    match args.quiet.quiet {
        true => Ok(()),
        false => print(&format!(
            "{member} has a plan of {}; `consort plan trigger {member}` lets it begin\n",
            described(&intervals)
        )),
    }
}

fn too_long(file: String, frames: usize) -> Problems {
    let text = format!("{frames} frames of lengths of their own are too much for one message: expected one length for all, or fewer frames");
    Problems {
        file,
        list: vec![Problem {
            line: 1,
            key: String::new(),
            text,
        }],
    }
}

/// Delays are shorter to send than times.
fn request(intervals: &[Interval], member: &str, args: &PlanLoadArgs) -> Value {
    let mut before_ns = 0;
    let mut delays_ns = Vec::with_capacity(intervals.len());
    for one in intervals {
        delays_ns.push(one.start_ns - before_ns);
        before_ns = one.start_ns;
    }
    let mut lengths_ns: Vec<u64> = intervals
        .iter()
        .map(|one| one.end_ns - one.start_ns)
        .collect();
    if lengths_ns.windows(2).all(|pair| pair[0] == pair[1]) {
        lengths_ns.truncate(1);
    }
    json!({
        "command": "group", "doing": "plan_load", "member": member, "delays_ns": delays_ns, "lengths_ns": lengths_ns,
        "repeat_ns": args.repeat.unwrap_or(0), "anyway": args.anyway,
    })
}

/// What the group file says of the member; its owner's own files come first in what is shown to root, too.
fn interval_of(connection: &Connection, member: &str) -> Result<u64, Failure> {
    let rows = rows(connection)?;
    let named = |row: &&Value| row["kind"] == "member" && row["name"] == member;
    let row = rows.iter().find(named);
    let interval = row.and_then(|row| row["interval_ns"].as_u64());
    Ok(interval.unwrap_or(LENGTH_NS))
}

fn described(intervals: &[Interval]) -> String {
    let end_ns = intervals.last().map_or(0, |last| last.end_ns);
    let frames = count(intervals.len() as u64, "frame");
    format!("{frames}, {} from the first to the last", format_ns(end_ns))
}
