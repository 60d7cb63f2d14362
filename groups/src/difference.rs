// SPDX-License-Identifier: MIT OR Apache-2.0
//! What changes from one description to another, as steps that can be undone: applying is all of them, or none.

use std::{collections::HashMap, fmt};

use consort_rates::rate::{Rate, RATE_MIN};

use crate::{units::shown_ns, Description, Group, Member, Promise};

/// One thing that is replaced; what there was not or shall not be is `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The reservation that pays for a group, with the rate that promises below it leave.
    Promise {
        group: String,
        from: Option<Promise>,
        to: Option<Promise>,
    },
    /// A group with all its members; its threads are bound anew.
    Group {
        from: Option<Box<Placed>>,
        to: Option<Box<Placed>>,
    },
    /// What one member's terms, first values or rule are; its threads stay bound if they still fit.
    Member {
        group: String,
        index: usize,
        from: Box<Member>,
        to: Box<Member>,
    },
}

/// A group, and whose reservation pays for its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    pub group: Group,
    pub payer: Option<Payer>,
}

/// A group that has a promise; in another class it is another reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payer {
    pub group: String,
    pub class: String,
}

impl Placed {
    fn all(description: &Description) -> Vec<Placed> {
        let payer = |group: &Group| {
            let payer = description.payer(group)?;
            Some(Payer {
                group: payer.name.clone(),
                class: payer.promise.as_ref()?.class.clone(),
            })
        };
        let place = |group: &Group| Placed {
            payer: payer(group),
            group: group.clone(),
        };
        description.groups.iter().map(place).collect()
    }
}

impl Step {
    /// The step that takes this one back.
    pub fn undo(self) -> Step {
        match self {
            Step::Promise { group, from, to } => Step::Promise {
                group,
                from: to,
                to: from,
            },
            Step::Group { from, to } => Step::Group { from: to, to: from },
            Step::Member {
                group,
                index,
                from,
                to,
            } => Step::Member {
                group,
                index,
                from: to,
                to: from,
            },
        }
    }
}

/// The steps from one description to another, none if they say the same. In their order no sum of rates is ever larger
/// than the larger one of before and after, and no group is without the reservation that pays for it.
pub fn steps(from: &Description, to: &Description) -> Vec<Step> {
    let (before, after) = (Placed::all(from), Placed::all(to));
    let find = |all: &[Placed], name: &str| all.iter().position(|one| one.group.name == name);
    let mut gone = Vec::new();
    let mut come = Vec::new();
    let mut changed = Vec::new();
    for old in &before {
        match find(&after, &old.group.name).map(|at| &after[at]) {
            None => gone.push(old),
            Some(new) if !same_shape(old, new) => {
                gone.push(old);
                come.push(new);
            }
            Some(new) => changed.extend(changed_members(&old.group, &new.group)),
        }
    }
    let is_new = |one: &&Placed| find(&before, &one.group.name).is_none();
    come.extend(after.iter().filter(is_new));
    let (less, more) = promises(from, to);
    let gone = gone.into_iter().map(|one| Step::Group {
        from: Some(Box::new(one.clone())),
        to: None,
    });
    let come = come.into_iter().map(|one| Step::Group {
        from: None,
        to: Some(Box::new(one.clone())),
    });
    let steps = gone.chain(less).chain(more).chain(come).chain(changed);
    steps.collect()
}

/// Whether a group can stay as it is made: only what its members say of themselves differs.
fn same_shape(old: &Placed, new: &Placed) -> bool {
    let names = |one: &Placed| -> Vec<(String, u32)> {
        let members = one.group.members.iter();
        members
            .map(|member| (member.name.clone(), member.count))
            .collect()
    };
    old.payer == new.payer
        && old.group.parent == new.group.parent
        && old.group.function == new.group.function
        && names(old) == names(new)
}

fn changed_members<'a>(old: &'a Group, new: &'a Group) -> impl Iterator<Item = Step> + 'a {
    let both = old.members.iter().zip(&new.members).enumerate();
    both.filter(|(_, (from, to))| from != to)
        .map(|(index, (from, to))| Step::Member {
            group: new.name.clone(),
            index,
            from: Box::new(from.clone()),
            to: Box::new(to.clone()),
        })
}

/// Those that take less than before, or end, and those that take more, or begin.
fn promises(from: &Description, to: &Description) -> (Vec<Step>, Vec<Step>) {
    let (before, after) = (own_promises(from), own_promises(to));
    let of = |all: &[(String, Promise)], name: &str| {
        let found = all.iter().find(|(group, _)| group == name);
        found.map(|(_, promise)| promise.clone())
    };
    let (mut less, mut more) = (Vec::new(), Vec::new());
    let olds = before.iter().map(|(name, _)| name);
    let news = after.iter().map(|(name, _)| name);
    let news = news.filter(|name| of(&before, name).is_none());
    for name in olds.chain(news) {
        let step = |from: Option<Promise>, to: Option<Promise>| Step::Promise {
            group: name.clone(),
            from,
            to,
        };
        match (of(&before, name), of(&after, name)) {
            (old, new) if old == new => {}
            // In another class it is one that ends and one that begins; the groups that use it are replaced.
            (Some(old), Some(new)) if old.class != new.class => {
                less.push(step(Some(old), None));
                more.push(step(None, Some(new)));
            }
            (Some(old), Some(new)) if new.rate > old.rate => {
                more.push(step(Some(old), Some(new)));
            }
            (old @ Some(_), new) => less.push(step(old, new)),
            (None, new) => more.push(step(None, new)),
        }
    }
    (less, more)
}

/// What each group reserves for itself; what promises below it have all of is no reservation.
fn own_promises(description: &Description) -> Vec<(String, Promise)> {
    let own = description.groups.iter().filter_map(|group| {
        let rate = description.own_rate(group)?;
        let promise = group.promise.clone()?;
        (rate >= RATE_MIN).then(|| (group.name.clone(), Promise { rate, ..promise }))
    });
    own.collect()
}

/// Who puts steps in force.
pub trait Take {
    type Error;

    /// Does one step, or nothing.
    ///
    /// # Errors
    /// Why it cannot be done.
    fn take(&mut self, step: &Step) -> Result<(), Self::Error>;

    /// All steps are done: lets them survive.
    ///
    /// # Errors
    /// When they cannot.
    fn keep(&mut self) -> Result<(), Self::Error>;

    /// What was done is undone from here on: it was in force before.
    fn turn_back(&mut self) {}

    /// A step that undoes another one was refused.
    fn stuck(&mut self, step: &Step, error: Self::Error);
}

/// Does all of `steps`, or none: what was done is undone when one is refused, or when all cannot be kept.
///
/// # Errors
/// That of the step that was refused.
pub fn take_all<T: Take>(taker: &mut T, steps: Vec<Step>) -> Result<(), T::Error> {
    let mut done: Vec<Step> = Vec::new();
    let mut outcome = Ok(());
    for step in steps {
        outcome = taker.take(&step);
        if outcome.is_err() {
            break;
        }
        done.push(step);
    }
    let outcome = outcome.and_then(|()| taker.keep());
    if outcome.is_err() {
        taker.turn_back();
        for step in done.into_iter().rev() {
            let back = step.undo();
            if let Err(error) = taker.take(&back) {
                taker.stuck(&back, error);
            }
        }
    }
    outcome
}

/// The difference for people, a line for each thing that changes, in the order of the files: `+` comes, `-` goes, `~`
/// becomes another.
pub fn lines(from: &Description, to: &Description) -> Vec<String> {
    let mut lines = Vec::new();
    for old in &from.groups {
        match to.group(&old.name) {
            None => lines.push(format!("- group {}", old.name)),
            Some(new) => group_lines(old, new, &mut lines),
        }
    }
    let new = to.groups.iter();
    for group in new.filter(|group| from.group(&group.name).is_none()) {
        lines.push(format!("+ group {}: {}", group.name, group.function));
        for member in &group.members {
            lines.push(format!("+ member {}/{}", group.name, member.name));
        }
    }
    lines
}

fn group_lines<'a>(old: &'a Group, new: &'a Group, lines: &mut Vec<String>) {
    let name = &new.name;
    let mut tell = |what: &str, from: String, to: String| {
        if from != to {
            lines.push(format!("~ {what}: {from} -> {to}"));
        }
    };
    tell(
        &format!("group {name} function"),
        old.function.to_string(),
        new.function.to_string(),
    );
    tell(
        &format!("group {name} parent"),
        shown(&old.parent),
        shown(&new.parent),
    );
    tell(
        &format!("group {name} rate"),
        shown(&old.promise),
        shown(&new.promise),
    );
    let by_name = |group: &'a Group| -> HashMap<&'a str, &'a Member> {
        let members = group.members.iter();
        members
            .map(|member| (member.name.as_str(), member))
            .collect()
    };
    let (before, after) = (by_name(old), by_name(new));
    for member in &old.members {
        if !after.contains_key(member.name.as_str()) {
            lines.push(format!("- member {name}/{}", member.name));
        }
    }
    for member in &new.members {
        match before.get(member.name.as_str()) {
            None => lines.push(format!("+ member {name}/{}", member.name)),
            Some(before) if *before != member => {
                lines.push(format!(
                    "~ member {name}/{}: {before} -> {member}",
                    member.name
                ));
            }
            Some(_) => {}
        }
    }
    let kept = |group: &'a Group, other: &HashMap<&str, &Member>| -> Vec<&'a str> {
        let names = group.members.iter().map(|member| member.name.as_str());
        names.filter(|name| other.contains_key(name)).collect()
    };
    if kept(old, &after) != kept(new, &before) {
        let names: Vec<&str> = new
            .members
            .iter()
            .map(|member| member.name.as_str())
            .collect();
        lines.push(format!(
            "~ group {name} order of members: {}",
            names.join(", ")
        ));
    }
}

fn shown<T: fmt::Display>(value: &Option<T>) -> String {
    value.as_ref().map_or("none".to_owned(), T::to_string)
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Promise {
            class,
            rate,
            period_ns,
        } = self;
        write!(f, "{rate} of {class} in {}", shown_ns(*period_ns))
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = (self.count > 1).then(|| format!("count={}", self.count));
        let mut said: Vec<String> = count.into_iter().collect();
        said.push(self.terms.to_string());
        said.extend(self.rule.as_ref().map(ToString::to_string));
        for (kind, variables) in [("state", &self.state), ("control", &self.control)] {
            said.extend(
                variables
                    .iter()
                    .map(|variable| format!("{kind} {variable}")),
            );
        }
        said.retain(|text| !text.is_empty());
        match said.is_empty() {
            true => f.write_str("plain"),
            false => f.write_str(&said.join(" ")),
        }
    }
}

/// The sum of what a description reserves.
pub fn reserved(description: &Description) -> Rate {
    let own = own_promises(description).into_iter();
    own.map(|(_, promise)| promise.rate).sum()
}

impl Step {
    /// The group that it is about.
    pub fn group(&self) -> &str {
        match self {
            Step::Promise { group, .. } | Step::Member { group, .. } => group,
            Step::Group { from, to } => {
                let either = from.as_deref().or(to.as_deref());
                either.map_or("", |placed| &placed.group.name)
            }
        }
    }
}
