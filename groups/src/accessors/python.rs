// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accessors as a Python module.

use super::{type_name, with_unit};
use crate::{variable::Value, Member};

pub(super) fn text(file: &str, members: &[&Member]) -> String {
    let mut text = format!(
        "# Made by `consort accessors` from {file}: change that, not this.\nimport libconsort\n"
    );
    for member in members {
        text += &of_member(member);
    }
    text
}

fn of_member(member: &Member) -> String {
    let (name, called) = (&member.name, type_name(&member.name));
    let mut text = format!(
        "\n\nclass {called}(libconsort.Announced):\n    \
         \"\"\"The member {name}: the calling thread, once it has announced itself.\"\"\"\n\n    \
         def __init__(self):\n        super().__init__(\"{name}\")\n"
    );
    for (index, variable) in member.state.iter().enumerate() {
        let first = variable.first.word();
        text += &format!("        self.set_state({index}, {first})\n");
    }
    for (index, variable) in member.state.iter().enumerate() {
        let with_unit = with_unit(variable);
        text += &format!(
            "\n    def set_{with_unit}(self, value):\n        self.set_state({index}, int(value))\n"
        );
    }
    for (index, variable) in member.control.iter().enumerate() {
        let with_unit = with_unit(variable);
        let value = match variable.first {
            Value::Boolean(_) => format!("bool(self.control({index}))"),
            Value::Integer(_) | Value::Duration(_) => format!("self.control({index})"),
        };
        text += &format!("\n    def {with_unit}(self):\n        return {value}\n");
    }
    text
}
