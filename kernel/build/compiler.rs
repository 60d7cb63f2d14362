// SPDX-License-Identifier: GPL-2.0-only
//! How BPF programs are compiled here: the compiler, and the kernel's types. For build scripts.

use std::{env, error::Error, ffi::OsString, path::PathBuf, process::Command};

/// What every BPF program is compiled with.
pub fn args() -> Result<Vec<OsString>, Box<dyn Error>> {
    let vmlinux = vmlinux()?;
    println!("cargo:rerun-if-changed={}", vmlinux.display());
    let vmlinux_folder = vmlinux
        .parent()
        .ok_or("the path of vmlinux.h has no folder")?;
    let mut args: Vec<OsString> = ["-mcpu=v3", "-Wall", "-Werror"].map(Into::into).into();
    // Kernels from 7.0 on have tagged anonymous members in their types.
    args.extend(["-fms-extensions", "-Wno-microsoft-anon-tag"].map(OsString::from));
    // Else clang merges stores into the arena to a memset, and forgets there that it is the arena.
    args.push("-fno-builtin".into());
    args.extend(["-I".into(), vmlinux_folder.as_os_str().to_owned()]);
    Ok(args)
}

/// The compiler: `CLANG`, or the version that the programs are known to build with, or any.
pub fn clang() -> Result<OsString, String> {
    println!("cargo:rerun-if-env-changed=CLANG");
    let candidates = match env::var_os("CLANG") {
        Some(chosen) => vec![chosen],
        None => vec!["clang-19".into(), "clang".into()],
    };
    let runs = |name: &OsString| Command::new(name).arg("--version").output().is_ok();
    candidates.iter().find(|name| runs(name)).cloned().ok_or_else(|| {
        let tried = candidates.join(" ".as_ref());
        format!(
            "no clang to compile BPF programs with (tried: {}). Run tools/setup, or name one in CLANG",
            tried.display()
        )
    })
}

/// The kernel's types in C: `CONSORT_VMLINUX_H`, or where `vm/vmlinux-h` puts them.
fn vmlinux() -> Result<PathBuf, String> {
    for variable in ["CONSORT_VMLINUX_H", "CONSORT_CACHE"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    let path = match env::var_os("CONSORT_VMLINUX_H") {
        Some(path) => PathBuf::from(path),
        None => cache()?.join("kernels/7/vmlinux.h"),
    };
    if !path.is_file() {
        return Err(format!(
            "there is no {}, the kernel's types that BPF programs are compiled against. Run tools/setup \
             (it calls vm/vmlinux-h, which makes the file), or name one in CONSORT_VMLINUX_H",
            path.display()
        ));
    }
    // Relative paths would change meaning: cargo runs this in the package's folder.
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
