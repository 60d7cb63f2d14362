// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accessors that are made of a group file, used as programs use them.

use crate::c_interface::{built, compile_with, run};
use crate::daemon::Daemon;
use crate::process::{isolated, scratch_folder};
use consort_abi::*;
use consort_groups::accessors::{accessors, Language};
use std::process::Command;

/// As `consort accessors` prints it; kept, since it is compiled with this test.
#[path = "../groups/film.rs"]
mod film;

const FILE: &str = include_str!("../groups/film.toml");

fn made(language: Language) -> String {
    let description = consort_groups::read("film.toml", "film", FILE).unwrap();
    accessors(&description, "film.toml", language).unwrap()
}

#[test]
fn the_kept_module_is_what_is_made() {
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/groups/film.rs");
    let made = made(Language::Rust);
    let kept_text = std::fs::read_to_string(kept).unwrap();
    let (licence, text) = kept_text.split_once('\n').unwrap();
    assert!(licence.starts_with("// SPDX"), "{licence}");
    assert_eq!(text, made, "make {kept} anew from film.toml");
}

isolated!(rust_publishes_by_name_and_type, {
    let daemon = Daemon::start();
    let read = film::Read::announce().unwrap();
    let page = daemon.page(0);
    // The file's first values.
    assert_eq!(page.variables(0).state, [3, 1, 5_000_000, 0]);
    read.set_queued(-4).unwrap();
    read.set_busy(false).unwrap();
    read.set_ahead_ns(7).unwrap();
    assert_eq!(page.variables(0).state, [-4, 0, 7, 0]);
    page.set_control(0, 2, 11);
    assert_eq!(read.missed().unwrap(), 11);
    read.announced().done().unwrap();
    drop(read);
    let show = film::ShowIt::announce().unwrap();
    page.set_control(0, 0, 9);
    page.set_control(0, 1, 1);
    assert_eq!((show.wait_ns().unwrap(), show.quick().unwrap()), (9, true));
});

isolated!(python_publishes_by_name_and_type, {
    let folder = scratch_folder("python");
    std::fs::write(folder.join("film.py"), made(Language::Python)).unwrap();
    let program = "import film\nshow = film.ShowIt()\nprint(show.quick(), show.wait_ns())\nshow.leave()\n\
                   read = film.Read()\nread.set_queued(7)\nread.set_busy(False)\nread.set_ahead_ns(9)\n\
                   print(read.begins())\nread.done()\nread.leave()\n";
    let package = concat!(env!("CARGO_MANIFEST_DIR"), "/python/src");
    let daemon = Daemon::start();
    let said = run(Command::new("python3")
        .args(["-B", "-c", program])
        .env("PYTHONPATH", format!("{package}:{}", folder.display()))
        .env("CONSORT_LIBRARY", built().join("libconsort.so")));
    assert_eq!(said, "False 0\n0\n");
    assert_eq!(daemon.requests_of(CONSORT_ANNOUNCE).len(), 2);
    assert_eq!(daemon.page(0).variables(0).state, [7, 0, 9, 0]);
    std::fs::remove_dir_all(folder).unwrap();
});

isolated!(c_publishes_by_name_and_type, {
    let folder = scratch_folder("accessors");
    std::fs::write(folder.join("film_groups.h"), made(Language::C)).unwrap();
    let include = format!("-I{}", folder.display());
    let program = compile_with("tests/c/groups.c", &folder, &[&include]);
    assert_eq!(run(&mut Command::new(&program)), "told\n", "alone");
    let daemon = Daemon::start();
    assert_eq!(run(&mut Command::new(&program)), "told\n");
    assert_eq!(daemon.requests_of(CONSORT_ANNOUNCE).len(), 1);
    assert_eq!(daemon.requests_of(CONSORT_LEAVE).len(), 1);
    let said = daemon.page(0).variables(0);
    assert_eq!(said.state, [11, 0, 9_000_000, 0]);
    assert_eq!((said.submissions, said.done, said.triggers), (2, 1, 1));
    std::fs::remove_dir_all(folder).unwrap();
});
