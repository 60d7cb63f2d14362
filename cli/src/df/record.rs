// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort df check --run`: what a function sees, from a file, and what it says.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use consort_df::{df_group, Answer, Object, Record};
use serde_json::{json, Value};

/// Why a file is no record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("{}: {source}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{}: this is not JSON: {source}", path.display())]
    Json {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error("{}: {what}; see `consort df check --help`", path.display())]
    Wrong { path: PathBuf, what: String },
}

const FLAGS: [(&str, u32); 3] = [
    ("played", consort_abi::DF_PLAYED),
    ("wants", consort_abi::DF_WANTS),
    ("runs", consort_abi::DF_RUNS),
];
const MEMBERS_MAX: usize = consort_abi::DF_MEMBERS as usize;

/// Asks the function, and returns what it answers and has written.
///
/// # Errors
/// The file cannot be read, or is no record.
pub fn run(object: &Object, path: &Path) -> Result<Value, RecordError> {
    let read = match path == Path::new("-") {
        true => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).map(|_| text)
        }
        false => fs::read_to_string(path),
    };
    let path = path.to_owned();
    let text = read.map_err(|source| RecordError::Read {
        path: path.clone(),
        source,
    })?;
    let value: Value = serde_json::from_str(&text).map_err(|source| RecordError::Json {
        path: path.clone(),
        source,
    })?;
    let group = group(&value).map_err(|what| RecordError::Wrong { path, what })?;
    let mut record = Record::new(&group);
    let answer = object.run(&mut record);
    Ok(told(&answer, group.nr, &record.group()))
}

/// Takes the keys of an object one after another; the others are unknown.
fn fields<'v>(
    value: &'v Value,
    what: &str,
    known: &[&str],
) -> Result<impl Fn(&str) -> &'v Value, String> {
    let object = value
        .as_object()
        .ok_or_else(|| format!("{what} is no object"))?;
    if let Some(key) = object.keys().find(|key| !known.contains(&key.as_str())) {
        let known = known.join(", ");
        return Err(format!("{what} has {key:?}: expected {known}"));
    }
    Ok(move |key: &str| object.get(key).unwrap_or(&Value::Null))
}

/// A number that is not there is 0.
fn number(value: &Value, what: &str) -> Result<u64, String> {
    match value {
        Value::Null => Ok(0),
        value => value
            .as_u64()
            .ok_or_else(|| format!("{what} is {value}: expected a whole number")),
    }
}

fn words<const N: usize>(value: &Value, what: &str) -> Result<[i64; N], String> {
    let mut words = [0; N];
    let list = match value {
        Value::Null => return Ok(words),
        value => value.as_array().filter(|list| list.len() <= N),
    };
    let list = list.ok_or_else(|| format!("{what} is {value}: expected a list of at most {N}"))?;
    for (word, value) in words.iter_mut().zip(list) {
        *word = value
            .as_i64()
            .ok_or_else(|| format!("{what} has {value}: expected whole numbers"))?;
    }
    Ok(words)
}

fn group(value: &Value) -> Result<df_group, String> {
    let known = ["now_ns", "by", "memory", "members"];
    let field = fields(value, "the record", &known)?;
    let members = field("members").as_array();
    let members = members.filter(|list| (1..=MEMBERS_MAX).contains(&list.len()));
    let members = members.ok_or(format!(
        "expected \"members\", a list of 1 to {MEMBERS_MAX}"
    ))?;
    let by = match field("by") {
        Value::Null => consort_abi::DF_NOBODY,
        value => number(value, "\"by\"")? as u32,
    };
    let mut group = df_group {
        nr: members.len() as u32,
        by,
        now_ns: number(field("now_ns"), "\"now_ns\"")?,
        memory: words(field("memory"), "\"memory\"")?,
        ..Default::default()
    };
    for (to, value) in group.member.iter_mut().zip(members) {
        let known = [
            "flags",
            "state",
            "control",
            "due_ns",
            "awake_ns",
            "ran_ns",
            "period_ns",
            "budget_ns",
            "weight",
        ];
        let field = fields(value, "a member", &known)?;
        to.flags = flags(field("flags"))?;
        to.state = words(field("state"), "\"state\"")?;
        to.control = words(field("control"), "\"control\"")?;
        to.due_ns = match field("due_ns") {
            Value::Null => u64::MAX,
            value => number(value, "\"due_ns\"")?,
        };
        to.awake_ns = number(field("awake_ns"), "\"awake_ns\"")?;
        to.ran_ns = number(field("ran_ns"), "\"ran_ns\"")?;
        to.period_ns = number(field("period_ns"), "\"period_ns\"")?;
        to.budget_ns = number(field("budget_ns"), "\"budget_ns\"")?;
        to.weight = match field("weight") {
            Value::Null => 1024,
            value => number(value, "\"weight\"")? as u32,
        };
    }
    Ok(group)
}

fn flags(value: &Value) -> Result<u32, String> {
    let list = match value {
        Value::Null => return Ok(0),
        value => value.as_array().into_iter().flatten(),
    };
    let mut flags = 0;
    for word in list {
        let flag = FLAGS.iter().find(|(name, _)| word == name);
        let (_, bit) =
            flag.ok_or_else(|| format!("{word} is no flag: expected played, wants or runs"))?;
        flags |= bit;
    }
    Ok(flags)
}

fn told(answer: &Answer, nr: u32, group: &df_group) -> Value {
    let members = group.member.iter().take(nr as usize);
    let control: Vec<_> = members.map(|member| json!(member.control)).collect();
    let mut told = json!({
        "ask_after_ns": group.ask_after_ns,
        "memory": group.memory,
        "control": control,
    });
    match answer {
        Answer::Keys(keys) => {
            let keys: Vec<Value> = keys.iter().map(key).collect();
            told["keys"] = json!(keys);
            told["order"] = json!(order(&keys));
        }
        Answer::Pick(pick) => told["pick"] = json!(pick),
        Answer::Endless => told["endless"] = json!(true),
    }
    told
}

/// `null`: no opinion.
fn key(key: &u64) -> Value {
    match *key {
        u64::MAX => Value::Null,
        key if key > consort_abi::DF_KEY_MAX => {
            json!(format!("{key}: too large, and taken as none"))
        }
        key => json!(key),
    }
}

/// The members in the order in which they go, by number: those without a key last, in the order of the file.
fn order(keys: &[Value]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by_key(|index| keys[*index].as_u64().unwrap_or(u64::MAX));
    order
}

pub fn describe(told: &Value) -> String {
    let mut text = match (&told["pick"], &told["keys"]) {
        (Value::Null, Value::Null) => "it does not end: no answer\n".to_owned(),
        (Value::Null, keys) => format!("keys {keys}: the order is {}\n", told["order"]),
        (pick, _) => match pick.as_i64() {
            Some(pick) if pick < 0 => "no opinion\n".to_owned(),
            _ => format!("member {pick} goes first\n"),
        },
    };
    text += &format!(
        "asks again after {} ns\nmemory {}\ncontrol {}\n",
        told["ask_after_ns"], told["memory"], told["control"]
    );
    text
}
