// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a group file says, once it has been read and found to be right.

use std::ops::Range;

use consort_rates::rate::Rate;

use crate::{
    function::{Function, Terms},
    rule::Rule,
    variable::Variable,
    CHOICE_MAX,
};

/// A whole file: groups in the order in which they stand there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Description {
    pub name: String,
    pub groups: Vec<Group>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub name: String,
    pub parent: Option<String>,
    pub promise: Option<Promise>,
    pub function: Function,
    /// In the order that pipelines have their stages in; plans serve it outside of their intervals.
    pub members: Vec<Member>,
}

/// What a group's members may use together, as in `consort reserve`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise {
    pub class: String,
    /// Includes the promises of the groups below.
    pub rate: Rate,
    pub period_ns: u64,
}

/// A name for one thread, or for a set of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    /// Threads that may have the name at a time.
    pub count: u32,
    /// Binds threads that announce nothing.
    pub rule: Option<Rule>,
    /// What its group's function has to know of it.
    pub terms: Terms,
    /// Published by the thread; at most [`crate::variable::VARIABLES_MAX`].
    pub state: Vec<Variable>,
    /// Published by the decision function.
    pub control: Vec<Variable>,
}

impl Group {
    /// The numbers by which a decision function knows the threads of the member at `index`: each has one of its own, in the
    /// order of the file. `None`: it does not tell them apart.
    pub fn roles(&self, index: usize) -> Option<Range<u32>> {
        let counts = self.members.iter().map(|member| member.count);
        let has_roles = match self.function {
            Function::Coop(_) => false,
            Function::Fair => counts.clone().sum::<u32>() <= CHOICE_MAX as u32,
            _ => true,
        };
        let first: u32 = counts.take(index).sum();
        let last = first + self.members.get(index)?.count;
        has_roles.then_some(first..last)
    }
}

impl Description {
    pub fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// Each member with its group and its place in it.
    pub fn members(&self) -> impl Iterator<Item = (&Group, usize, &Member)> {
        self.groups.iter().flat_map(|group| {
            let members = group.members.iter().enumerate();
            members.map(move |(index, member)| (group, index, member))
        })
    }

    /// The group itself, its parent, and so on to the root.
    pub fn line_of<'a>(&'a self, group: &'a Group) -> impl Iterator<Item = &'a Group> {
        std::iter::successors(Some(group), |group| self.group(group.parent.as_deref()?))
    }

    /// The nearest group, itself included, whose promise is `group`'s.
    pub fn payer<'a>(&'a self, group: &'a Group) -> Option<&'a Group> {
        self.line_of(group).find(|group| group.promise.is_some())
    }

    /// What is left of a group's rate once the promises below it have theirs; the reservation is made for that.
    pub fn own_rate(&self, group: &Group) -> Option<Rate> {
        let promise = group.promise.as_ref()?;
        let below = self.groups.iter().filter_map(|other| {
            let parent = self.group(other.parent.as_deref()?)?;
            let payer = self.payer(parent)?;
            (payer.name == group.name).then_some(other.promise.as_ref()?.rate)
        });
        Some(promise.rate - below.sum())
    }
}
