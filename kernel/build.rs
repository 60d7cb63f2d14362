// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the BPF programs and generates their Rust skeletons.

#[path = "build/compiler.rs"]
mod compiler;

use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
};

use libbpf_cargo::SkeletonBuilder;

/// The scheduler, the one of safe mode, and what looks on.
const PROGRAMS: [&str; 3] = ["consort", "consort_safe", "consort_late"];
/// What programs share with their loaders.
const INTERFACES: [&str; 2] = ["interface", "late"];
/// Folders whose headers the BPF program includes.
const HEADER_FOLDERS: [&str; 3] = ["bpf", "../core", "../abi"];

fn main() {
    if let Err(error) = build() {
        // Cargo shows the text of a panic with its escapes, and standard error plainly.
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn build() -> Result<(), Box<dyn Error>> {
    for folder in HEADER_FOLDERS {
        watch(Path::new(folder))?;
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    generate_interfaces(&out)?;
    let mut args = compiler::args()?;
    // The kernel's types come from vmlinux.h, which excludes linux/types.h.
    args.push("-DCONSORT_ABI_NO_LINUX_TYPES".into());
    for folder in HEADER_FOLDERS {
        args.extend(["-I".into(), folder.into()]);
    }
    for program in PROGRAMS {
        let source = format!("bpf/{program}.bpf.c");
        SkeletonBuilder::new()
            .source(&source)
            .clang(compiler::clang()?)
            .clang_args(args.clone())
            .obj(out.join(format!("{program}.bpf.o")))
            .build_and_generate(out.join(format!("{program}.skel.rs")))
            .map_err(|e| format!("cannot build kernel/{source}: {e:#}"))?;
    }
    let object = fs::read(out.join("consort.bpf.o"))?;
    println!("cargo:rustc-env=CONSORT_OBJECT={:016x}", fnv_1a(&object));
    Ok(())
}

/// Tells builds of the scheduler apart: a daemon takes over what it would load itself, and exchanges what is another one.
fn fnv_1a(bytes: &[u8]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// The Rust side of what programs and their loaders share.
fn generate_interfaces(out: &Path) -> Result<(), Box<dyn Error>> {
    for name in INTERFACES {
        bindgen::Builder::default()
            .header(format!("bpf/{name}.h"))
            .clang_arg("-I../abi")
            .default_macro_constant_type(bindgen::MacroTypeVariation::Unsigned)
            .prepend_enum_name(false)
            .derive_default(true)
            .generate()?
            .write_to_file(out.join(format!("{name}.rs")))?;
    }
    Ok(())
}

/// Rebuilds when a C file in `folder`, or below it, comes, goes or changes.
fn watch(folder: &Path) -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            continue;
        }
        if path.extension().is_some_and(|end| end == "h" || end == "c") {
            println!("cargo:rerun-if-changed={}", path.display());
        }
    }
    Ok(())
}
