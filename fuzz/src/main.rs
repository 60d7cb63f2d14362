// SPDX-License-Identifier: MIT OR Apache-2.0
//! libFuzzer's entry: CONSORT_FUZZ_TARGET names the target.
#![no_main]

use std::sync::OnceLock;

static TARGET: OnceLock<&consort_fuzz::Target> = OnceLock::new();

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let target = TARGET.get_or_init(|| {
        let name = std::env::var("CONSORT_FUZZ_TARGET").unwrap_or_default();
        consort_fuzz::target(&name).expect("CONSORT_FUZZ_TARGET names a target")
    });
    (target.run)(bytes);
});
