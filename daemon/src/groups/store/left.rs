// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is in the store when a daemon opens it. Each file is read whole, or not at all.

use std::{fs, path::Path};

use consort_groups::{frames::Interval, FILE_BYTES_MAX};

use super::{FileKey, Plan, GROUP_END};

/// More than the longest object takes.
const FUNCTION_BYTES_MAX: u64 = 2 * consort_df::OBJECT_BYTES_MAX as u64 + 64;
/// More than the longest plan takes.
const PLAN_BYTES_MAX: u64 = 1 << 20;

/// A process that `consort run --name` has started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launched {
    pub pid: i32,
    /// Clock ticks after boot.
    pub start: u64,
    pub uid: u32,
    pub name: String,
}

/// A thread that has said its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announced {
    pub tid: i32,
    /// Clock ticks after boot.
    pub start: u64,
    pub pid: i32,
    pub uid: u32,
    /// Its program's page, and its slot there.
    pub client: u32,
    pub slot: u32,
    /// The thread as its program calls it.
    pub named: i32,
    /// A thread with a lower number came before.
    pub order: u64,
    pub name: String,
}

/// What an earlier daemon left.
#[derive(Debug, Default)]
pub struct Left {
    /// By owner and name, each with its text.
    pub files: Vec<(FileKey, String)>,
    /// Those that a daemon before could not restore.
    pub aside: Vec<(FileKey, String)>,
    pub launched: Vec<Launched>,
    pub announced: Vec<Announced>,
    /// Of a user's member.
    pub plans: Vec<(u32, String, Plan)>,
    /// By owner and name: the scheduler's number, and the object in hexadecimal.
    pub functions: Vec<(u32, String, u32, String)>,
}

pub(super) fn read_file(key: &str, path: &Path) -> Option<(FileKey, String)> {
    let (uid, name) = key.split_once('.')?;
    let uid = uid.parse().ok()?;
    let name = name.to_owned();
    let length = fs::metadata(path).ok()?.len();
    if length > FILE_BYTES_MAX as u64 {
        return None;
    }
    Some((FileKey { uid, name }, fs::read_to_string(path).ok()?))
}

pub(super) fn read_plan(key: &str, path: &Path) -> Option<(u32, String, Plan)> {
    let (uid, member) = key.split_once('.')?;
    if fs::metadata(path).ok()?.len() > PLAN_BYTES_MAX {
        return None;
    }
    let text = fs::read_to_string(path).ok()?;
    let mut lines = text.strip_suffix('\n')?.lines();
    let repeat_ns = lines.next()?.parse().ok()?;
    let interval = |line: &str| {
        let (start, end) = line.split_once(' ')?;
        Some(Interval {
            start_ns: start.parse().ok()?,
            end_ns: end.parse().ok()?,
        })
    };
    let plan = Plan {
        intervals: lines.map(interval).collect::<Option<_>>()?,
        repeat_ns,
    };
    plan.check().ok()?;
    Some((uid.parse().ok()?, member.to_owned(), plan))
}

pub(super) fn read_function(key: &str, path: &Path) -> Option<(u32, String, u32, String)> {
    let (uid, name) = key.split_once('.')?;
    if fs::metadata(path).ok()?.len() > FUNCTION_BYTES_MAX {
        return None;
    }
    let text = fs::read_to_string(path).ok()?;
    let (number, hex) = text.strip_suffix('\n')?.split_once(' ')?;
    Some((
        uid.parse().ok()?,
        name.to_owned(),
        number.parse().ok()?,
        hex.to_owned(),
    ))
}

pub(super) fn read_announced(tid: &str, path: &Path) -> Option<Announced> {
    let text = fs::read_to_string(path).ok()?;
    let mut words = text.strip_suffix('\n')?.splitn(8, ' ');
    Some(Announced {
        tid: tid.parse().ok()?,
        start: words.next()?.parse().ok()?,
        pid: words.next()?.parse().ok()?,
        uid: words.next()?.parse().ok()?,
        client: words.next()?.parse().ok()?,
        slot: words.next()?.parse().ok()?,
        named: words.next()?.parse().ok()?,
        order: words.next()?.parse().ok()?,
        name: words.next()?.to_owned(),
    })
}

/// Which of the scheduler's groups was whose when a daemon before ended: by the scheduler's number, file and group. They are
/// noted no longer.
pub fn take_groups(folder: &Path) -> Vec<(u32, (FileKey, String))> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut groups = Vec::new();
    for path in entries.map(|entry| entry.path()) {
        let name = path.file_name().and_then(|name| name.to_str());
        let id = name.and_then(|name| name.strip_suffix(GROUP_END)?.parse().ok());
        let Some(id) = id else { continue };
        let text = fs::read_to_string(&path).unwrap_or_default();
        groups.extend(read_group(&text).map(|place| (id, place)));
        let _ = fs::remove_file(&path);
    }
    groups
}

fn read_group(text: &str) -> Option<(FileKey, String)> {
    let mut words = text.strip_suffix('\n')?.splitn(3, ' ');
    let (uid, name) = (words.next()?.parse().ok()?, words.next()?.to_owned());
    Some((FileKey { uid, name }, words.next()?.to_owned()))
}

pub(super) fn read_name(pid: &str, path: &Path) -> Option<Launched> {
    let text = fs::read_to_string(path).ok()?;
    let mut words = text.strip_suffix('\n')?.splitn(3, ' ');
    Some(Launched {
        pid: pid.parse().ok()?,
        start: words.next()?.parse().ok()?,
        uid: words.next()?.parse().ok()?,
        name: words.next()?.to_owned(),
    })
}
