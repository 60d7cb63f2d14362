// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort show`: the tree of groups, who has which name, and what each does.

use serde_json::{json, Map, Value};

use crate::{
    args::ShowArgs,
    connection::Connection,
    df,
    failure::Failure,
    status::{print, word},
    table::{short_time, Paint},
};

/// Threads of a member that are shown to people one by one.
const THREADS_SHOWN: usize = 8;

pub fn show(args: &ShowArgs) -> Result<(), Failure> {
    let rows = rows(&Connection::open()?)?;
    let mut tree = tree(rows);
    if let (Some(name), Some(files)) = (&args.name, tree["files"].as_array_mut()) {
        files.retain(|file| file["name"] == *name);
        let is_in_force = !files.is_empty();
        if let Some(aside) = tree["aside"].as_array_mut() {
            aside.retain(|file| file["name"] == *name);
        }
        if !is_in_force && list(&tree, "aside").next().is_none() {
            return Err(Failure::NoGroupFile(name.clone()));
        }
        tree["strays"] = json!([]);
    }
    match args.json {
        true => print(&format!("{tree:#}\n")),
        false => print(&describe(&tree, Paint::for_stdout())),
    }
}

/// All rows of the daemon's.
pub(crate) fn rows(connection: &Connection) -> Result<Vec<Value>, Failure> {
    let mut all: Vec<Value> = Vec::new();
    loop {
        let after = all.last().map_or(Value::Null, |row| row["row"].clone());
        let request = json!({"command": "group", "doing": "show", "after": after});
        let mut page = connection.control(&request)?;
        let Value::Array(mut rows) = page["rows"].take() else {
            return Err(Failure::Connection("its answer lacks the rows".to_owned()));
        };
        let more = page["more"] == true && !rows.is_empty();
        all.append(&mut rows);
        if !more {
            return Ok(all);
        }
    }
}

/// Rows as the tree that they are of: files, groups, members, threads.
fn tree(rows: Vec<Value>) -> Value {
    let mut files: Vec<Value> = Vec::new();
    let mut strays: Vec<Value> = Vec::new();
    let mut aside: Vec<Value> = Vec::new();
    for mut row in rows {
        let kind = word(&row["kind"]).to_owned();
        if let Some(fields) = row.as_object_mut() {
            fields.remove("kind");
            fields.remove("row");
        }
        match kind.as_str() {
            "group" => {
                let (name, uid) = (row["file"].take(), row["uid"].take());
                if let Some(fields) = row.as_object_mut() {
                    fields.remove("file");
                    fields.remove("uid");
                }
                let last = files.last();
                if last.is_none_or(|file| file["name"] != name || file["uid"] != uid) {
                    files.push(json!({"name": name, "uid": uid, "groups": []}));
                }
                push(files.last_mut(), &["groups"], with(row, "members"));
            }
            "member" => push(
                files.last_mut(),
                &["groups", "members"],
                with(row, "threads"),
            ),
            "thread" => push(files.last_mut(), &["groups", "members", "threads"], row),
            "aside" => aside.push(row),
            _ => strays.push(row),
        }
    }
    json!({"files": files, "strays": strays, "aside": aside})
}

fn with(mut row: Value, list: &str) -> Value {
    row[list] = json!([]);
    row
}

/// Appends to the last list of the last of each list on the way.
fn push(within: Option<&mut Value>, lists: &[&str], row: Value) {
    let Some((list, rest)) = lists.split_first() else {
        return;
    };
    let Some(list) = within.and_then(|within| within[*list].as_array_mut()) else {
        return;
    };
    match rest.is_empty() {
        true => list.push(row),
        false => push(list.last_mut(), rest, row),
    }
}

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value[name].as_array().into_iter().flatten()
}

fn describe(tree: &Value, paint: Paint) -> String {
    let mut text = String::new();
    for file in list(tree, "files") {
        text += &format!(
            "{} of user {}\n",
            paint.heading(word(&file["name"])),
            file["uid"]
        );
        for group in list(file, "groups").filter(|group| group["parent"].is_null()) {
            describe_group(file, group, 1, paint, &mut text);
        }
    }
    if list(tree, "strays").next().is_some() {
        text += "names that no group file has\n";
        for thread in list(tree, "strays") {
            text += &format!("  {}: {}\n", word(&thread["name"]), thread_of(thread));
        }
    }
    if list(tree, "aside").next().is_some() {
        text += "group files that could not be restored, and that the next daemon tries again\n";
        for file in list(tree, "aside") {
            let (name, why) = (word(&file["name"]), word(&file["why"]));
            text += &format!("  {name} of user {}: {why}\n", file["uid"]);
        }
    }
    match text.is_empty() {
        true => "no group files\n".to_owned(),
        false => text,
    }
}

fn describe_group(file: &Value, group: &Value, depth: usize, paint: Paint, text: &mut String) {
    let indent = "  ".repeat(depth);
    let mut parts = vec![word(&group["function"]).to_owned()];
    if let Some(rate) = group["rate"].as_f64() {
        let period = short_time(group["period_ns"].as_u64().unwrap_or_default());
        parts.push(format!("{rate} of {} in {period}", word(&group["class"])));
    }
    if let Some(used) = group["used"].as_f64() {
        parts.push(format!("uses {used:.3}"));
    }
    if let Some(doing) = group["doing"].as_str() {
        parts.push(doing_in_words(doing).to_owned());
    }
    if !group["user"].is_null() {
        parts.push(df::user(&group["user"]));
    }
    *text += &format!("{indent}{}: {}\n", word(&group["name"]), parts.join(", "));
    for member in list(group, "members") {
        describe_member(member, &format!("{indent}  "), paint, text);
    }
    let below = list(file, "groups").filter(|other| other["parent"] == group["name"]);
    for group in below {
        describe_group(file, group, depth + 1, paint, text);
    }
}

fn doing_in_words(doing: &str) -> &str {
    match doing {
        "runs" => "a member runs",
        "waits" => "a member waits for a CPU",
        "beyond_share" => "nobody runs: it has had its share",
        "sleeps" => "nobody runs: all sleep",
        "untriggered" => "nobody runs: its plans stand still",
        "unbound" => "nobody runs: no thread has a member's name",
        other => other,
    }
}

fn describe_member(member: &Value, indent: &str, paint: Paint, text: &mut String) {
    let mut parts = Vec::new();
    let terms = word(&member["terms"]);
    if !terms.is_empty() {
        parts.push(terms.to_owned());
    }
    if let Some(rule) = member["rule"].as_str() {
        parts.push(format!("rule {rule}"));
    }
    let number = |name: &str| member[name].as_u64().unwrap_or_default();
    let (bound, count, waiting) = (number("bound"), number("count"), number("waiting"));
    if count > 1 {
        parts.push(format!("{bound} of {count}"));
    } else if bound == 0 {
        parts.push("no thread yet".to_owned());
    }
    if waiting > 0 {
        parts.push(paint.bad(&format!("{waiting} without a place")));
    }
    let missed = number("missed_vacant");
    if missed > 0 {
        parts.push(format!("{missed} intervals missed: vacant"));
    }
    let separator = if parts.is_empty() { "" } else { ": " };
    *text += &format!(
        "{indent}{}{separator}{}\n",
        word(&member["name"]),
        parts.join(", ")
    );
    let threads: Vec<&Value> = list(member, "threads").collect();
    for thread in threads.iter().take(THREADS_SHOWN) {
        *text += &format!("{indent}  {}\n", thread_of(thread));
    }
    if threads.len() > THREADS_SHOWN {
        *text += &format!("{indent}  and {} more\n", threads.len() - THREADS_SHOWN);
    }
}

/// A thread and what it does, in a line.
fn thread_of(thread: &Value) -> String {
    let mut parts = vec![format!("{} ({})", thread["tid"], word(&thread["command"]))];
    let role = &thread["role"];
    parts.push(match thread["bound"] == true {
        false => match thread["refused"].as_str() {
            Some(refused) => format!("not bound: {refused}"),
            None => "not bound".to_owned(),
        },
        true => state_in_words(thread, role).to_owned(),
    });
    if let Some(ran_ns) = role["ran_ns"].as_u64() {
        parts.push(format!("ran {}", short_time(ran_ns)));
    }
    for kind in ["state", "control"] {
        for pair in list(role, kind) {
            parts.push(format!("{} = {}", word(&pair[0]), pair[1]));
        }
    }
    if let Some(begins_in_ns) = role["begins_in_ns"].as_i64() {
        let time = short_time(begins_in_ns.unsigned_abs());
        parts.push(match begins_in_ns > 0 {
            true => format!("due in {time}"),
            false => format!("due for {time}"),
        });
    }
    let misses = role["missed"].as_object();
    if let Some(misses) = misses.filter(|misses| has_intervals(role, misses)) {
        parts.push(intervals_in_words(role, misses));
    }
    parts.join(", ")
}

fn state_in_words(thread: &Value, role: &Value) -> &'static str {
    match () {
        () if role["outside"] == true => "bound, without a seat: it runs as if in no group",
        () if role["runs"] == true => "runs",
        () if role["awake"] == true && role["blocked"] == true => {
            "waits: the group has had its share"
        }
        () if role["awake"] == true => "waits for a CPU",
        () if role.is_null() && thread["ps"] == "R" => "runs or waits",
        () => "sleeps",
    }
}

fn has_intervals(role: &Value, misses: &Map<String, Value>) -> bool {
    role["kept"] != 0 || misses.values().any(|count| *count != 0)
}

fn intervals_in_words(role: &Value, misses: &Map<String, Value>) -> String {
    let causes = misses.iter().filter(|(_, count)| **count != 0);
    let causes: Vec<String> = causes
        .map(|(cause, count)| format!("{count} {cause}"))
        .collect();
    let late = short_time(role["late_max_ns"].as_u64().unwrap_or_default());
    match causes.is_empty() {
        true => format!("{} intervals kept, at most {late} late", role["kept"]),
        false => format!(
            "{} intervals kept, at most {late} late, and missed: {}",
            role["kept"],
            causes.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Value {
        let group = |name: &str, parent: Value| {
            json!({"kind": "group", "file": "film", "uid": 7, "name": name, "parent": parent, "function": "fair",
                   "class": "guaranteed", "rate": 0.3, "period_ns": 30_000_000, "used": 0.125, "doing": "waits"})
        };
        let member = json!({"kind": "member", "name": "show", "terms": "interval=4ms", "rule": null, "count": 1,
                            "bound": 1, "waiting": 1});
        let role = json!({"runs": false, "awake": true, "on": true, "outside": false, "blocked": false,
                          "state": [["queued", 3]], "control": [], "begins_in_ns": -1_000_000, "kept": 9,
                          "missed": {"asleep": 2, "vacant": 0}, "late_max_ns": 150_000, "ran_ns": 2_000_000_000u64});
        let thread = |kind: &str, tid: i32, role: Value| {
            json!({"kind": kind, "name": "show", "tid": tid, "command": "player", "bound": tid == 1, "refused": null,
                   "ps": "S", "role": role})
        };
        tree(vec![
            group("all", Value::Null),
            group("stages", json!("all")),
            member,
            thread("thread", 1, role),
            thread("thread", 2, Value::Null),
            thread("stray", 3, Value::Null),
            json!({"kind": "aside", "name": "old", "uid": 7, "why": "no class rt"}),
        ])
    }

    #[test]
    fn rows_become_a_tree() {
        let tree = example();
        assert_eq!(tree["files"].as_array().unwrap().len(), 1);
        let groups = &tree["files"][0]["groups"];
        assert_eq!(groups[1]["members"][0]["threads"][0]["tid"], 1);
        assert_eq!(groups[0]["members"], json!([]));
        assert_eq!(tree["strays"][0]["tid"], 3);
        assert_eq!(
            tree["aside"],
            json!([{"name": "old", "uid": 7, "why": "no class rt"}])
        );
    }

    #[test]
    fn people_read_the_tree() {
        let text = describe(&example(), Paint(false));
        let expected = "\
film of user 7
  all: fair, 0.3 of guaranteed in 30.0 ms, uses 0.125, a member waits for a CPU
    stages: fair, 0.3 of guaranteed in 30.0 ms, uses 0.125, a member waits for a CPU
      show: interval=4ms, 1 without a place
        1 (player), waits for a CPU, ran 2.00 s, queued = 3, due for 1.00 ms, 9 intervals kept, at most 150 us late, and missed: 2 asleep
        2 (player), not bound
names that no group file has
  show: 3 (player), not bound
group files that could not be restored, and that the next daemon tries again
  old of user 7: no class rt
";
        assert_eq!(text, expected);
        let mut vacant = example();
        vacant["files"][0]["groups"][1]["members"][0]["missed_vacant"] = json!(5);
        let text = describe(&vacant, Paint(false));
        let missed = "1 without a place, 5 intervals missed: vacant\n";
        assert!(text.contains(missed), "{text}");
        let mut users = example();
        users["files"][0]["groups"][1]["user"] = json!({"asked": 90, "corrected": 3, "missing": 0, "slow": 16, "took_max_ns": 60_000, "off": true});
        let text = describe(&users, Paint(false));
        let function =
            "asked 90 times, 3 corrected, 16 slow, 60.0 us at most; too slow, and not asked any more";
        assert!(
            text.contains(&format!("a member waits for a CPU, {function}\n")),
            "{text}"
        );
        assert_eq!(describe(&tree(vec![]), Paint(false)), "no group files\n");
    }
}
