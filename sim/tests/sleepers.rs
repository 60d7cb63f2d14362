// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plain programs that sleep, on several CPUs: members and reservations beside them take nothing of what they are entitled to.

mod common;

use common::summaries::{row, share, summary, SEEDS};

/// Three sleepers beside six hogs, and reservations of two thirds of a CPU that are kept.
const BESIDE_RESERVED: &str = r#"{"global": {"duration": 6, "warmup": 1}, "machine": {"cpus": 2, "llc": 1},
    "cgroups": {"/g": {"weight": 200}},
    "tasks": {"slow": {"loop": -1, "run": "6ms", "timer": {"ref": "unique", "period": "20ms"},
                       "reserve": {"class": "guaranteed", "rate": 0.35, "period": "20ms"}},
              "quick": {"loop": -1, "run": "2ms", "timer": {"ref": "unique", "period": "8ms"},
                        "reserve": {"class": "guaranteed", "rate": 0.3, "period": "8ms"}},
              "hog": {"hog": true, "instance": 3}, "nice": {"hog": true, "priority": 10},
              "sleeper": {"instance": 3, "loop": -1, "run": "1ms", "sleep": "9ms", "taskgroup": "/s"},
              "other": {"hog": true, "instance": 2, "taskgroup": "/g"}}}"#;

#[test]
fn a_sleeper_has_its_first_turn_beside_reservations() {
    for seed in SEEDS {
        let summary = summary(BESIDE_RESERVED, seed);
        // 24.6 of three with nothing reserved; it was 15.6, in turns of half a millisecond.
        let percent = share(&summary, "sleeper");
        assert!(percent > 21.0, "{percent}");
        for (name, percent) in [("slow", 30.0), ("quick", 25.0)] {
            let it = row(&summary, name);
            assert!(it.share_percent > percent, "{name}: {}", it.share_percent);
            assert!(it.tardiness.max_ms < 2.0, "{name}: {:?}", it.tardiness);
        }
    }
}
