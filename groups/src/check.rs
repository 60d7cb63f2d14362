// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is right only if several parts of a file agree: names, parents, sums of rates, sizes.

use std::collections::HashMap;

use consort_rates::rate::{Rate, RATE_MIN};

use crate::{
    function::Function, read::Reader, Description, Group, CHOICE_MAX, DEPTH_MAX, GROUPS_MAX,
    MEMBERS_MAX,
};

pub(crate) fn check(description: &Description, reader: &mut Reader) {
    if !check_sizes(description, reader) {
        // To compare all with all takes too long.
        return;
    }
    check_member_names(description, reader);
    if !check_parents(description, reader) {
        // Sums along a circle mean nothing.
        return;
    }
    for group in &description.groups {
        check_content(description, group, reader);
        check_rates(description, group, reader);
    }
}

fn key(group: &Group, key: &str) -> String {
    format!("group.{}.{key}", group.name)
}

fn check_sizes(description: &Description, reader: &mut Reader) -> bool {
    let groups = description.groups.len();
    if groups > GROUPS_MAX {
        let text = format!("{groups} groups: expected at most {GROUPS_MAX} in a file");
        reader.tell("group", text);
    }
    let threads: u64 = description
        .members()
        .map(|(_, _, member)| u64::from(member.count))
        .sum();
    if threads > MEMBERS_MAX as u64 {
        let text = format!(
            "the members stand for {threads} threads: expected at most {MEMBERS_MAX} in a file"
        );
        reader.tell("group", text);
    }
    groups <= GROUPS_MAX && threads <= MEMBERS_MAX as u64
}

fn check_member_names(description: &Description, reader: &mut Reader) {
    let mut first: HashMap<&str, &str> = HashMap::new();
    for (group, index, member) in description.members() {
        if let Some(other) = first.insert(&member.name, &group.name) {
            let text = format!(
                "{:?} is a member of group {other} already: a name is one member's; `count` lets it stand for many threads",
                member.name
            );
            reader.tell(&key(group, &format!("members.{index}")), text);
        }
    }
}

/// True when every group has a way up to a root.
fn check_parents(description: &Description, reader: &mut Reader) -> bool {
    let by_name: HashMap<&str, &Group> = description
        .groups
        .iter()
        .map(|group| (group.name.as_str(), group))
        .collect();
    let mut all_end = true;
    for group in &description.groups {
        let Some(name) = &group.parent else {
            continue;
        };
        let Some(parent) = by_name.get(name.as_str()) else {
            let text =
                format!("there is no group {name:?}: expected the name of a group of this file");
            reader.tell(&key(group, "parent"), text);
            continue;
        };
        if parent.function != Function::Fair {
            let text = format!(
                "{name} is a {} group: expected one whose function is fair; only these have groups below them",
                parent.function.name()
            );
            reader.tell(&key(group, "parent"), text);
        }
        let up = |group: &&Group| by_name.get(group.parent.as_deref()?).copied();
        let above = std::iter::successors(up(&group), up).take(DEPTH_MAX);
        let above: Vec<&str> = above.map(|group| group.name.as_str()).collect();
        if let Some(end) = above.iter().position(|name| *name == group.name) {
            all_end = false;
            let circle = above[..=end].join(", then ");
            let text = format!("{} is below itself: its parent is {circle}", group.name);
            reader.tell(&key(group, "parent"), text);
        } else if above.len() == DEPTH_MAX {
            all_end = false;
            let text = format!(
                "{} has {DEPTH_MAX} groups above it or more: expected fewer, and no circle",
                group.name
            );
            reader.tell(&key(group, "parent"), text);
        }
    }
    all_end
}

fn check_content(description: &Description, group: &Group, reader: &mut Reader) {
    let name = &group.name;
    let is_parent = description
        .groups
        .iter()
        .any(|other| other.parent.as_ref() == Some(name));
    if group.members.is_empty() && !is_parent {
        reader.tell(
            &key(group, "members"),
            "the group has no members, and no group is below it: expected members = [\"read\", \"show\"]",
        );
    }
    let threads: u64 = group
        .members
        .iter()
        .map(|member| u64::from(member.count))
        .sum();
    if group.function.looks_at_each() && threads > CHOICE_MAX as u64 {
        let text = format!(
            "the members of a {} group stand for {threads} threads: expected at most {CHOICE_MAX}, since each choice looks at each; \
             divide it, or take fair or coop",
            group.function.name()
        );
        reader.tell(&key(group, "members"), text);
    }
    check_sets(group, threads, reader);
    check_follows(group, reader);
    if let Function::Pipeline(pipeline) = group.function {
        check_pipeline(group, pipeline.bootstrap, reader);
    }
}

/// Where a function has to know a member, its name stands for one thread.
fn check_sets(group: &Group, threads: u64, reader: &mut Reader) {
    for (index, member) in group.members.iter().enumerate() {
        let is_known = member.terms.follows.is_some() || member.terms.interval_ns.is_some();
        if member.count > 1 && (is_known || !group.function.has_sets()) {
            let text = format!(
                "{} stands for {} threads: expected one, since it is to run at a time or place of its own; a name for each",
                member.name, member.count
            );
            reader.tell(&key(group, &format!("members.{index}.count")), text);
        } else if is_known && threads > CHOICE_MAX as u64 {
            let text = format!(
                "{} is to run at a time of its own, and its group has {threads} threads: expected at most {CHOICE_MAX} then",
                member.name
            );
            reader.tell(&key(group, &format!("members.{index}")), text);
        }
    }
}

fn check_follows(group: &Group, reader: &mut Reader) {
    let mut servers = 0;
    for (index, member) in group.members.iter().enumerate() {
        let Some(follows) = &member.terms.follows else {
            continue;
        };
        servers += 1;
        let client = group
            .members
            .iter()
            .find(|other| other.name == follows.whom);
        if client.is_none_or(|client| client.name == member.name || client.count > 1) {
            let text = format!(
                "{:?} is nobody whom {} can follow: expected another member of this group, that stands for one thread",
                follows.whom, member.name
            );
            reader.tell(&key(group, &format!("members.{index}.follows")), text);
        }
    }
    if group.function == Function::Follow && servers == 0 && !group.members.is_empty() {
        let text = "nobody follows anybody in this group: expected follows = \"show\" at a member, the name of another one";
        reader.tell(&key(group, "members"), text);
    }
}

fn check_pipeline(group: &Group, bootstrap: u32, reader: &mut Reader) {
    let members = group.members.iter().enumerate();
    let stages: Vec<_> = members
        .filter_map(|(index, member)| Some((index, member, member.terms.stage?)))
        .collect();
    // The last stage has no output queue.
    let Some((_, queues)) = stages.split_last().filter(|(_, queues)| !queues.is_empty()) else {
        reader.tell(
            &key(group, "members"),
            "a pipeline of one stage has no queue: expected at least two members, in the order of the stages",
        );
        return;
    };
    for (index, member, stage) in queues {
        if stage.step > stage.high {
            let text = format!(
                "{} items cannot be drained of a queue that is filled to {}: expected at most {}",
                stage.step, stage.high, stage.high
            );
            reader.tell(&key(group, &format!("members.{index}.step")), text);
        }
        if member.state.is_empty() {
            let text = format!(
                "{} publishes nothing: expected state = {{ queued = 0 }}, of the group or of the member; its first variable is \
                 how many items wait in its output queue",
                member.name
            );
            reader.tell(&key(group, &format!("members.{index}.state")), text);
        }
    }
    let high = queues.last().map_or(0, |(_, _, stage)| stage.high);
    if bootstrap > high {
        let text = format!(
            "{bootstrap} items never wait for the last stage, whose queue is filled to {high}: expected at most {high}"
        );
        reader.tell(&key(group, "bootstrap"), text);
    }
}

fn check_rates(description: &Description, group: &Group, reader: &mut Reader) {
    let Some(promise) = &group.promise else {
        return;
    };
    let above = description.line_of(group).nth(1);
    let payer = above.and_then(|parent| description.payer(parent));
    if let Some(theirs) = payer.and_then(|payer| payer.promise.as_ref()) {
        if theirs.class != promise.class {
            let text = format!(
                "{:?} is not the class of the group above, which has promised its rate in {:?}: expected that one",
                promise.class, theirs.class
            );
            reader.tell(&key(group, "class"), text);
        }
    }
    let below: Rate = description
        .groups
        .iter()
        .filter(|other| pays_for(description, group, other))
        .filter_map(|other| Some(other.promise.as_ref()?.rate))
        .sum();
    if below > promise.rate {
        let text = format!(
            "is {}, and the groups below it have {below} in sum: expected at least that",
            promise.rate
        );
        reader.tell(&key(group, "rate"), text);
        return;
    }
    let rest = promise.rate - below;
    if rest < RATE_MIN && has_others(description, group) {
        let text = format!(
            "is {}, of which the groups below it have {below}: expected at least {RATE_MIN} more, for the members that share \
             the rest",
            promise.rate
        );
        reader.tell(&key(group, "rate"), text);
    }
}

/// Whether `other`'s promise is a part of `group`'s.
fn pays_for(description: &Description, group: &Group, other: &Group) -> bool {
    let parent = other
        .parent
        .as_deref()
        .and_then(|name| description.group(name));
    let payer = parent.and_then(|parent| description.payer(parent));
    payer.is_some_and(|payer| payer.name == group.name)
}

/// Whether members use the group's own reservation: its own, or those of groups without a promise of theirs.
fn has_others(description: &Description, group: &Group) -> bool {
    let users = description.groups.iter().filter(|other| {
        let payer = description.payer(other);
        payer.is_some_and(|payer| payer.name == group.name)
    });
    users.into_iter().any(|group| !group.members.is_empty())
}
