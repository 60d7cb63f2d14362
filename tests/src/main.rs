// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole-system tests of Consort, through its public interfaces only: the command, the socket, libconsort.
//!
//! One program, four uses. `suite` runs in the guest and starts each test in a process of its own (`test`), which
//! starts the programs that it needs, honest and hostile ones (`role`). `tests/run` boots the guests. The bench has it
//! `measure` with the same programs.

mod cases;
mod measures;
mod roles;
mod suite;

use std::process::ExitCode;

const USAGE: &str = "\
Usage: consort-tests list                  names of all tests, the CPUs and the daemon that each wants
       consort-tests suite [PATTERN...]    run the tests with that name, or whose names contain it (as root, in a guest)
       consort-tests test NAME             run one test, beside a daemon that runs already
       consort-tests role NAME [ARG...]    be one of the programs that tests start
       consort-tests measure NAME [ARG...] measure something for the bench, as root, in a guest
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["list"] => suite::list(),
        ["suite", patterns @ ..] => suite::run(patterns),
        ["test", name] => suite::run_one(name),
        ["role", name, arguments @ ..] => roles::run(name, arguments),
        ["measure", name, arguments @ ..] => measures::run(name, arguments),
        _ => {
            eprint!("{USAGE}");
            ExitCode::from(2)
        }
    }
}
