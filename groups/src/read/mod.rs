// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a group file. All that is wrong is said at once, each with its line.

mod fields;
mod group;
mod member;

use std::collections::HashMap;

use toml::de::{DeTable, DeValue};

use self::{fields::Fields, group::read_group};
use crate::{check::check, Description, Group, Problem, Problems, FILE_BYTES_MAX, NAME_BYTES_MAX};

/// Reads `text`. `file` is what the file is called in messages; `name` is the description's, unless the text says one.
///
/// # Errors
/// All that is wrong with it.
pub fn read(file: &str, name: &str, text: &str) -> Result<Description, Problems> {
    let problems = |list| Problems {
        file: file.to_owned(),
        list,
    };
    if text.len() > FILE_BYTES_MAX {
        let text = format!(
            "the file has {} bytes: expected at most {FILE_BYTES_MAX}; divide it into several",
            text.len()
        );
        return Err(problems(vec![Problem {
            line: 1,
            key: String::new(),
            text,
        }]));
    }
    let mut reader = Reader::new(text);
    let parsed = match DeTable::parse(text) {
        Ok(parsed) => parsed,
        Err(error) => {
            reader.tell_of_syntax(&error);
            return Err(problems(reader.problems));
        }
    };
    let description = reader.description(name, parsed.get_ref());
    // Where parts are missing, what is right between the others would mislead.
    if reader.problems.is_empty() {
        check(&description, &mut reader);
    }
    match reader.problems.is_empty() {
        true => Ok(description),
        false => {
            reader.problems.sort_by_key(|problem| problem.line);
            Err(problems(reader.problems))
        }
    }
}

/// Where things are in the text, and what is wrong with them.
pub(crate) struct Reader {
    /// Where each line begins.
    lines: Vec<usize>,
    /// The line of each key that was found, by its whole name.
    places: HashMap<String, usize>,
    problems: Vec<Problem>,
}

impl Reader {
    fn new(text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Reader {
            lines: std::iter::once(0)
                .chain(ends.map(|(at, _)| at + 1))
                .collect(),
            places: HashMap::new(),
            problems: Vec::new(),
        }
    }

    fn line_at(&self, byte: usize) -> usize {
        self.lines.partition_point(|start| *start <= byte)
    }

    fn tell_of_syntax(&mut self, error: &toml::de::Error) {
        let at = error.span().map_or(0, |span| span.start);
        self.problems.push(Problem {
            line: self.line_at(at),
            key: String::new(),
            text: format!("this is not TOML: {}", error.message().replace('\n', ", ")),
        });
    }

    /// Notes that `key` is wrong; its line is that of the key itself, or of what it should be in.
    pub(crate) fn tell(&mut self, key: &str, text: impl Into<String>) {
        let parents = std::iter::successors(Some(key), |key| Some(key.rsplit_once('.')?.0));
        let line = parents.into_iter().find_map(|key| self.places.get(key));
        self.problems.push(Problem {
            line: line.copied().unwrap_or(1),
            key: key.to_owned(),
            text: text.into(),
        });
    }

    fn description(&mut self, name: &str, table: &DeTable) -> Description {
        let mut fields = Fields::of(self, "", table);
        let given = fields.text("name");
        let groups = fields.take("group");
        fields.finish(&["name", "group"]);
        let name = given.unwrap_or_else(|| name.to_owned());
        self.check_name("name", &name, "a group file");
        let groups = match groups.map(|value| value.get_ref()) {
            Some(DeValue::Table(table)) if !table.is_empty() => self.groups(table),
            Some(DeValue::Table(_)) => {
                self.tell("group", "the file has no group: expected [group.NAME]");
                Vec::new()
            }
            Some(_) => {
                self.tell("group", "expected tables: [group.NAME]");
                Vec::new()
            }
            None => {
                self.tell("", "the file has no group: expected [group.NAME]");
                Vec::new()
            }
        };
        Description { name, groups }
    }

    fn groups(&mut self, table: &DeTable) -> Vec<Group> {
        let found = fields::in_order(table);
        let mut groups = Vec::with_capacity(found.len());
        for (name, value) in found {
            let key = format!("group.{name}");
            self.place(&key, value.span().start);
            self.check_name(&key, name, "a group");
            // All that is in the group is called after it.
            if name.len() > NAME_BYTES_MAX {
                continue;
            }
            match value.get_ref() {
                DeValue::Table(table) => groups.push(read_group(self, &key, name, table)),
                _ => self.tell(&key, format!("expected a table: [group.{name}]")),
            }
        }
        groups
    }

    fn place(&mut self, key: &str, byte: usize) {
        let line = self.line_at(byte);
        self.places.insert(key.to_owned(), line);
    }

    /// Names go to logs, terminals, file names and requests.
    fn check_name(&mut self, key: &str, name: &str, what: &str) {
        let fits = (1..=NAME_BYTES_MAX).contains(&name.len());
        let is_good = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if !fits || !name.chars().all(is_good) {
            let text = format!(
                "{name:?} cannot be the name of {what}: expected 1 to {NAME_BYTES_MAX} of a-z, A-Z, 0-9, '-' and '_'"
            );
            self.tell(key, text);
        }
    }
}
