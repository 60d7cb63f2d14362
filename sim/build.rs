// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the scheduler's own BPF source for the host, against the shim's headers, and generates the Rust side of
//! what the two give each other.

use std::{env, error::Error, path::PathBuf, process::Command};

/// Where the scheduler's headers are, and the shim's: the latter stand in for the kernel's and libbpf's.
const FOLDERS: [&str; 4] = ["shim", "../kernel/bpf", "../core", "../abi"];
const SOURCES: [&str; 3] = ["shim/scheduler.c", "shim/maps.c", "shim/timers.c"];
/// As the BPF build has it: the types come from vmlinux.h. Pointers into the arena are pointers here.
const DEFINES: [(&str, Option<&str>); 2] =
    [("CONSORT_ABI_NO_LINUX_TYPES", None), ("__arena", Some(""))];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-env-changed=CLANG");
    println!("cargo:rerun-if-env-changed=CONSORT_SIM_CFLAGS");
    for folder in FOLDERS {
        println!("cargo:rerun-if-changed={folder}");
    }
    let clang = clang()?;
    let mut build = cc::Build::new();
    build
        .compiler(&clang)
        .files(SOURCES)
        .includes(FOLDERS)
        .std("gnu11")
        .opt_level(2)
        .flag("-fvisibility=hidden")
        .flag("-Wall")
        // Static functions of headers; and the BPF build is the one that decides about the rest.
        .flag("-Wno-unused-function")
        .warnings(false);
    for (name, value) in DEFINES {
        build.define(name, value);
    }
    // CFLAGS would be those of build scripts' libraries, too.
    let flags = env::var("CONSORT_SIM_CFLAGS").unwrap_or_default();
    for flag in flags.split_whitespace() {
        build.flag(flag);
    }
    build.try_compile("consort_scheduler")?;
    println!("cargo:rustc-env=CONSORT_SIM_CLANG={clang}");
    generate_interface()
}

fn generate_interface() -> Result<(), Box<dyn Error>> {
    let mut builder = bindgen::Builder::default()
        .header("shim/host.h")
        .default_macro_constant_type(bindgen::MacroTypeVariation::Unsigned)
        .prepend_enum_name(false)
        .derive_default(true)
        .layout_tests(false);
    for folder in FOLDERS {
        builder = builder.clang_arg(format!("-I{folder}"));
    }
    for (name, value) in DEFINES {
        builder = builder.clang_arg(format!("-D{name}={}", value.unwrap_or("1")));
    }
    let out = PathBuf::from(env::var("OUT_DIR")?).join("host.rs");
    builder.generate()?.write_to_file(out)?;
    Ok(())
}

/// The compiler that the BPF program is built with: its extensions are used here, too.
fn clang() -> Result<String, String> {
    let candidates = match env::var("CLANG") {
        Ok(chosen) => vec![chosen],
        Err(_) => vec!["clang-19".to_owned(), "clang".to_owned()],
    };
    let runs = |name: &String| Command::new(name).arg("--version").output().is_ok();
    candidates
        .iter()
        .find(|name| runs(name))
        .cloned()
        .ok_or(format!(
        "no clang to compile the scheduler with (tried: {}). Run tools/setup, or name one in CLANG",
        candidates.join(" ")
    ))
}
