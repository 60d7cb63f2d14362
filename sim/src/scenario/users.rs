// SPDX-License-Identifier: MIT OR Apache-2.0
//! `"functions"`: decision functions of users' own, by name.

use std::{fs, path::Path};

use super::{
    error::BadScenario,
    json::{Field, Fields},
};
use crate::users::User;

const MISBEHAVES: [(&str, usize); 6] = [
    ("garbage", 0),
    ("ones", 1),
    ("silent", 2),
    ("slow", 3),
    ("mostly slow", 4),
    ("costly", 5),
];
const MISBEHAVING: [User; 6] = [
    User::Garbage,
    User::Ones,
    User::Silent,
    User::Slow,
    User::MostlySlow,
    User::Costly,
];

/// A C source, an object file, or how it misbehaves; paths are from the scenario's folder. Returns names, too.
pub fn users(fields: &Fields<'_>, folder: &Path) -> Result<(Vec<User>, Vec<String>), BadScenario> {
    let mut users = Vec::new();
    let mut names = Vec::new();
    for field in fields.entries() {
        users.push(user(field, folder)?);
        names.push(field.key.clone());
    }
    Ok((users, names))
}

fn user(field: &Field<'_>, folder: &Path) -> Result<User, BadScenario> {
    let inner = field.node.fields()?;
    let (source, object, misbehaves) = (
        inner.get("source"),
        inner.get("object"),
        inner.get("misbehaves"),
    );
    inner.finish()?;
    let user = match (source, object, misbehaves) {
        (Some(node), None, None) => {
            let built = consort_df::build(&folder.join(node.text()?));
            User::of(&built.map_err(|error| node.error(format!("cannot be built: {error}")))?)
        }
        (None, Some(node), None) => {
            let read = fs::read(folder.join(node.text()?));
            User::of(&read.map_err(|error| node.error(format!("cannot be read: {error}")))?)
        }
        (None, None, Some(node)) => MISBEHAVING[node.choice(&MISBEHAVES)?].clone(),
        _ => {
            return Err(field
                .node
                .error("is no function, expected one of \"source\", \"object\", \"misbehaves\""))
        }
    };
    user.object()
        .map_err(|why| field.node.error(format!("is refused: {why}")))?;
    Ok(user)
}
