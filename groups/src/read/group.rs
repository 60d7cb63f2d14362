// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads `[group.NAME]`.

use toml::de::{DeTable, DeValue};

use super::{
    fields::Fields,
    member::{read_member, Defaults},
    Reader,
};
use crate::{
    function::{
        Coop, Function, Order, Pipeline, Stage, EVENTS_NS, FUNCTIONS, HIGH, ITEMS, ORDERS,
        PERIODS_NS, PERIOD_NS, USER,
    },
    units::shown_ns,
    Group, Member, Promise, MEMBERS_MAX,
};

/// Keys of every group.
const KEYS: [&str; 8] = [
    "function", "parent", "class", "rate", "period", "state", "control", "members",
];

pub(super) fn read_group(reader: &mut Reader, path: &str, name: &str, table: &DeTable) -> Group {
    let mut fields = Fields::of(reader, path, table);
    let known = read_function(&mut fields);
    let is_known = known.is_some();
    let function = known.unwrap_or(Function::Fair);
    let parent = fields.text("parent");
    let promise = read_promise(&mut fields);
    let stage = match function {
        Function::Pipeline(_) => Some(Stage {
            high: fields.integer("high", ITEMS).unwrap_or(HIGH),
            step: fields.integer("step", ITEMS).unwrap_or(1),
        }),
        _ => None,
    };
    let defaults = Defaults {
        is_known,
        stage,
        state: fields.variables("state").unwrap_or_default(),
        control: fields.variables("control").unwrap_or_default(),
    };
    let members = fields.take("members");
    if !is_known {
        fields.forget(&OWN_KEYS);
    }
    fields.finish(&[&KEYS[..], own_keys(&function)].concat());
    let members = match members.map(|value| value.get_ref()) {
        None => Vec::new(),
        Some(DeValue::Array(entries)) if entries.len() > MEMBERS_MAX => {
            let text = format!(
                "{} members: expected at most {MEMBERS_MAX} in a file; one name may stand for many threads, by `count`",
                entries.len()
            );
            reader.tell(&format!("{path}.members"), text);
            Vec::new()
        }
        Some(DeValue::Array(entries)) => {
            let read = entries.iter().enumerate();
            read.filter_map(|(number, entry)| {
                let path = format!("{path}.members.{number}");
                read_member(reader, &path, entry, &function, &defaults)
            })
            .collect::<Vec<Member>>()
        }
        Some(_) => {
            let text = "expected an array of names, such as [\"read\", \"show\"]";
            reader.tell(&format!("{path}.members"), text);
            Vec::new()
        }
    };
    Group {
        name: name.to_owned(),
        parent,
        promise,
        function,
        members,
    }
}

/// Keys of groups with one function or another.
const OWN_KEYS: [&str; 6] = ["event", "order", "preempt", "high", "step", "bootstrap"];

fn own_keys(function: &Function) -> &'static [&'static str] {
    match function {
        Function::Coop(_) => &["event", "order", "preempt"],
        Function::Pipeline(_) => &["high", "step", "bootstrap"],
        Function::Fair
        | Function::Period
        | Function::Plan
        | Function::Follow
        | Function::User(_) => &[],
    }
}

/// None where what the group says is no function.
fn read_function(fields: &mut Fields) -> Option<Function> {
    if let Some(name) = fields.text_after("function", USER) {
        let key = fields.whole("function");
        fields.reader.check_name(&key, &name, "a decision function");
        return Some(Function::User(name));
    }
    let chosen = match fields.has("function") {
        true => fields.choice("function", "decision function", &FUNCTIONS)?,
        false => 0,
    };
    Some(match FUNCTIONS[chosen] {
        "coop" => Function::Coop(Coop {
            event_ns: fields.duration("event", EVENTS_NS),
            order: read_order(fields),
            preempt: fields.boolean("preempt").unwrap_or(false),
        }),
        "period" => Function::Period,
        "plan" => Function::Plan,
        "pipeline" => Function::Pipeline(Pipeline {
            bootstrap: fields.integer("bootstrap", 0..=*ITEMS.end()).unwrap_or(0),
        }),
        "follow" => Function::Follow,
        _ => Function::Fair,
    })
}

fn read_order(fields: &mut Fields) -> Order {
    match fields.choice("order", "order", &ORDERS) {
        Some(1) => Order::Progress,
        Some(2) => Order::Service,
        _ => Order::Program,
    }
}

fn read_promise(fields: &mut Fields) -> Option<Promise> {
    let (has_class, has_rate, has_period) = (
        fields.has("class"),
        fields.has("rate"),
        fields.has("period"),
    );
    let class = fields.text("class");
    let rate = fields.rate("rate");
    let period_ns = fields.duration("period", PERIODS_NS);
    if !has_rate {
        for key in ["class", "period"] {
            if (key == "class" && has_class) || (key == "period" && has_period) {
                let text =
                    format!("{key} without a rate means nothing: expected rate = 0.4, or no {key}");
                fields.tell(key, text);
            }
        }
        return None;
    }
    if !has_class {
        let text =
            "a rate is reserved in a class: expected class = \"guaranteed\", or another one of \
                    `consort class list`";
        fields.tell("rate", text);
    }
    if has_period && period_ns.is_none() {
        return None;
    }
    Some(Promise {
        class: class?,
        rate: rate?,
        period_ns: period_ns.unwrap_or(PERIOD_NS),
    })
}

/// For messages about a member.
pub(super) fn period_expected() -> String {
    format!(
        "expected period = \"40ms\", from {} to {}",
        shown_ns(*PERIODS_NS.start()),
        shown_ns(*PERIODS_NS.end())
    )
}
