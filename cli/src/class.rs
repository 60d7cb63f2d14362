// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort class`.

use serde_json::{json, Value};

use crate::{
    args::{ClassCommand, ClassSetArgs},
    connection::Connection,
    failure::Failure,
    status::{print, word},
    table::{Paint, Side, Table},
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
        false => print(&describe(&division, Paint::for_stdout())),
    }
}

/// Numbers go as numbers, `50%` and `unlimited` as texts.
fn set(args: &ClassSetArgs) -> Value {
    let amount = |text: &str| match text.parse::<f64>() {
        Ok(number) if number.is_finite() => json!(number),
        _ => json!(text),
    };
    json!({
        "command": "class_set", "name": args.name, "capacity": amount(&args.capacity),
        "overbooking": amount(&args.overbooking), "order": args.order,
    })
}

/// The division for a person.
pub fn describe(division: &Value, paint: Paint) -> String {
    let Some(classes) = division["classes"].as_array() else {
        return String::new();
    };
    let mut table = Table::new(&[
        ("class", Side::Left),
        ("capacity", Side::Right),
        ("admits", Side::Right),
        ("asked", Side::Right),
        ("given", Side::Right),
        ("used", Side::Right),
        ("reservations", Side::Right),
    ]);
    for class in classes {
        let number = |field: &str| match class[field].as_f64() {
            Some(number) => format!("{number:.4}"),
            None => "-".to_owned(),
        };
        let numbers = ["capacity", "admits", "asked", "given", "used"].map(number);
        let mut row = vec![word(&class["name"]).to_owned()];
        row.extend(numbers);
        row.push(class["reservations"].to_string());
        table.row(row);
    }
    table.text(paint)
}
