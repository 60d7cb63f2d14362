// SPDX-License-Identifier: MIT OR Apache-2.0
//! Domains whose members cooperate without a kernel scheduler, for `consort status`.

use std::{collections::BTreeSet, fmt::Write as _, fs, path::PathBuf};

use consort_userlevel::inspect::{domains, DomainReport, MemberReport};
use serde_json::{json, Value};

/// Those of this user; for root, of all users that have a runtime directory.
pub fn status() -> Value {
    let found: Vec<Value> = directories()
        .iter()
        .flat_map(|directory| domains(directory))
        .map(|domain| describe_one(&domain))
        .collect();
    Value::Array(found)
}

fn directories() -> BTreeSet<PathBuf> {
    let of_users = ["/run/user", "/tmp"]
        .into_iter()
        .filter_map(|parent| fs::read_dir(parent).ok())
        .flat_map(|entries| entries.flatten())
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            match entry.path().parent()?.ends_with("user") {
                true => Some(entry.path().join("consort")),
                false => {
                    let user = name.strip_prefix("consort-")?;
                    let is_user = user.bytes().all(|byte| byte.is_ascii_digit());
                    is_user.then(|| entry.path())
                }
            }
        });
    // What this user may not read is not shown.
    let own = std::iter::once(consort_userlevel::Runtime::of_user().path().to_owned());
    own.chain(of_users).collect()
}

fn describe_one(domain: &DomainReport) -> Value {
    let members: Vec<Value> = domain.members.iter().map(describe_member).collect();
    let order = ["program", "progress", "service"][domain.order.min(2) as usize];
    json!({
        "name": domain.name,
        "uid": domain.user,
        "host": "user",
        "order": order,
        "event_ns": domain.event_ns,
        "handovers": domain.handovers,
        "skipped": domain.skipped,
        "readmitted": domain.readmitted,
        "died": domain.buried,
        "locks_taken_over": domain.locks_taken_over,
        "members": members,
    })
}

fn describe_member(member: &MemberReport) -> Value {
    json!({
        "pid": member.who.pid,
        "tid": member.who.tid,
        "state": if member.is_dead { "dead" } else { member.state },
        "yields": member.yields,
        "skipped": member.skips,
    })
}

/// The same for a person; nothing where there are none.
pub fn describe(domains: &Value) -> String {
    let mut out = String::new();
    let Some(domains) = domains.as_array().filter(|list| !list.is_empty()) else {
        return out;
    };
    // Writing into a String cannot fail.
    out.push_str(
        "\ndomains at user level: not policed; one that does not poll is skipped, not stopped\n",
    );
    out.push_str(
        "domain                       uid  order     members  handovers  skipped  unpolled\n",
    );
    for domain in domains {
        let members = domain["members"].as_array().map_or(&[][..], Vec::as_slice);
        let unpolled = members
            .iter()
            .filter(|member| member["state"] == "unpolled");
        let unpolled: Vec<String> = unpolled.map(|member| member["pid"].to_string()).collect();
        let _ = writeln!(
            out,
            "{:<25} {:>6}  {:<8}  {:>7}  {:>9}  {:>7}  {}",
            domain["name"].as_str().unwrap_or("?"),
            domain["uid"].to_string(),
            domain["order"].as_str().unwrap_or("?"),
            members.len(),
            domain["handovers"].to_string(),
            domain["skipped"].to_string(),
            match unpolled.is_empty() {
                true => "none".to_owned(),
                false => format!("process {}", unpolled.join(", ")),
            },
        );
    }
    out
}
