// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accessors of state and control variables, made from a group file for C, Rust and Python: both sides then agree on which
//! word is what, and of which type (003 section 3.2.2: "data structures that are identical").

mod c;
mod python;
mod rust;

use std::{collections::HashMap, fmt};

use crate::{
    variable::{Value, Variable},
    Description, Member,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    C,
    Rust,
    Python,
}

/// Two members whose accessors would be called the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SameName {
    pub one: String,
    pub other: String,
}

impl std::error::Error for SameName {}

impl fmt::Display for SameName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SameName { one, other } = self;
        write!(
            f,
            "accessors of the members {one} and {other} would be called the same: expected names that differ in more than \
             '-', '_' and capitals"
        )
    }
}

/// The accessors of all members, as a source text. `file` is what the group file is called in it.
///
/// # Errors
/// When two members have names that are the same in that language.
pub fn accessors(
    description: &Description,
    file: &str,
    language: Language,
) -> Result<String, SameName> {
    let members = all_members(description)?;
    // It goes into a comment.
    let file: String = file
        .chars()
        .filter(|c| c.is_ascii_graphic() && !"*\\".contains(*c))
        .collect();
    Ok(match language {
        Language::C => c::text(&description.name, &file, &members),
        Language::Rust => rust::text(&file, &members),
        Language::Python => python::text(&file, &members),
    })
}

fn all_members(description: &Description) -> Result<Vec<&Member>, SameName> {
    let mut first: HashMap<String, &str> = HashMap::new();
    let mut members = Vec::new();
    for (_, _, member) in description.members() {
        if let Some(one) = first.insert(word(&member.name), &member.name) {
            return Err(SameName {
                one: one.to_owned(),
                other: member.name.clone(),
            });
        }
        members.push(member);
    }
    Ok(members)
}

/// A name as a part of an identifier, in small letters.
fn word(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_")
}

/// `read-all` as `ReadAll`.
fn type_name(name: &str) -> String {
    let words = name.split(['-', '_']).filter(|word| !word.is_empty());
    let capital = |word: &str| {
        let mut chars = word.chars();
        let first = chars.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(chars).collect::<String>()
    };
    let name: String = words.map(capital).collect();
    match name.starts_with(|first: char| first.is_ascii_alphabetic()) {
        true => name,
        false => format!("Member{name}"),
    }
}

/// A variable's name with its unit.
fn with_unit(variable: &Variable) -> String {
    match variable.first {
        Value::Duration(_) => format!("{}_ns", variable.name),
        Value::Integer(_) | Value::Boolean(_) => variable.name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_identifiers() {
        for (name, as_word, as_type) in [
            ("read", "read", "Read"),
            ("read-all", "read_all", "ReadAll"),
            ("X", "x", "X"),
            ("3d", "3d", "Member3d"),
            ("_", "_", "Member"),
        ] {
            assert_eq!(
                (word(name).as_str(), type_name(name).as_str()),
                (as_word, as_type)
            );
        }
    }

    #[test]
    fn members_whose_accessors_would_collide_are_refused() {
        let text = "[group.a]\nmembers = [\"hand-over\", \"hand_over\"]";
        let read = crate::read("f.toml", "f", text).unwrap();
        let error = accessors(&read, "f.toml", Language::C).unwrap_err();
        assert!(
            error.to_string().contains("hand-over and hand_over"),
            "{error}"
        );
    }

    #[test]
    fn the_least_number_is_a_constant_in_c() {
        let text = "[group.a]\nstate = { least = -9223372036854775808 }\nmembers = [\"m\"]";
        let read = crate::read("f.toml", "f", text).unwrap();
        let text = accessors(&read, "f.toml", Language::C).unwrap();
        assert!(
            text.contains("consort_set_state(*member, 0, INT64_MIN)"),
            "{text}"
        );
    }
}
