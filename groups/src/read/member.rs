// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads one of a group's `members`: a name, or a table with more than that.

use toml::{
    de::{DeTable, DeValue},
    Spanned,
};

use super::{fields::Fields, group::period_expected, Reader};
use crate::{
    function::{Follows, Function, Stage, Terms, INTERVALS_NS, INTERVAL_NS, ITEMS, PERIODS_NS},
    rule::{self, Rule, PATH_BYTES_MAX, THREAD_BYTES_MAX, USER_BYTES_MAX},
    variable::Variable,
    Member, MEMBERS_MAX,
};

/// Keys of every member.
const KEYS: [&str; 5] = ["name", "count", "rule", "state", "control"];

/// What a group says of each of its members.
pub(super) struct Defaults {
    /// Whether its function is known, and with that which keys its members have.
    pub is_known: bool,
    /// Of a pipeline's.
    pub stage: Option<Stage>,
    pub state: Vec<Variable>,
    pub control: Vec<Variable>,
}

pub(super) fn read_member(
    reader: &mut Reader,
    path: &str,
    entry: &Spanned<DeValue>,
    function: &Function,
    defaults: &Defaults,
) -> Option<Member> {
    reader.place(path, entry.span().start);
    let empty = DeTable::new();
    let (short, table) = match entry.get_ref() {
        DeValue::String(name) => (Some(name.to_string()), &empty),
        DeValue::Table(table) => (None, table),
        _ => {
            let text = "expected a name, or a table such as { name = \"read\" }";
            reader.tell(path, text);
            return None;
        }
    };
    let mut fields = Fields::of(reader, path, table);
    let name = short.or_else(|| named(&mut fields));
    let count = fields.integer("count", 1..=MEMBERS_MAX as u32).unwrap_or(1);
    let rule = read_rule(&mut fields);
    let terms = read_terms(&mut fields, function, defaults);
    let own = |own: Option<Vec<Variable>>, defaults: &[Variable]| {
        own.unwrap_or_else(|| defaults.to_vec())
    };
    let state = own(fields.variables("state"), &defaults.state);
    let control = own(fields.variables("control"), &defaults.control);
    check_variables(&mut fields, &state, &control);
    if !defaults.is_known {
        fields.forget(&OWN_KEYS);
    }
    fields.finish(&[&KEYS[..], own_keys(function)].concat());
    let name = name?;
    reader.check_name(path, &name, "a member");
    Some(Member {
        name,
        count,
        rule,
        terms,
        state,
        control,
    })
}

fn named(fields: &mut Fields) -> Option<String> {
    if !fields.has("name") {
        fields.tell("name", "a member without a name: expected name = \"read\"");
    }
    fields.text("name")
}

/// Keys of members under one function or another.
const OWN_KEYS: [&str; 4] = ["period", "budget", "high", "step"];

fn own_keys(function: &Function) -> &'static [&'static str] {
    match function {
        Function::Coop(_) => &[],
        Function::Fair | Function::Plan | Function::Follow => &["interval", "follows", "at_most"],
        Function::Period | Function::User(_) => {
            &["period", "budget", "interval", "follows", "at_most"]
        }
        Function::Pipeline(_) => &["high", "step", "interval", "follows", "at_most"],
    }
}

fn read_terms(fields: &mut Fields, function: &Function, defaults: &Defaults) -> Terms {
    let mut terms = Terms::default();
    if let Function::Coop(_) = function {
        return terms;
    }
    if let Function::Period = function {
        if !fields.has("period") {
            let text = format!(
                "a member of a period group has a period: {}",
                period_expected()
            );
            fields.tell("period", text);
        }
        terms.period_ns = fields.duration("period", PERIODS_NS);
        let most = terms.period_ns.unwrap_or(*PERIODS_NS.end());
        terms.budget_ns = fields.duration("budget", 1_000..=most);
    }
    if let Function::User(_) = function {
        terms.period_ns = fields.duration("period", PERIODS_NS);
        if fields.has("budget") && terms.period_ns.is_none() {
            let text = format!("a budget is of a period: {}", period_expected());
            fields.tell("budget", text);
        }
        let most = terms.period_ns.unwrap_or(*PERIODS_NS.end());
        terms.budget_ns = fields.duration("budget", 1_000..=most);
    }
    terms.follows = read_follows(fields);
    terms.interval_ns = fields.duration("interval", INTERVALS_NS);
    if *function == Function::Plan && terms.follows.is_none() {
        terms.interval_ns = terms.interval_ns.or(Some(INTERVAL_NS));
    }
    // A server has its own time, and no place among the stages.
    if let Some(stage) = defaults.stage.filter(|_| terms.follows.is_none()) {
        terms.stage = Some(Stage {
            high: fields.integer("high", ITEMS).unwrap_or(stage.high),
            step: fields.integer("step", ITEMS).unwrap_or(stage.step),
        });
    }
    terms
}

fn read_follows(fields: &mut Fields) -> Option<Follows> {
    if fields.has("at_most") && !fields.has("follows") {
        let text = "at_most without whom it follows means nothing: expected follows = \"show\", or no at_most";
        fields.tell("at_most", text);
    }
    let at_most_ns = fields.duration("at_most", INTERVALS_NS);
    Some(Follows {
        whom: fields.text("follows")?,
        at_most_ns: at_most_ns.unwrap_or(INTERVAL_NS),
    })
}

/// Generated accessors of both are in one namespace.
fn check_variables(fields: &mut Fields, state: &[Variable], control: &[Variable]) {
    let both = control
        .iter()
        .find(|variable| state.iter().any(|other| other.name == variable.name));
    if let Some(variable) = both {
        let text = format!(
            "{} is a state variable, too: expected another name",
            variable.name
        );
        fields.tell("control", text);
    }
}

fn read_rule(fields: &mut Fields) -> Option<Rule> {
    let expected = "a table such as { executable = \"/usr/bin/player\", thread = \"show\" }";
    let table = fields.table("rule", expected)?;
    let path = fields.whole("rule");
    let mut rules = Fields::of(fields.reader, &path, table);
    let rule = Rule {
        executable: rules.text("executable"),
        thread: rules.text("thread"),
        cgroup: rules.text("cgroup"),
        user: rules.text("user"),
        parent: rules.text("parent"),
    };
    check_rule(&mut rules, &rule);
    rules.finish(&rule::KEYS);
    if rule.is_empty() {
        let text = format!(
            "a rule that says nothing fits every thread: expected at least one of {}",
            super::fields::list(&rule::KEYS)
        );
        fields.tell("rule", text);
    }
    Some(rule)
}

fn check_rule(rules: &mut Fields, rule: &Rule) {
    for (key, text, max) in [
        ("executable", &rule.executable, PATH_BYTES_MAX),
        ("cgroup", &rule.cgroup, PATH_BYTES_MAX),
        ("user", &rule.user, USER_BYTES_MAX),
    ] {
        if let Some(text) = text.as_deref().filter(|text| text.len() > max) {
            let text = format!("has {} bytes: expected at most {max}", text.len());
            return rules.tell(key, text);
        }
    }
    if let Some(path) = rule
        .executable
        .as_deref()
        .filter(|path| !path.starts_with('/'))
    {
        let text = format!("{path:?} is no whole path: expected one such as \"/usr/bin/player\"");
        rules.tell("executable", text);
    }
    for (key, name) in [("thread", &rule.thread), ("parent", &rule.parent)] {
        if let Some(name) = name.as_deref().filter(|name| name.len() > THREAD_BYTES_MAX) {
            let start = name.chars().take(THREAD_BYTES_MAX).collect::<String>();
            let text = format!(
                "{name:?} is longer than the {THREAD_BYTES_MAX} bytes that the kernel keeps of a name: \
                 expected what `ps -eL -o comm` shows, such as {start:?}"
            );
            rules.tell(key, text);
        }
    }
    let is_plain = |path: &str| {
        let path = path.trim_matches('/');
        !path.is_empty() && path.split('/').all(|part| !["", ".", ".."].contains(&part))
    };
    if let Some(path) = rule.cgroup.as_deref().filter(|path| !is_plain(path)) {
        let text = format!(
            "{path:?} is no cgroup's folder: expected one below the hierarchy's root, such as \"user.slice\""
        );
        rules.tell("cgroup", text);
    }
}
