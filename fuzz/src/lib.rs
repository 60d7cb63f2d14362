// SPDX-License-Identifier: MIT OR Apache-2.0
//! What reads bytes that strangers write, or that a disk has damaged, as functions of those bytes. Each panics when a
//! promise is broken: the tests hand them a corpus and what random changes make of it, `fuzz/hours` what covers new code.

#[path = "../../daemon/tests/common/mod.rs"]
mod common;
mod journal;
mod slots;
mod texts;
mod wire;

/// One reader of bytes.
pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
}

pub const TARGETS: [Target; 6] = [
    Target {
        name: "wire",
        run: wire::run,
    },
    Target {
        name: "journal",
        run: journal::run,
    },
    Target {
        name: "classes",
        run: texts::classes,
    },
    Target {
        name: "slots",
        run: slots::run,
    },
    Target {
        name: "scenario",
        run: texts::scenario,
    },
    Target {
        name: "groups",
        run: texts::groups,
    },
];

/// The target of that name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
