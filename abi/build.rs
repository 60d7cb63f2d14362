// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Generates the Rust side of `consort_abi.h` and `consort_trace.h`.

use std::{env, path::PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut builder = bindgen::Builder::default();
    for header in ["consort_abi.h", "consort_trace.h", "consort_df.h"] {
        println!("cargo:rerun-if-changed={header}");
        builder = builder.header(header);
    }
    let out = PathBuf::from(env::var("OUT_DIR")?).join("abi.rs");
    builder
        .allowlist_item("(consort|CONSORT|df|DF)_.*")
        .default_macro_constant_type(bindgen::MacroTypeVariation::Unsigned)
        .prepend_enum_name(false)
        .derive_default(true)
        .layout_tests(true)
        .generate()?
        .write_to_file(out)?;
    Ok(())
}
