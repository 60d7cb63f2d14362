// SPDX-License-Identifier: GPL-2.0-only
//! libbpf's messages: to the debug log, and the last warnings kept for the error that follows them.

use std::sync::Mutex;

use libbpf_rs::PrintLevel;
use tracing::debug;

/// A verifier's log ends with the reason; what comes before can be megabytes.
const KEPT_BYTES: usize = 4096;

static KEPT: Mutex<String> = Mutex::new(String::new());

/// From now on libbpf's messages come here.
pub(crate) fn capture() {
    libbpf_rs::set_print(Some((PrintLevel::Info, keep)));
}

/// The last warnings, and forgets them.
pub(crate) fn take() -> String {
    match KEPT.lock() {
        Ok(mut kept) => std::mem::take(&mut *kept),
        Err(_) => String::new(),
    }
}

fn keep(level: PrintLevel, text: String) {
    let text = text.trim_end();
    debug!(target: "libbpf", "{}", tail(text));
    if level != PrintLevel::Warn {
        return;
    }
    if let Ok(mut kept) = KEPT.lock() {
        kept.push_str(text);
        kept.push('\n');
        *kept = tail(&kept).to_owned();
    }
}

fn tail(text: &str) -> &str {
    let mut start = text.len().saturating_sub(KEPT_BYTES);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}
