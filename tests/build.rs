// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles decision functions: guests have no compiler.

use std::{env, error::Error, fs, path::PathBuf};

const FUNCTIONS: [&str; 4] = ["first", "last", "wrong", "endless"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=functions");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    for name in FUNCTIONS {
        let object = consort_df::build(&PathBuf::from(format!("functions/{name}.c")))?;
        fs::write(out.join(format!("{name}.o")), object)?;
    }
    Ok(())
}
