// SPDX-License-Identifier: MIT OR Apache-2.0
//! Objects as text: messages and the store have no other.

use consort_df::OBJECT_BYTES_MAX;
use nix::errno::Errno;

use crate::Refusal;

/// Two digits a byte.
pub(super) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// # Errors
/// EMSGSIZE for more than the longest object, EINVAL.
pub(super) fn from_hex(text: &str) -> Result<Vec<u8>, Refusal> {
    let wrong = || {
        let text = "the object is to be sent in hexadecimal: two digits a byte";
        Refusal::new(Errno::EINVAL, text)
    };
    if text.len() > 2 * OBJECT_BYTES_MAX {
        let text = format!(
            "the object has {} bytes: expected at most {OBJECT_BYTES_MAX}; compile without -g",
            text.len() / 2
        );
        return Err(Refusal::new(Errno::EMSGSIZE, text));
    }
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return Err(wrong());
    }
    let digits = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair)
            .ok()
            .filter(|pair| !pair.starts_with('+'))?;
        u8::from_str_radix(pair, 16).ok()
    };
    digits.map(|pair| byte(pair).ok_or_else(wrong)).collect()
}
