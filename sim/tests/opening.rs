// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that open the scheduler at the same time all get one that runs. A process opens it once, so this is alone
//! in its file.

mod common;

use common::assert_fine;
use consort_sim::{consort, run, scenario};
use std::sync::Barrier;

const THREADS: usize = 32;

#[test]
fn threads_open_the_scheduler_at_the_same_time() {
    let scenario = scenario::parse(
        "opening.json",
        r#"{ "global": { "duration": 1 }, "tasks": { "hog": { "instance": 2, "hog": true } } }"#,
    )
    .unwrap();
    let all_there = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                all_there.wait();
                let outcome = run(&scenario.setup, consort(), &mut ()).unwrap();
                assert_fine(&outcome);
            });
        }
    });
}
