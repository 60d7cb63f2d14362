// SPDX-License-Identifier: GPL-2.0-only
//! Compiles `bpf/consort.bpf.c` and generates its Rust skeleton.

use std::{
    env,
    error::Error,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use libbpf_cargo::SkeletonBuilder;

const SOURCE: &str = "bpf/consort.bpf.c";
const INTERFACE: &str = "bpf/interface.h";
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
    for variable in ["CLANG", "CONSORT_VMLINUX_H", "CONSORT_CACHE"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    for folder in HEADER_FOLDERS {
        watch(Path::new(folder))?;
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    generate_interface(&out)?;
    let clang = clang()?;
    let vmlinux = vmlinux()?;
    println!("cargo:rerun-if-changed={}", vmlinux.display());

    SkeletonBuilder::new()
        .source(SOURCE)
        .clang(clang)
        .clang_args(clang_args(&vmlinux)?)
        .obj(out.join("consort.bpf.o"))
        .build_and_generate(out.join("consort.skel.rs"))
        .map_err(|e| format!("cannot build kernel/{SOURCE}: {e:#}"))?;
    Ok(())
}

/// The Rust side of what the scheduler and its loader share.
fn generate_interface(out: &Path) -> Result<(), Box<dyn Error>> {
    bindgen::Builder::default()
        .header(INTERFACE)
        .default_macro_constant_type(bindgen::MacroTypeVariation::Unsigned)
        .prepend_enum_name(false)
        .derive_default(true)
        .generate()?
        .write_to_file(out.join("interface.rs"))?;
    Ok(())
}

fn clang_args(vmlinux: &Path) -> Result<Vec<OsString>, Box<dyn Error>> {
    let vmlinux_folder = vmlinux
        .parent()
        .ok_or("the path of vmlinux.h has no folder")?;
    let mut args: Vec<OsString> = ["-mcpu=v3", "-Wall", "-Werror"].map(Into::into).into();
    // Kernels from 7.0 on have tagged anonymous members in their types.
    args.extend(["-fms-extensions", "-Wno-microsoft-anon-tag"].map(OsString::from));
    // Else clang merges stores into the arena to a memset, and forgets there that it is the arena.
    args.push("-fno-builtin".into());
    // The kernel's types come from vmlinux.h, which excludes linux/types.h.
    args.push("-DCONSORT_ABI_NO_LINUX_TYPES".into());
    args.extend(["-I".into(), vmlinux_folder.as_os_str().to_owned()]);
    for folder in HEADER_FOLDERS {
        args.extend(["-I".into(), folder.into()]);
    }
    Ok(args)
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

/// The compiler: `CLANG`, or the version that the program is known to build with, or any.
fn clang() -> Result<OsString, String> {
    let candidates = match env::var_os("CLANG") {
        Some(chosen) => vec![chosen],
        None => vec!["clang-19".into(), "clang".into()],
    };
    let runs = |name: &OsString| Command::new(name).arg("--version").output().is_ok();
    candidates.iter().find(|name| runs(name)).cloned().ok_or_else(|| {
        let tried = candidates.join(" ".as_ref());
        format!(
            "no clang to compile the BPF program with (tried: {}). Run tools/setup, or name one in CLANG",
            tried.display()
        )
    })
}

/// The kernel's types in C: `CONSORT_VMLINUX_H`, or where `vm/vmlinux-h` puts them.
fn vmlinux() -> Result<PathBuf, String> {
    let path = match env::var_os("CONSORT_VMLINUX_H") {
        Some(path) => PathBuf::from(path),
        None => cache()?.join("kernels/7/vmlinux.h"),
    };
    if !path.is_file() {
        return Err(format!(
            "there is no {}, the kernel's types that the BPF program is compiled against. Run tools/setup \
             (it calls vm/vmlinux-h, which makes the file), or name one in CONSORT_VMLINUX_H",
            path.display()
        ));
    }
    // Relative paths would change meaning: cargo runs this in kernel/.
    path.canonicalize()
        .map_err(|e| format!("{}: {e}", path.display()))
}

fn cache() -> Result<PathBuf, String> {
    if let Some(cache) = env::var_os("CONSORT_CACHE") {
        return Ok(cache.into());
    }
    let home = env::var_os("HOME").ok_or(
        "neither CONSORT_VMLINUX_H, CONSORT_CACHE nor HOME is set, so vmlinux.h cannot be found",
    )?;
    Ok(PathBuf::from(home).join(".cache/consort"))
}
