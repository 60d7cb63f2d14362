// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decision functions of users' own in a run: what the kernel would load, run as it would run it, and functions that
//! misbehave.

use consort_df::{Kind, Object};
use serde::{Deserialize, Serialize};

/// What answers at a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum User {
    /// An object file, in hexadecimal.
    Object(String),
    /// The instructions of a `df_key`, in hexadecimal.
    Keys(String),
    /// Whatever comes, each time something else, written all over its record.
    Garbage,
    /// A record full of 0xff.
    Ones,
    /// It is called, and does not answer.
    Silent,
    /// It has no opinion, and takes a millisecond to say so.
    Slow,
    /// The same, but for each sixteenth answer, which comes at once.
    MostlySlow,
    /// The same, but it takes just less than what is slow.
    Costly,
}

impl User {
    /// The function of an object; `None` for one that misbehaves.
    ///
    /// # Errors
    /// Which rule it breaks.
    pub fn object(&self) -> Result<Option<Object>, String> {
        let (User::Object(hex) | User::Keys(hex)) = self else {
            return Ok(None);
        };
        let digits = hex.as_bytes().chunks(2);
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = digits.map(byte).collect();
        let bytes = bytes.ok_or("it is not hexadecimal")?;
        let object = match self {
            User::Keys(_) => Object::of_code(Kind::Keys, &bytes),
            _ => Object::read(&bytes),
        };
        Ok(Some(object.map_err(|problem| problem.to_string())?))
    }

    pub fn of(bytes: &[u8]) -> Self {
        User::Object(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}
