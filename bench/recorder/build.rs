// SPDX-License-Identifier: GPL-2.0-only
//! Compiles `src/recorder.bpf.c` and generates its Rust skeleton.

#[path = "../../kernel/build/compiler.rs"]
mod compiler;

use std::{env, error::Error, path::PathBuf};

use libbpf_cargo::SkeletonBuilder;

const SOURCE: &str = "src/recorder.bpf.c";

fn main() {
    if let Err(error) = build() {
        // Cargo shows the text of a panic with its escapes, and standard error plainly.
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn build() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    for source in [SOURCE, "src/record.h"] {
        println!("cargo:rerun-if-changed={source}");
    }
    let mut args = compiler::args()?;
    args.push("-Isrc".into());
    SkeletonBuilder::new()
        .source(SOURCE)
        .clang(compiler::clang()?)
        .clang_args(args)
        .obj(out.join("recorder.bpf.o"))
        .build_and_generate(out.join("recorder.skel.rs"))
        .map_err(|error| format!("cannot build bench/recorder/{SOURCE}: {error:#}"))?;
    Ok(())
}
