// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort class`.

use std::fmt::Write as _;

use serde_json::{json, Value};

use crate::{
    args::{ClassCommand, ClassOrder, ClassSetArgs},
    connection::Connection,
    failure::Failure,
    status::{print, word},
};

/// Does what is asked and prints how the machine is divided now.
pub fn class(command: &ClassCommand) -> Result<(), Failure> {
    let as_json = matches!(command, ClassCommand::List { json: true });
    let request = match command {
        ClassCommand::List { .. } => json!({"command": "classes"}),
        ClassCommand::Set(args) => set(args),
        ClassCommand::Remove { name } => json!({"command": "class_remove", "name": name}),
    };
    let division = Connection::open()?.control(&request)?;
    match as_json {
        true => print(&format!("{division:#}\n")),
        false => print(&describe(&division)),
    }
}

/// Numbers go as numbers, `50%` and `unlimited` as texts.
fn set(args: &ClassSetArgs) -> Value {
    let amount = |text: &str| match text.parse::<f64>() {
        Ok(number) if number.is_finite() => json!(number),
        _ => json!(text),
    };
    let order = match args.order {
        ClassOrder::Period => "period",
        ClassOrder::Frc => "frc",
        ClassOrder::Rc => "rc",
    };
    json!({
        "command": "class_set", "name": args.name, "capacity": amount(&args.capacity),
        "overbooking": amount(&args.overbooking), "order": order,
    })
}

/// The division for a person.
pub fn describe(division: &Value) -> String {
    let Some(classes) = division["classes"].as_array() else {
        return String::new();
    };
    let mut out = String::from(
        "class              capacity  admits    asked     given     used      reservations\n",
    );
    for class in classes {
        let number = |field: &str| match class[field].as_f64() {
            Some(number) => format!("{number:.4}"),
            None => "-".to_owned(),
        };
        // Writing into a String cannot fail.
        let _ = writeln!(
            out,
            "{:<17}  {:<8}  {:<8}  {:<8}  {:<8}  {:<8}  {}",
            word(&class["name"]),
            number("capacity"),
            number("admits"),
            number("asked"),
            number("given"),
            number("used"),
            class["reservations"]
        );
    }
    out
}
