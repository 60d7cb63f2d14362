// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accessors as a Rust module.

use super::{type_name, with_unit};
use crate::{
    variable::{Value, Variable},
    Member,
};

pub(super) fn text(file: &str, members: &[&Member]) -> String {
    let mut text = format!(
        "// Made by `consort accessors` from {file}: change that, not this.\n\
         #![allow(dead_code)] // each program uses its part\n"
    );
    for member in members {
        text += &of_member(member);
    }
    text
}

fn of_member(member: &Member) -> String {
    let (name, called) = (&member.name, type_name(&member.name));
    let mut text = format!(
        "\n/// The member `{name}`: the calling thread, once it has announced itself.\n\
         pub struct {called}(consort::Announced);\n\n\
         impl {called} {{\n    \
         pub fn announce() -> Result<Self, consort::Error> {{\n        \
         let announced = consort::announce(\"{name}\")?;\n"
    );
    for (index, variable) in member.state.iter().enumerate() {
        let first = variable.first.word();
        text += &format!("        announced.set_state({index}, {first})?;\n");
    }
    text += "        Ok(Self(announced))\n    }\n\n    \
             pub fn announced(&self) -> &consort::Announced {\n        &self.0\n    }\n";
    for (index, variable) in member.state.iter().enumerate() {
        let with_unit = with_unit(variable);
        let (of, word) = match variable.first {
            Value::Integer(_) => ("i64", ""),
            Value::Boolean(_) => ("bool", "        let value = i64::from(value);\n"),
            Value::Duration(_) => (
                "u64",
                "        let value = i64::try_from(value).unwrap_or(i64::MAX);\n",
            ),
        };
        text += &format!(
            "\n    pub fn set_{with_unit}(&self, value: {of}) -> Result<(), consort::Error> {{\n{word}        \
             self.0.set_state({index}, value)\n    }}\n"
        );
    }
    for (index, variable) in member.control.iter().enumerate() {
        text += &getter(index, variable);
    }
    text + "}\n"
}

fn getter(index: usize, variable: &Variable) -> String {
    let with_unit = with_unit(variable);
    let control = format!("self.0.control({index})");
    let (of, body) = match variable.first {
        Value::Integer(_) => ("i64", control),
        Value::Boolean(_) => ("bool", format!("Ok({control}? != 0)")),
        Value::Duration(_) => ("u64", format!("Ok(u64::try_from({control}?).unwrap_or(0))")),
    };
    format!("\n    pub fn {with_unit}(&self) -> Result<{of}, consort::Error> {{\n        {body}\n    }}\n")
}
