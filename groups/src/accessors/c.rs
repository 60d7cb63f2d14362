// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accessors as a C header.

use super::{with_unit, word};
use crate::{
    variable::{Value, Variable},
    Member,
};

pub(super) fn text(file_name: &str, file: &str, members: &[&Member]) -> String {
    let prefix = word(file_name);
    let guard = format!("{}_GROUPS_H", prefix.to_ascii_uppercase());
    let mut text = format!(
        "/* Made by `consort accessors` from {file}: change that, not this. */\n\
         #ifndef {guard}\n#define {guard}\n\n#include <consort.h>\n#include <stdbool.h>\n#include <stdint.h>\n"
    );
    for member in members {
        text += &of_member(&format!("{prefix}_{}", word(&member.name)), member);
    }
    text + &format!("\n#endif /* {guard} */\n")
}

fn of_member(prefix: &str, member: &Member) -> String {
    let name = &member.name;
    let mut text = format!(
        "\n/* {name} */\n\
         static inline int {prefix}_announce(struct consort_member **member)\n\
         {{\n\tint error = consort_announce(\"{name}\", member);\n\n"
    );
    let firsts = member.state.iter().enumerate();
    for (index, variable) in firsts {
        let first = constant(variable.first.word());
        text +=
            &format!("\tif (!error)\n\t\terror = consort_set_state(*member, {index}, {first});\n");
    }
    text += "\treturn error;\n}\n";
    for (index, variable) in member.state.iter().enumerate() {
        let called = with_unit(variable);
        let of = c_type(variable);
        text += &format!(
            "static inline int {prefix}_set_{called}(struct consort_member *member, {of} value)\n\
             {{\n\treturn consort_set_state(member, {index}, (int64_t)value);\n}}\n"
        );
    }
    for (index, variable) in member.control.iter().enumerate() {
        let called = with_unit(variable);
        let of = c_type(variable);
        let first = constant(variable.first.word());
        text += &format!(
            "/* Its first value while nobody has said another one. */\n\
             static inline {of} {prefix}_get_{called}(struct consort_member *member)\n\
             {{\n\tint64_t value;\n\n\tif (consort_get_control(member, {index}, &value) < 0)\n\t\treturn {first};\n\
             \treturn ({of})value;\n}}\n"
        );
    }
    text
}

/// There are no negative constants in C: the least number's digits are too many for any type.
fn constant(word: i64) -> String {
    match word {
        i64::MIN => "INT64_MIN".to_owned(),
        word => word.to_string(),
    }
}

fn c_type(variable: &Variable) -> &'static str {
    match variable.first {
        Value::Integer(_) => "int64_t",
        Value::Boolean(_) => "bool",
        Value::Duration(_) => "uint64_t",
    }
}
