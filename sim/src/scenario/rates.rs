// SPDX-License-Identifier: MIT OR Apache-2.0
//! Classes and reserved rates, in the words of `consort class`, `consort run` and `consort lend`.

use super::{
    error::BadScenario,
    json::{Fields, Node},
    steps::Context,
    times::time_ns,
};
use crate::rates::{RateRequest, Rates, Reserve};
use crate::setup::{Cpu, TaskIndex};
use consort_rates::{
    admission::{PERIOD_MAX_NS, PERIOD_MIN_NS},
    classes::{Class, Classes, Order, Overbooking},
    rate::{Rate, MILLION, RATE_MIN},
};

/// Of who says none.
const PERIOD_DEFAULT_NS: u64 = 100_000_000;
const ORDERS: [(&str, Order); 3] = [
    ("period", Order::Period),
    ("frc", Order::Frc),
    ("rc", Order::Rc),
];
const RATE: &str = "a part of one CPU, such as 0.3";

/// What is known of rates while a scenario is read.
#[derive(Debug)]
pub struct Books {
    classes: Classes,
    reserved: Vec<(TaskIndex, Reserve)>,
    /// Whether the scenario says anything of rates at all.
    used: bool,
}

impl Books {
    /// The daemon's own division of so many CPUs, or the scenario's.
    pub fn new(cpus: Cpu, classes: Option<&Fields<'_>>) -> Result<Self, BadScenario> {
        Ok(Self {
            classes: match classes {
                Some(fields) => read_classes(cpus, fields)?,
                None => Classes::by_default(cpus),
            },
            reserved: Vec::new(),
            used: classes.is_some(),
        })
    }

    pub fn finish(self) -> Option<Rates> {
        self.used.then_some(Rates {
            classes: self.classes,
            reserved: self.reserved,
        })
    }

    /// A reservation that is in force when the task begins.
    pub fn reserve_first(&mut self, task: TaskIndex, node: &Node<'_>) -> Result<(), BadScenario> {
        let wanted = self.wanted(node)?;
        self.reserved.push((task, wanted));
        Ok(())
    }

    /// `{"class": "guaranteed", "rate": 0.3, "period": "33ms"}`.
    pub fn wanted(&mut self, node: &Node<'_>) -> Result<Reserve, BadScenario> {
        self.used = true;
        let fields = node.fields()?;
        let class = fields.need("class", "the name of a class")?;
        let number = self.classes.find(class.text()?);
        let reserve = Reserve {
            class: number.map_err(|refusal| class.error(refusal.text))?,
            rate: rate(&fields.need("rate", RATE)?)?,
            period_ns: match fields.get("period") {
                Some(node) => period_ns(&node)?,
                None => PERIOD_DEFAULT_NS,
            },
        };
        fields.finish()?;
        Ok(reserve)
    }
}

fn period_ns(node: &Node<'_>) -> Result<u64, BadScenario> {
    let ns = time_ns(node)?;
    if (PERIOD_MIN_NS..=PERIOD_MAX_NS).contains(&ns) {
        return Ok(ns);
    }
    Err(node.error(format!("is {}, expected 1ms to 10s", node.shown())))
}

/// Millionths of one CPU.
fn rate(node: &Node<'_>) -> Result<u64, BadScenario> {
    let value = node.number(RATE_MIN.value()..=Rate::ONE.value())?;
    Ok(Rate::of(value).unwrap_or_default().0)
}

/// `"classes"`: names with their capacity and overbooking.
fn read_classes(cpus: Cpu, fields: &Fields<'_>) -> Result<Classes, BadScenario> {
    let mut classes = Classes::none(cpus);
    for field in fields.entries() {
        let inner = field.node.fields()?;
        let node = inner.need(
            "capacity",
            "a number of CPUs, or a part of the machine such as \"50%\"",
        )?;
        let class = Class {
            name: field.key.clone(),
            capacity: capacity(&node, cpus)?,
            overbooking: match inner.get("overbooking") {
                Some(node) => overbooking(&node)?,
                None => Overbooking::Part(0),
            },
            order: match inner.get("order") {
                Some(node) => node.choice(&ORDERS)?,
                None => Order::default(),
            },
        };
        inner.finish()?;
        classes = classes
            .with(class)
            .map_err(|refusal| field.key_error(refusal.text))?;
    }
    Ok(classes)
}

/// Millionths of one CPU.
fn capacity(node: &Node<'_>, cpus: Cpu) -> Result<u64, BadScenario> {
    let value = match node.is_text() {
        false => node.number(0.0..=f64::from(cpus))?,
        true => {
            let percent = node
                .text()?
                .strip_suffix('%')
                .and_then(|it| it.parse::<f64>().ok());
            let part = percent.filter(|percent| (0.0..=100.0).contains(percent));
            part.ok_or_else(|| {
                node.error(format!(
                    "is {}, expected a number of CPUs, or a part such as \"50%\"",
                    node.shown()
                ))
            })? / 100.0
                * f64::from(cpus)
        }
    };
    Ok(Rate::of(value).unwrap_or_default().0)
}

fn overbooking(node: &Node<'_>) -> Result<Overbooking, BadScenario> {
    if node.is_text() {
        return node.choice(&[("unlimited", Overbooking::Unlimited)]);
    }
    let part = node.number(0.0..=1000.0)?;
    Ok(Overbooking::Part((part * MILLION as f64).round() as u64))
}

/// The event `reserve`.
pub fn reserve(node: &Node<'_>, context: &mut Context<'_>) -> Result<RateRequest, BadScenario> {
    context.rates.wanted(node).map(RateRequest::Reserve)
}

/// The event `release`.
pub fn release(context: &mut Context<'_>) -> RateRequest {
    context.rates.used = true;
    RateRequest::Release
}

/// The event `lend`: `{"to": "server", "rate": 0.2}`.
pub fn lend(node: &Node<'_>, context: &mut Context<'_>) -> Result<RateRequest, BadScenario> {
    let fields = node.fields()?;
    let request = RateRequest::Lend {
        to: context
            .directory
            .first(&fields.need("to", "the name of a task")?)?,
        rate: rate(&fields.need("rate", RATE)?)?,
    };
    fields.finish()?;
    Ok(request)
}

/// The event `recollect`: a task's name for all of it, or `{"from": "server", "rate": 0.1}`.
pub fn recollect(node: &Node<'_>, context: &mut Context<'_>) -> Result<RateRequest, BadScenario> {
    if node.is_text() {
        let from = context.directory.first(node)?;
        return Ok(RateRequest::Recollect { from, rate: None });
    }
    let fields = node.fields()?;
    let request = RateRequest::Recollect {
        from: context
            .directory
            .first(&fields.need("from", "the name of a task")?)?,
        rate: fields.get("rate").map(|node| rate(&node)).transpose()?,
    };
    fields.finish()?;
    Ok(request)
}
