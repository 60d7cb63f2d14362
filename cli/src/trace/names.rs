// SPDX-License-Identifier: MIT OR Apache-2.0
//! How members of groups are called whose intervals are in a trace: the scheduler has numbers, the daemon knows names.

use consort_trace::{Label, Record, Role, What};
use serde_json::Value;

use crate::{connection::Connection, groups, status::word};

/// A record for each role that there is. Without a daemon, or where that refuses, a trace has numbers.
pub fn records(at_ns: u64) -> Vec<Record> {
    let rows = Connection::open().and_then(|daemon| groups::rows(&daemon));
    names(&rows.unwrap_or_default())
        .into_iter()
        .map(|(of, label)| Record {
            at_ns,
            cpu: None,
            tid: 0,
            pid: 0,
            what: What::Role { of, label },
        })
        .collect()
}

/// Each group's row is before those of its members.
fn names(rows: &[Value]) -> Vec<(Role, Label)> {
    let mut names = Vec::new();
    let mut group: Option<(u32, &str)> = None;
    for row in rows {
        if row["kind"] == "group" {
            group = number(&row["number"]).map(|number| (number, word(&row["name"])));
            continue;
        }
        let (Some((group, name)), Some(first)) = (group, number(&row["role"])) else {
            continue;
        };
        let label = Label::new(name, word(&row["name"]));
        let count = number(&row["count"]).unwrap_or(1);
        for role in first..first.saturating_add(count) {
            let Ok(role) = u16::try_from(role) else {
                break;
            };
            names.push((Role { group, role }, label.clone()));
        }
    }
    names
}

fn number(value: &Value) -> Option<u32> {
    u32::try_from(value.as_u64()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_role_of_each_group_has_its_members_name() {
        let rows = [
            json!({"kind": "group", "name": "video", "number": 3}),
            json!({"kind": "member", "name": "display", "role": 0, "count": 1}),
            json!({"kind": "thread", "name": "display", "role": {"runs": true}}),
            json!({"kind": "member", "name": "stage", "role": 1, "count": 2}),
            json!({"kind": "group", "name": "coop", "number": 4}),
            json!({"kind": "member", "name": "any", "role": null, "count": 1}),
            json!({"kind": "group", "name": "unknown", "number": null}),
            json!({"kind": "member", "name": "show", "role": 0, "count": 1}),
        ];
        let found: Vec<(u32, u16, String)> = names(&rows)
            .into_iter()
            .map(|(of, label)| (of.group, of.role, label.to_string()))
            .collect();
        let expected = [
            (3, 0, "video/display"),
            (3, 1, "video/stage"),
            (3, 2, "video/stage"),
        ];
        assert_eq!(
            found,
            expected.map(|(group, role, label)| (group, role, label.to_owned()))
        );
    }
}
