// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bugs planted in how masks and caches are served make a mix unfair that holds without them: somebody falls behind the fluid ideal.

use crate::common::planted::{plant, side_by_side};
use crate::common::summaries::{row, summary_under};
use consort_sim::consort::{Consort, Library};
use consort_sim::fluid::LAG_MAX_SLICES;
use consort_sim::mutate::Mutation;
use consort_sim::{run_against_ideal, scenario};
use std::path::Path;

const CLOCKS: &str = "kernel/bpf/clocks.h";
const WAY: &str = "kernel/bpf/way.h";

/// Each with the mix that it breaks, and how far, in slices, nobody is behind there without it.
const BUGS: [(Mutation, &str, f64); 10] = [
    (
        Mutation {
            name: "gaps-stay",
            file: CLOCKS,
            from: "return *most - gap > slack || gap > GAP_MAX;",
            to: "return gap > GAP_MAX;",
        },
        "pins_leave",
        LAG_MAX_SLICES,
    ),
    (
        Mutation {
            name: "every-gap-is-closed",
            file: CLOCKS,
            from: "if (shrinks)",
            to: "if (nearest != NEVER_NS)",
        },
        "pins",
        LAG_MAX_SLICES,
    ),
    (
        Mutation {
            name: "newcomers-begin-at-the-shards-clock",
            file: "kernel/bpf/queue.h",
            from: "return c->running && c->shard == shard ? c->clock : ",
            to: "return ",
        },
        "masks_waker",
        LAG_MAX_SLICES,
    ),
    (
        Mutation {
            name: "places-do-not-rest",
            file: CLOCKS,
            from: "if (lag <= 0)",
            to: "if (1)",
        },
        "masks_way",
        LAG_MAX_SLICES,
    ),
    (
        Mutation {
            name: "who-keeps-others-waiting-is-alone",
            file: "core/live.h",
            from: "\tlive_busy_until(all, until_ns);\n}",
            to: "}",
        },
        "pins_in_turns",
        LAG_MAX_SLICES,
    ),
    (
        Mutation {
            name: "gives-way-to-its-own-cgroup",
            file: WAY,
            from: "if (!n || n == tree_member_above(pays_of(running), &pl->root))",
            to: "if (!n)",
        },
        "llc",
        LAG_MAX_SLICES,
    ),
    (
        Mutation {
            name: "looks-in-step",
            file: "kernel/bpf/run.h",
            from: "now_ns + out_of_step_ns(now_ns, slice)",
            to: "now_ns + slice",
        },
        "part",
        2.2,
    ),
    (
        Mutation {
            name: "nowhere-is-faster",
            file: "kernel/bpf/speeds.h",
            from: "return to->pick.served * g->load > there + there / SPEED_PARTS;",
            to: "return false;",
        },
        "mask_of_two_caches",
        LAG_MAX_SLICES,
    ),
    (
        Mutation {
            name: "heavy-ones-weigh-all",
            file: "kernel/bpf/speeds.h",
            from: "return load < all ? load : all;",
            to: "return all;",
        },
        "heavy_in_a_cache",
        LAG_MAX_SLICES,
    ),
    (
        Mutation {
            name: "light-ones-weigh-as-all",
            file: "kernel/bpf/speeds.h",
            from: "speed_take(c, (u64)nr * WEIGHT_ONE, load_of_weight(node_weight(n)));",
            to: "speed_take(c, (u64)pl->nr_runnable * WEIGHT_ONE, pl->root.load);",
        },
        "heavy_uneven",
        75.0,
    ),
];

/// Whether somebody is further behind the ideal than that, or a promise does not hold.
fn is_unfair(library: &Library, mix: &str, most_slices: f64) -> bool {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("scenarios/mixes/{mix}.json"));
    let scenario = scenario::load(&path, None).unwrap_or_else(|error| panic!("{error}"));
    let scheduler = Box::new(Consort::new(library));
    let outcome = run_against_ideal(&scenario.setup, scenario.warmup_ns, scheduler, &mut ())
        .unwrap_or_else(|error| panic!("{mix}: {error}"));
    let behind = outcome.fluid_lag.expect("the ideal of the mix is defined");
    println!(
        "{mix}: {behind:?} {:?}",
        outcome.violation.as_ref().map(|v| v.rule)
    );
    outcome.violation.is_some() || behind.slices > most_slices
}

#[test]
fn each_planted_bug_is_seen() {
    side_by_side(&BUGS, |(bug, mix, most_slices)| {
        assert!(!is_unfair(&Library::built_in(), mix, *most_slices), "{mix}");
        assert!(
            is_unfair(&plant(bug), mix, *most_slices),
            "{} is not seen",
            bug.name
        );
    });
}

/// The longest wait of the tasks of that name in a mix.
fn longest_wait_ms(library: &Library, mix: &str, name: &str) -> f64 {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("scenarios/mixes/{mix}.json"));
    let text = std::fs::read_to_string(path).unwrap();
    let summary = summary_under(Box::new(Consort::new(library)), &text, None);
    row(&summary, name).wait_max_ms
}

/// Bugs with a mix, whose tasks wait there, how long at most without the bug, and for how much longer at least with it.
const WAITS: [(Mutation, &str, &str, f64, f64); 2] = [
    (
        Mutation {
            name: "nobody-is-ahead",
            file: WAY,
            from: "if (looks_for_one_ahead(c, cpu, running, pl))",
            to: "if (0)",
        },
        // A slice of each of the others that are bound, and one of the heavy cgroup's.
        "masks_ahead",
        "bound",
        16.0,
        2.0,
    ),
    (
        Mutation {
            name: "passed-for-ever",
            file: "kernel/bpf/choose.h",
            from: "return now_ns - t->member.waiter.since_ns < slices * pl->quantum_ns;",
            to: "return true;",
        },
        // Two turns of its cgroup, which has three quarters of a CPU for four, less a slice.
        "masks_cgroups",
        "b",
        42.0,
        1.1,
    ),
];

#[test]
fn those_who_have_less_than_a_cpu_wait_no_longer_than_they_must() {
    side_by_side(&WAITS, |(bug, mix, name, most_ms, times)| {
        let wait_ms = longest_wait_ms(&Library::built_in(), mix, name);
        assert!(wait_ms < *most_ms, "{mix}: {wait_ms}");
        let wait_ms = longest_wait_ms(&plant(bug), mix, name);
        assert!(wait_ms > most_ms * times, "{}: {wait_ms}", bug.name);
    });
}
