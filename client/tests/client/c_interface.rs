// SPDX-License-Identifier: MIT OR Apache-2.0
//! C programs and the examples: compiled against the header, run with and without a daemon, and built from an
//! installed copy.

use crate::daemon::Daemon;
use crate::process::{isolated, scratch_folder};
use consort_abi::*;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// What the static library needs of the system.
const SYSTEM: &[&str] = &["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];

fn client() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where cargo has put the libraries that this test was built with.
pub fn built() -> PathBuf {
    let this = std::env::current_exe().unwrap();
    this.parent().unwrap().to_owned()
}

pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{errors}",
        output.status
    );
    assert_eq!(errors, "", "{command:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn compile(source: &str, folder: &Path) -> PathBuf {
    compile_with(source, folder, &[])
}

pub fn compile_with(source: &str, folder: &Path, flags: &[&str]) -> PathBuf {
    let program = folder.join("program");
    run(Command::new("cc")
        .args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"])
        .args(flags)
        .arg(format!("-I{}", client().join("include").display()))
        .arg(format!("-I{}", client().join("../abi").display()))
        .arg(client().join(source))
        .arg(built().join("libconsort.a"))
        .args(SYSTEM)
        .arg("-o")
        .arg(&program));
    program
}

fn rust_example(name: &str) -> PathBuf {
    built().join("../examples").join(name)
}

/// The same program, as a member and alone.
fn runs_with_and_without(program: &Path, expected: &str) {
    let output = run(&mut Command::new(program));
    assert!(output.contains(expected), "alone: {output}");
    let daemon = Daemon::start();
    let output = run(&mut Command::new(program));
    assert!(output.contains(expected), "as a member: {output}");
    assert_eq!(daemon.requests_of(CONSORT_JOIN).len(), 1);
    assert_eq!(daemon.requests_of(CONSORT_LEAVE).len(), 1);
}

isolated!(the_header_keeps_its_promises, {
    let folder = scratch_folder("interface");
    let program = compile("tests/c/interface.c", &folder);
    let daemon = Daemon::start();
    run(&mut Command::new(program));
    let count = |kind| daemon.requests_of(kind).len();
    // The thread that ended left as well; the first one's end does not wait for the daemon.
    let begun = Instant::now();
    while count(CONSORT_JOIN) != count(CONSORT_LEAVE) {
        assert!(begun.elapsed() < Duration::from_secs(20), "not all left");
        std::thread::sleep(Duration::from_millis(1));
    }
    std::fs::remove_dir_all(folder).unwrap();
});

isolated!(c_ticker, {
    let folder = scratch_folder("ticker");
    let program = compile("examples/ticker.c", &folder);
    runs_with_and_without(&program, "over 10 ticks");
    std::fs::remove_dir_all(folder).unwrap();
});

isolated!(c_event_loop, {
    let folder = scratch_folder("loop");
    let program = compile("examples/event_loop.c", &folder);
    runs_with_and_without(&program, "10 ticks");
    std::fs::remove_dir_all(folder).unwrap();
});

isolated!(rust_ticker, {
    runs_with_and_without(&rust_example("ticker"), "over 10 ticks");
});

isolated!(rust_event_loop, {
    let program = rust_example("event_loop");
    runs_with_and_without(&program, "10 ticks");
});

isolated!(installs_for_pkg_config_and_cplusplus, {
    let folder = scratch_folder("install");
    let make = |target: &str| {
        run(Command::new("make")
            .args(["-s", "-C"])
            .arg(client())
            .arg(target)
            .arg("PREFIX=/opt/consort")
            .arg(format!("DESTDIR={}", folder.display()))
            .arg(format!("BUILT={}", built().display())));
    };
    make("install");
    let lib = folder.join("opt/consort/lib");
    let flags = run(Command::new("pkg-config")
        .args(["--cflags", "--libs", "libconsort"])
        .env("PKG_CONFIG_PATH", lib.join("pkgconfig"))
        .env("PKG_CONFIG_SYSROOT_DIR", &folder));
    for (compiler, language) in [("cc", "c"), ("c++", "c++")] {
        let program = folder.join(language);
        run(Command::new(compiler)
            .args(["-x", language, "-Wall", "-Wextra", "-Wpedantic", "-Werror"])
            .arg(client().join("tests/c/installed.c"))
            .args(["-x", "none", "-o"])
            .arg(&program)
            .args(flags.split_whitespace()));
        run(Command::new(program).env("LD_LIBRARY_PATH", &lib));
    }
    // The archive of a test has all of Rust's library in it, of which the linker warns here and there.
    let flags = run(Command::new("pkg-config")
        .args(["--static", "--cflags", "--libs", "libconsort"])
        .env("PKG_CONFIG_PATH", lib.join("pkgconfig"))
        .env("PKG_CONFIG_SYSROOT_DIR", &folder));
    let program = folder.join("static");
    run(Command::new("cc")
        .args([
            "-static",
            "-Wl,--no-warnings",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
        ])
        .arg(client().join("tests/c/installed.c"))
        .arg("-o")
        .arg(&program)
        .args(flags.split_whitespace()));
    run(&mut Command::new(program));
    make("uninstall");
    let left: Vec<_> = std::fs::read_dir(&lib)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["pkgconfig"]);
    std::fs::remove_dir_all(folder).unwrap();
});
