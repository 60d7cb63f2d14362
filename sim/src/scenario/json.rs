// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values of a scenario's JSON that know where they stand, and complain with that.
//!
//! The text is JSON as rt-app and its workgen take it: comments, commas that are missing or too many, and keys
//! that occur twice in an object, in which case both count.

use std::{cell::RefCell, ops::RangeInclusive};

use jsonc_parser::{
    ast::{Object, ObjectProp, Value},
    common::Ranged,
    CollectOptions, ParseOptions,
};

use super::{
    error::{BadScenario, Position},
    mend::{mend, Mended},
};
use crate::setup::Setup;

/// The text that is being read, and its name in messages.
pub struct Source<'a> {
    file: &'a str,
    text: &'a str,
    mended: Mended,
}

impl<'a> Source<'a> {
    pub fn new(file: &'a str, text: &'a str) -> Self {
        Self {
            file,
            text,
            mended: mend(text),
        }
    }

    /// The value that the text is.
    ///
    /// # Errors
    /// The text is no JSON, or nothing.
    pub fn value(&self) -> Result<Value<'_>, BadScenario> {
        let parsed =
            jsonc_parser::parse_to_ast(&self.mended.text, &CollectOptions::default(), &tolerance());
        match parsed {
            Ok(result) => result.value.ok_or_else(|| {
                self.complaint(0, "", "is empty: expected a JSON object with \"tasks\"")
            }),
            Err(error) => {
                let what = error.kind().to_string();
                self.fail(error.range().start, "", format!("this is no JSON: {what}"))
            }
        }
    }

    /// A setup that was written down as it is, every number of it.
    ///
    /// # Errors
    /// The text is none.
    pub fn setup(&self) -> Result<Setup, BadScenario> {
        serde_json::from_str(self.text).map_err(|error| BadScenario {
            file: self.file.to_owned(),
            position: Position {
                line: error.line(),
                column: error.column(),
            },
            field: String::new(),
            text: format!("this is no setup, as which a list of \"tasks\" is read: {error}"),
        })
    }

    fn complaint(&self, offset: usize, field: &str, text: impl Into<String>) -> BadScenario {
        BadScenario {
            file: self.file.to_owned(),
            position: Position::of(self.text, self.mended.old_offset(offset)),
            field: field.to_owned(),
            text: text.into(),
        }
    }

    fn fail<T>(&self, offset: usize, field: &str, text: String) -> Result<T, BadScenario> {
        Err(self.complaint(offset, field, text))
    }
}

/// What workgen mends in rt-app's files, and nothing else.
fn tolerance() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_missing_commas: true,
        allow_loose_object_property_names: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

/// A value, its place in the text, and its path from the root.
#[derive(Clone)]
pub struct Node<'a> {
    source: &'a Source<'a>,
    value: &'a Value<'a>,
    path: String,
}

impl<'a> Node<'a> {
    pub fn root(source: &'a Source<'a>, value: &'a Value<'a>) -> Self {
        Self {
            source,
            value,
            path: String::new(),
        }
    }

    /// `text` says what is wrong with this value, and what was expected.
    pub fn error(&self, text: impl Into<String>) -> BadScenario {
        self.source
            .complaint(self.value.range().start, &self.path, text)
    }

    fn expected(&self, what: &str) -> BadScenario {
        self.error(format!("is {}, expected {what}", self.shown()))
    }

    /// The value as a message shows it: itself, if it is short.
    pub fn shown(&self) -> String {
        const LENGTH_MAX: usize = 40;
        match self.value {
            Value::Object(_) => "an object".into(),
            Value::Array(_) => "a list".into(),
            other => {
                let range = other.range();
                let text = self
                    .source
                    .mended
                    .text
                    .get(range.start..range.end)
                    .unwrap_or_default();
                match text.char_indices().nth(LENGTH_MAX) {
                    Some((cut, _)) => format!("{}...", &text[..cut]),
                    None => text.to_owned(),
                }
            }
        }
    }

    pub fn is_object(&self) -> bool {
        matches!(self.value, Value::Object(_))
    }

    pub fn is_list(&self) -> bool {
        matches!(self.value, Value::Array(_))
    }

    pub fn is_text(&self) -> bool {
        matches!(self.value, Value::StringLit(_))
    }

    /// # Errors
    /// The value is no object.
    pub fn fields(&self) -> Result<Fields<'a>, BadScenario> {
        match self.value {
            Value::Object(object) => Ok(Fields::new(self.clone(), object)),
            _ => Err(self.expected("an object { ... }")),
        }
    }

    /// # Errors
    /// The value is no list.
    pub fn list(&self) -> Result<Vec<Node<'a>>, BadScenario> {
        let Value::Array(array) = self.value else {
            return Err(self.expected("a list [ ... ]"));
        };
        let node = |(index, value)| Node {
            source: self.source,
            value,
            path: format!("{}[{index}]", self.path),
        };
        Ok(array.elements.iter().enumerate().map(node).collect())
    }

    /// # Errors
    /// The value is no string.
    pub fn text(&self) -> Result<&'a str, BadScenario> {
        match self.value {
            Value::StringLit(text) => Ok(&text.value),
            _ => Err(self.expected("a string")),
        }
    }

    /// # Errors
    /// The value is neither true nor false.
    pub fn truth(&self) -> Result<bool, BadScenario> {
        match self.value {
            Value::BooleanLit(literal) => Ok(literal.value),
            _ => Err(self.expected("true or false")),
        }
    }

    /// # Errors
    /// The value is no whole number of the range.
    pub fn whole(&self, range: RangeInclusive<i64>) -> Result<i64, BadScenario> {
        let what = || {
            let (low, high) = range.clone().into_inner();
            match high {
                i64::MAX => self.expected(&format!("a whole number of at least {low}")),
                _ => self.expected(&format!("a whole number from {low} to {high}")),
            }
        };
        let Value::NumberLit(number) = self.value else {
            return Err(what());
        };
        let number = number.value.parse().map_err(|_| what())?;
        if range.contains(&number) {
            Ok(number)
        } else {
            Err(what())
        }
    }

    /// # Errors
    /// The value is no number of the range.
    pub fn number(&self, range: RangeInclusive<f64>) -> Result<f64, BadScenario> {
        let what = || {
            self.expected(&format!(
                "a number from {} to {}",
                range.start(),
                range.end()
            ))
        };
        let Value::NumberLit(number) = self.value else {
            return Err(what());
        };
        let number = number.value.parse().map_err(|_| what())?;
        if range.contains(&number) {
            Ok(number)
        } else {
            Err(what())
        }
    }

    /// The one of `choices` whose name the value is.
    ///
    /// # Errors
    /// It is none of them.
    pub fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T, BadScenario> {
        let found = match self.value {
            Value::StringLit(text) => choices.iter().find(|(name, _)| *name == text.value),
            _ => None,
        };
        found.map(|(_, choice)| *choice).ok_or_else(|| {
            let names: Vec<String> = choices
                .iter()
                .map(|(name, _)| format!("{name:?}"))
                .collect();
            self.expected(&names.join(" or "))
        })
    }
}

/// An object's fields, and which of them were asked for: what nobody asks for is an error.
pub struct Fields<'a> {
    node: Node<'a>,
    entries: Vec<Field<'a>>,
    known: RefCell<Vec<String>>,
}

/// One key and its value.
#[derive(Clone)]
pub struct Field<'a> {
    pub key: String,
    pub node: Node<'a>,
    key_offset: usize,
}

impl Field<'_> {
    /// `text` says what is wrong with the key.
    pub fn key_error(&self, text: impl Into<String>) -> BadScenario {
        self.node
            .source
            .complaint(self.key_offset, &self.node.path, text)
    }
}

impl<'a> Fields<'a> {
    fn new(node: Node<'a>, object: &'a Object<'a>) -> Self {
        let field = |property: &'a ObjectProp<'a>| {
            let key = property.name.as_str().to_owned();
            let path = match node.path.as_str() {
                "" => key.clone(),
                path => format!("{path}.{key}"),
            };
            Field {
                key,
                key_offset: property.name.range().start,
                node: Node {
                    source: node.source,
                    value: &property.value,
                    path,
                },
            }
        };
        Self {
            entries: object.properties.iter().map(field).collect(),
            node: node.clone(),
            known: RefCell::default(),
        }
    }

    /// The object itself.
    pub fn node(&self) -> &Node<'a> {
        &self.node
    }

    /// All fields, in the order of the text, for objects whose keys are names.
    pub fn entries(&self) -> &[Field<'a>] {
        &self.entries
    }

    /// The value of `key`, of the last one if there are several, as in any JSON.
    pub fn get(&self, key: &str) -> Option<Node<'a>> {
        self.known.borrow_mut().push(key.to_owned());
        let found = self.entries.iter().rev().find(|field| field.key == key);
        found.map(|field| field.node.clone())
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// There is none; `what` says what was expected.
    pub fn need(&self, key: &str, what: &str) -> Result<Node<'a>, BadScenario> {
        self.get(key)
            .ok_or_else(|| self.node.error(format!("has no {key:?}, expected {what}")))
    }

    /// Names keys that are allowed though nothing here depends on them.
    pub fn allow(&self, keys: &[&str]) {
        let keys = keys.iter().map(|key| (*key).to_owned());
        self.known.borrow_mut().extend(keys);
    }

    /// Those fields that nobody asked for, in the order of the text.
    pub fn rest(&self) -> Vec<Field<'a>> {
        let known = self.known.borrow();
        let unasked = |field: &&Field<'a>| !known.contains(&field.key);
        self.entries.iter().filter(unasked).cloned().collect()
    }

    /// To be called when all that is known was asked for.
    ///
    /// # Errors
    /// There are fields besides.
    pub fn finish(&self) -> Result<(), BadScenario> {
        match self.rest().first() {
            Some(field) => Err(self.unknown(field, &[])),
            None => Ok(()),
        }
    }

    /// The error for a field that is none of those asked for, nor of `also`.
    pub fn unknown(&self, field: &Field<'_>, also: &[&str]) -> BadScenario {
        let known = self.known.borrow();
        let mut keys: Vec<&str> = known
            .iter()
            .map(String::as_str)
            .chain(also.iter().copied())
            .collect();
        keys.sort_unstable();
        keys.dedup();
        match nearest(&field.key, &keys) {
            Some(near) => field.key_error(format!("is no known key, did you mean {near:?}?")),
            None => field.key_error(format!(
                "is no known key, expected one of: {}",
                keys.join(", ")
            )),
        }
    }
}

/// The name that `key` is probably a slip of.
fn nearest<'n>(key: &str, names: &[&'n str]) -> Option<&'n str> {
    const SLIPS_MAX: usize = 2;
    names
        .iter()
        .map(|name| (distance(key, name), *name))
        .filter(|(slips, name)| *slips <= SLIPS_MAX && *slips < name.len())
        .min()
        .map(|(_, name)| name)
}

/// Characters to insert, leave out or change to make one of the other (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let change = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_fields<T>(text: &str, check: impl FnOnce(&Fields<'_>) -> T) -> T {
        let source = Source::new("a.json", text);
        let value = source.value().unwrap();
        check(&Node::root(&source, &value).fields().unwrap())
    }

    #[test]
    fn positions_count_lines_and_characters_from_one() {
        let text = "ab\ncdé f\n";
        for (offset, line, column) in [(0, 1, 1), (2, 1, 3), (3, 2, 1), (8, 2, 5), (99, 3, 1)] {
            assert_eq!(
                Position::of(text, offset),
                Position { line, column },
                "{offset}"
            );
        }
    }

    #[test]
    fn what_workgen_mends_is_read() {
        with_fields(
            "/* a */ { \"run\": 1, // b\n \"run\": 2 \"sleep\": 3, }",
            |fields| {
                let keys: Vec<&str> = fields.entries().iter().map(|it| it.key.as_str()).collect();
                assert_eq!(keys, ["run", "run", "sleep"]);
                assert_eq!(fields.get("run").unwrap().whole(0..=9), Ok(2));
            },
        );
    }

    #[test]
    fn no_json_is_refused_where_it_ends_to_be_json() {
        let source = Source::new("a.json", "{\n  \"a\": }");
        let error = source.value().unwrap_err();
        assert_eq!(error.position, Position { line: 2, column: 8 }, "{error}");
        let nothing = Source::new("a.json", " // nothing\n");
        assert!(nothing.value().unwrap_err().text.contains("is empty"));
    }

    #[test]
    fn wrong_values_are_shown_with_what_was_expected() {
        with_fields("{\"a\": {\"b\": [1, \"x\", 2.5]}}", |fields| {
            let inner = fields.get("a").unwrap().fields().unwrap();
            let list = inner.get("b").unwrap().list().unwrap();
            let error = list[1].whole(0..=7).unwrap_err();
            assert_eq!(
                error.to_string(),
                "a.json:1:17: a.b[1]: is \"x\", expected a whole number from 0 to 7"
            );
            assert!(list[2].whole(0..=7).is_err(), "half a task");
            assert_eq!(list[2].number(0.0..=7.0), Ok(2.5));
            assert!(list[0].whole(2..=7).is_err());
            assert!(fields.get("a").unwrap().text().is_err());
        });
    }

    #[test]
    fn unknown_keys_are_refused_with_the_nearest_known_one() {
        with_fields("{\"durration\": 1}", |fields| {
            assert!(fields.get("duration").is_none());
            assert!(fields.get("seed").is_none());
            let error = fields.finish().unwrap_err();
            assert_eq!(
                error.to_string(),
                "a.json:1:2: durration: is no known key, did you mean \"duration\"?"
            );
        });
        with_fields("{\"frobnicate\": 1}", |fields| {
            assert!(fields.get("seed").is_none());
            let error = fields.finish().unwrap_err();
            assert!(error.text.ends_with("expected one of: seed"), "{error}");
        });
    }
}
