// SPDX-License-Identifier: MIT OR Apache-2.0
//! The keys of one table: each is taken once and must be of its type; what is left over is unknown.

use std::{collections::BTreeMap, fmt::Display, ops::RangeInclusive};

use consort_rates::{duration::parse_ns, rate::Rate};
use toml::{
    de::{DeTable, DeValue},
    Spanned,
};

use super::Reader;
use crate::{
    units::shown_ns,
    variable::{is_name, Value, Variable, NAME_BYTES_MAX, VARIABLES_MAX},
};

/// A table's entries in the order of the text.
pub(super) fn in_order<'t>(table: &'t DeTable<'t>) -> Vec<(&'t str, &'t Spanned<DeValue<'t>>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    let named = entries.into_iter();
    named
        .map(|(key, value)| (key.get_ref().as_ref(), value))
        .collect()
}

pub(super) struct Fields<'r, 't> {
    pub reader: &'r mut Reader,
    /// The table's whole name; empty for the file itself.
    path: String,
    left: BTreeMap<&'t str, &'t Spanned<DeValue<'t>>>,
}

impl<'r, 't> Fields<'r, 't> {
    pub fn of(reader: &'r mut Reader, path: &str, table: &'t DeTable<'t>) -> Self {
        let mut fields = Fields {
            reader,
            path: path.to_owned(),
            left: BTreeMap::new(),
        };
        for (key, value) in table {
            let whole = fields.whole(key.get_ref());
            fields.reader.place(&whole, key.span().start);
            fields.left.insert(key.get_ref().as_ref(), value);
        }
        fields
    }

    /// A key with all that it is below of.
    pub fn whole(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        }
    }

    pub fn tell(&mut self, key: &str, text: impl Into<String>) {
        let whole = self.whole(key);
        self.reader.tell(&whole, text);
    }

    pub fn has(&self, key: &str) -> bool {
        self.left.contains_key(key)
    }

    pub fn take(&mut self, key: &str) -> Option<&'t Spanned<DeValue<'t>>> {
        self.left.remove(key)
    }

    /// Takes these, whatever they are: nobody knows what they should be.
    pub fn forget(&mut self, keys: &[&str]) {
        for key in keys {
            self.take(key);
        }
    }

    /// What was not taken is unknown.
    pub fn finish(mut self, valid: &[&str]) {
        let unknown: Vec<&str> = self.left.keys().copied().collect();
        for key in unknown {
            let text = format!("unknown key: expected {}", list(valid));
            self.tell(key, text);
        }
    }

    fn value<T>(
        &mut self,
        key: &str,
        expected: &str,
        convert: impl FnOnce(&'t DeValue<'t>) -> Option<T>,
    ) -> Option<T> {
        let value = self.take(key)?.get_ref();
        let converted = convert(value);
        if converted.is_none() {
            self.tell(key, format!("is {}: expected {expected}", shown(value)));
        }
        converted
    }

    pub fn text(&mut self, key: &str) -> Option<String> {
        self.value(key, "a text in quotes", |value| match value {
            DeValue::String(text) => Some(text.to_string()),
            _ => None,
        })
    }

    /// What follows `start` in a text that begins so; any other value is left.
    pub fn text_after(&mut self, key: &str, start: &str) -> Option<String> {
        let DeValue::String(text) = self.left.get(key)?.get_ref() else {
            return None;
        };
        let rest = text.strip_prefix(start)?.to_owned();
        self.take(key);
        Some(rest)
    }

    pub fn boolean(&mut self, key: &str) -> Option<bool> {
        self.value(key, "true or false", |value| match value {
            DeValue::Boolean(value) => Some(*value),
            _ => None,
        })
    }

    pub fn integer(&mut self, key: &str, range: RangeInclusive<u32>) -> Option<u32> {
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        self.value(key, &expected, |value| {
            let value = u32::try_from(integer(value)?).ok()?;
            range.contains(&value).then_some(value)
        })
    }

    /// A duration with its unit, in nanoseconds.
    pub fn duration(&mut self, key: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let expected = format!(
            "a duration from \"{}\" to \"{}\"",
            shown_ns(*range.start()),
            shown_ns(*range.end())
        );
        self.value(key, &expected, |value| {
            let DeValue::String(text) = value else {
                return None;
            };
            let ns = parse_ns(text).ok()?;
            range.contains(&ns).then_some(ns)
        })
    }

    /// A part of one CPU: a number, or a percentage.
    pub fn rate(&mut self, key: &str) -> Option<Rate> {
        let expected = "a part of one CPU from 0.0001 to 1, such as 0.4 or \"40%\"";
        self.value(key, expected, |value| {
            let part = match value {
                DeValue::String(text) => {
                    let percent: f64 = text.strip_suffix('%')?.trim().parse().ok()?;
                    percent / 100.0
                }
                DeValue::Float(number) => number.as_str().parse().ok()?,
                value => integer(value)? as f64,
            };
            Rate::asked(part).ok()
        })
    }

    /// One of `words`, by its place among them.
    pub fn choice(&mut self, key: &str, what: &str, words: &[&str]) -> Option<usize> {
        let value = self.text(key)?;
        let found = words.iter().position(|word| *word == value);
        if found.is_none() {
            let text = format!("{value:?} is no {what}: expected {}", list(words));
            self.tell(key, text);
        }
        found
    }

    pub fn table(&mut self, key: &str, expected: &str) -> Option<&'t DeTable<'t>> {
        self.value(key, expected, |value| match value {
            DeValue::Table(table) => Some(table),
            _ => None,
        })
    }

    /// Variables in the order of the text; `None` when there is no such key.
    pub fn variables(&mut self, key: &str) -> Option<Vec<Variable>> {
        let table = self.table(
            key,
            "a table of names and first values, such as { queued = 0 }",
        )?;
        let entries = in_order(table);
        if entries.len() > VARIABLES_MAX {
            let text = format!(
                "{} variables: expected at most {VARIABLES_MAX}",
                entries.len()
            );
            self.tell(key, text);
        }
        // Each member has its own copy.
        let read = entries.into_iter().take(VARIABLES_MAX);
        Some(
            read.filter_map(|(name, value)| self.variable(key, name, value))
                .collect(),
        )
    }

    fn variable(
        &mut self,
        key: &str,
        name: &str,
        value: &'t Spanned<DeValue<'t>>,
    ) -> Option<Variable> {
        let key = format!("{key}.{name}");
        let whole = self.whole(&key);
        self.reader.place(&whole, value.span().start);
        if !is_name(name) {
            let text = format!(
                "{name:?} cannot be the name of a variable: expected 1 to {NAME_BYTES_MAX} of a-z, 0-9 and '_', \
                 a letter first: accessors are called so"
            );
            self.tell(&key, text);
        }
        let first = match value.get_ref() {
            DeValue::Boolean(value) => Some(Value::Boolean(*value)),
            DeValue::String(text) => parse_ns(text)
                .ok()
                .filter(|ns| i64::try_from(*ns).is_ok())
                .map(Value::Duration),
            value => integer(value).map(Value::Integer),
        };
        let Some(first) = first else {
            let text = format!(
                "is {}: expected its first value, which is a whole number, true or false, or a duration such as \"5ms\"",
                shown(value.get_ref())
            );
            self.tell(&key, text);
            return None;
        };
        let name = name.to_owned();
        Some(Variable { name, first })
    }
}

fn integer(value: &DeValue) -> Option<i64> {
    match value {
        DeValue::Integer(value) => i64::from_str_radix(value.as_str(), value.radix()).ok(),
        _ => None,
    }
}

/// `a, b or c`.
pub(crate) fn list(words: &[impl Display]) -> String {
    let words: Vec<String> = words.iter().map(ToString::to_string).collect();
    match words.split_last() {
        None => "nothing".to_owned(),
        Some((last, [])) => last.clone(),
        Some((last, before)) => format!("{} or {last}", before.join(", ")),
    }
}

/// A value as a message repeats it: not all of a long one.
fn shown(value: &DeValue) -> String {
    const SHOWN_CHARS: usize = 40;
    match value {
        DeValue::String(text) if text.chars().count() > SHOWN_CHARS => {
            let start: String = text.chars().take(SHOWN_CHARS).collect();
            format!("{start:?}...")
        }
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(_) => "an array".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}
