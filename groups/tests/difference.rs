// SPDX-License-Identifier: MIT OR Apache-2.0
//! From any description to any other, whatever is refused on the way: all of it, or nothing.

use std::collections::BTreeMap;

use consort_groups::{
    difference::{lines, reserved, steps, take_all, Placed, Step, Take},
    read, Description, Promise,
};
use consort_rates::rate::Rate;
use proptest::prelude::*;

/// A group of a file that is right by the way it is made.
#[derive(Debug, Clone)]
struct Made {
    function: usize,
    parent: Option<usize>,
    rate: Option<u32>,
    members: Vec<(u8, u32)>,
}

fn made() -> impl Strategy<Value = Made> {
    let member = (0u8..6, 1u32..4);
    (
        0usize..4,
        proptest::option::of(0usize..4),
        proptest::option::of(1u32..20),
        prop::collection::vec(member, 1..4),
    )
        .prop_map(|(function, parent, rate, members)| Made {
            function,
            parent,
            rate,
            members,
        })
}

/// The groups with these numbers; a group is below none, or below one before it that can have others.
fn text(groups: &[Option<Made>]) -> String {
    let mut text = String::new();
    for (number, made) in groups.iter().enumerate() {
        let Some(made) = made else { continue };
        let function = ["fair", "plan", "coop", "fair"][made.function];
        text += &format!("[group.g{number}]\nfunction = \"{function}\"\n");
        let can_be_above = |parent: &usize| {
            let parent = groups.get(*parent).and_then(Option::as_ref);
            parent.is_some_and(|parent| parent.function % 3 == 0)
        };
        if let Some(parent) = made
            .parent
            .filter(|parent| *parent < number)
            .filter(can_be_above)
        {
            text += &format!("parent = \"g{parent}\"\n");
        }
        if let Some(rate) = made.rate {
            // Those above have more than all of those below.
            let rate = f64::from(rate) / 20.0 / 10f64.powi(number as i32 / 2);
            let class =
                ["guaranteed", "adaptive"][usize::from(made.members[0].0 == 0 && number == 0)];
            text += &format!("class = \"{class}\"\nrate = {rate:.6}\n");
        }
        let mut names: Vec<(u8, u32)> = made.members.clone();
        names.dedup_by_key(|member| member.0);
        let members = names.iter().enumerate().map(|(place, (name, count))| {
            let count = if function == "plan" { 1 } else { *count };
            format!("{{ name = \"m{number}-{place}-{name}\", count = {count} }}")
        });
        let members: Vec<String> = members.collect();
        text += &format!("members = [{}]\n", members.join(", "));
    }
    text
}

fn description() -> impl Strategy<Value = Description> {
    let groups = prop::collection::vec(proptest::option::weighted(0.8, made()), 1..6);
    groups.prop_filter_map("not every rate is above those below it", |groups| {
        read("f", "f", &text(&groups)).ok()
    })
}

/// What a daemon has in force.
#[derive(Debug, Clone, PartialEq, Default)]
struct InForce {
    promises: BTreeMap<String, Promise>,
    groups: BTreeMap<String, Placed>,
}

impl InForce {
    fn of(description: &Description) -> InForce {
        let mut all = InForce::default();
        for step in steps(&Description::default(), description) {
            all.take(&step);
        }
        all
    }

    fn take(&mut self, step: &Step) {
        match step.clone() {
            Step::Promise { group, from, to } => {
                assert_eq!(self.promises.remove(&group), from);
                if let (Some(from), Some(to)) = (&from, &to) {
                    assert_eq!(from.class, to.class, "a reservation stays in its class");
                }
                self.promises.extend(to.map(|to| (group, to)));
            }
            Step::Group { from, to } => {
                if let Some(from) = from {
                    assert_eq!(self.groups.remove(&from.group.name), Some(*from));
                }
                if let Some(to) = to {
                    let before = self.groups.insert(to.group.name.clone(), *to);
                    assert_eq!(before, None);
                }
            }
            Step::Member {
                group,
                index,
                from,
                to,
            } => {
                let member = &mut self.groups.get_mut(&group).unwrap().group.members[index];
                assert_eq!(*member, *from);
                *member = *to;
            }
        }
        self.check();
    }

    /// Every group whose members use a reservation has it.
    fn check(&self) {
        for placed in self
            .groups
            .values()
            .filter(|placed| !placed.group.members.is_empty())
        {
            if let Some(payer) = &placed.payer {
                let promise = &self.promises[&payer.group];
                assert_eq!(promise.class, payer.class);
            }
        }
    }

    fn sum(&self) -> Rate {
        self.promises.values().map(|promise| promise.rate).sum()
    }
}

/// Refuses the step of that number; keeping is the last one.
struct Taker {
    now: InForce,
    most: Rate,
    left: usize,
}

impl Taker {
    fn refuses(&mut self) -> Result<(), &'static str> {
        let is_due = self.left == 0;
        self.left = self.left.wrapping_sub(1);
        match is_due {
            true => Err("refused"),
            false => Ok(()),
        }
    }
}

impl Take for Taker {
    type Error = &'static str;

    fn take(&mut self, step: &Step) -> Result<(), &'static str> {
        self.refuses()?;
        self.now.take(step);
        assert!(self.now.sum() <= self.most);
        Ok(())
    }

    fn keep(&mut self) -> Result<(), &'static str> {
        self.refuses()
    }

    fn stuck(&mut self, step: &Step, error: &'static str) {
        panic!("{step:?}: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn all_of_it_or_nothing(from in description(), to in description(), refused in 0usize..24) {
        let all = steps(&from, &to);
        let before = InForce::of(&from);
        let mut taker = Taker {
            now: before.clone(),
            most: reserved(&from).max(reserved(&to)),
            left: refused,
        };
        let done = take_all(&mut taker, all.clone());
        let now = taker.now;
        let expected = match done {
            Ok(()) => InForce::of(&to),
            Err(_) => before,
        };
        prop_assert_eq!(done.is_err(), refused <= all.len());
        // What a parent promises for itself may differ where only its children's do: promises are compared as they are.
        let strip = |mut all: InForce| {
            for placed in all.groups.values_mut() {
                placed.group.promise = None;
            }
            all
        };
        prop_assert_eq!(strip(now), strip(expected));
    }

    /// A second apply does nothing; and what differs is done and told, nothing else.
    #[test]
    fn only_what_differs(from in description(), to in description()) {
        prop_assert_eq!(steps(&from, &from), vec![]);
        prop_assert_eq!(lines(&from, &from), Vec::<String>::new());
        let told = lines(&from, &to);
        prop_assert_eq!(told.is_empty(), from == to || same_but_for_order(&from, &to), "{:?}", told);
        let same = |name: &str| from.group(name).is_some() && from.group(name) == to.group(name)
            && from.group(name).map(|group| payers(&from, group)) == to.group(name).map(|group| payers(&to, group))
            && from.own_rate(from.group(name).unwrap()) == to.own_rate(to.group(name).unwrap());
        for step in steps(&from, &to) {
            prop_assert!(!same(step.group()), "{:?}", step);
        }
    }
}

fn payers(of: &Description, group: &consort_groups::Group) -> Option<(String, String)> {
    let payer = of.payer(group)?;
    Some((payer.name.clone(), payer.promise.as_ref()?.class.clone()))
}

/// The order of groups means nothing.
fn same_but_for_order(one: &Description, other: &Description) -> bool {
    let all = |from: &Description, to: &Description| {
        from.groups
            .iter()
            .all(|group| to.group(&group.name) == Some(group))
    };
    all(one, other) && all(other, one)
}

fn read_text(text: &str) -> Description {
    read("f", "f", text).unwrap()
}

#[test]
fn the_difference_is_told() {
    let before = read_text(
        "[group.a]\nclass = \"guaranteed\"\nrate = 0.3\nmembers = [\"x\", \"y\", \"z\"]\n[group.b]\nmembers = [\"w\"]",
    );
    let after = read_text(
        "[group.a]\nclass = \"guaranteed\"\nrate = 0.4\nmembers = [{ name = \"y\", count = 7 }, \"x\"]\n\
         [group.c]\nfunction = \"follow\"\nmembers = [\"w\", { name = \"s\", follows = \"w\" }]",
    );
    assert_eq!(
        lines(&before, &after),
        [
            "~ group a rate: 0.3 of guaranteed in 30ms -> 0.4 of guaranteed in 30ms",
            "- member a/z",
            "~ member a/y: plain -> count=7",
            "~ group a order of members: y, x",
            "- group b",
            "+ group c: follow",
            "+ member c/w",
            "+ member c/s",
        ]
    );
}

#[test]
fn a_rate_alone_leaves_the_threads_where_they_are() {
    let at = |rate: f64| {
        read_text(&format!(
            "[group.a]\nclass = \"guaranteed\"\nrate = {rate}\nmembers = [\"x\"]"
        ))
    };
    let all = steps(&at(0.3), &at(0.4));
    assert!(matches!(&all[..], [Step::Promise { .. }]), "{all:?}");
}
