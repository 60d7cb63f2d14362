// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort sim mixes` as a user meets it.

use crate::common::{code, json, sim, stderr, stdout, succeed, Folder};
use serde_json::Value;

/// A wait of 400 ms among five hogs is no promise that breaks, but a mix that does not hold.
#[test]
fn mixes_are_judged() {
    let folder = Folder::new("mixes");
    let good = folder.write(
        "good.json",
        r#"{"global": {"duration": 3}, "tasks": {"a": {"hog": true, "instance": 3}}}"#,
    );
    let text = succeed(&["mixes", &good]);
    assert!(text.starts_with("good             holds  share "), "{text}");
    assert!(text.ends_with("1 of 1 mixes hold\n"), "{text}");

    let coarse = r#"{"global": {"duration": 3}, "tunables": {"granularity": "500ms", "min_slice": "100ms"},
        "tasks": {"a": {"hog": true, "instance": 5}}}"#;
    let bad = folder.write("bad.json", coarse);
    let output = sim(&["mixes", &good, &bad, "--all"]);
    assert_eq!(code(&output), 8, "{}", stderr(&output));
    let text = stdout(&output);
    assert!(
        text.contains("bad              FAILS") && text.contains("under EEVDF"),
        "{text}"
    );
    assert!(
        stderr(&output).contains("1 of 2 mixes do not hold"),
        "{}",
        stderr(&output)
    );

    let all = serde_json::from_str::<Value>(&stdout(&sim(&["mixes", &bad, "--json"]))).unwrap();
    assert_eq!(all["held"], 0);
    assert!(
        all["worst"]["wait_ratio_max"].as_f64().unwrap() > 10.0,
        "{all}"
    );
    assert_eq!(all["mixes"][0]["name"], "bad");
}

#[test]
fn mixes_are_drawn_from_seeds() {
    // Seeds 9 and 10 are small, and hold.
    let all = json(&["mixes", "--generated", "2", "--seed", "9", "--json"]);
    assert_eq!(all["mixes"].as_array().unwrap().len(), 2);
    assert!(
        all["worst"]["fluid_lag_max_slices"].as_f64().unwrap() < 8.0,
        "{all}"
    );
    let nothing = sim(&["mixes"]);
    assert_eq!(code(&nothing), 2, "{}", stderr(&nothing));
}

/// A mask of all CPUs makes no difference, and where there is nobody without one it cannot be tried.
#[test]
fn mixes_are_compared_with_changed_ones() {
    let folder = Folder::new("changed");
    let mix = |mask| {
        format!(
            r#"{{"global": {{"duration": 3}}, "machine": {{"cpus": 2}}, "tasks": {{"a": {{"hog": true, "instance": 3 {mask} }}}}}}"#
        )
    };
    let free = folder.write("free.json", &mix(""));
    let masked = folder.write("masked.json", &mix(r#", "cpus": [0, 1]"#));
    let text = succeed(&["mixes", &free, &masked, "--changed", "mask"]);
    assert_eq!(
        text,
        "free             is as it was\nmasked           cannot be changed so\n1 of 1 mixes are as they were\n"
    );
    let unknown = sim(&["mixes", &free, "--changed", "cache"]);
    assert_eq!(code(&unknown), 2);
    assert!(
        stderr(&unknown).contains("there are mask, wrap, idle, caches, later"),
        "{}",
        stderr(&unknown)
    );
}
