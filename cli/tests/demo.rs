// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort demo` with a player that only writes logs; packaging/test has the real one.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

/// Each of its players shows one frame, 2 ms late (3 ms without cooperation), in the first second that counts.
const PLAYER: &str = r#"#!/bin/sh
late=2000000
while [ $# -gt 1 ]; do
    case $1 in
        --start-at) at=$2 ;;
        --log) log=$2 ;;
        --players) players=$2 ;;
        --no-consort) late=3000000 ;;
    esac
    shift
done
[ -n "$log" ] || exit 0
[ "$1" != bad.mp4 ] || { echo "no video" >&2; exit 1; }
due=$((at + 4500000000))
i=0
while [ $i -lt "${players:-1}" ]; do
    echo "{\"type\": \"frame\", \"player\": $i, \"due_ns\": $due, \"dispatch_ns\": $((due + late)), \"shown\": true}" >>"$log"
    i=$((i + 1))
done
"#;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path =
            std::env::temp_dir().join(format!("consort-demo-test-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("consort-play"), PLAYER).unwrap();
        fs::set_permissions(path.join("consort-play"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(path.join("film.mp4"), "").unwrap();
        fs::write(path.join("bad.mp4"), "").unwrap();
        Folder(path)
    }

    fn demo(&self, args: &[&str]) -> Output {
        let path = format!("{}:/usr/bin:/bin", self.0.display());
        Command::new(env!("CARGO_BIN_EXE_consort"))
            .arg("demo")
            .args(args)
            .current_dir(&self.0)
            .env("PATH", path)
            .env("CONSORT_SOCKET", self.0.join("none.sock"))
            .output()
            .unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn three_rounds_are_compared() {
    let folder = Folder::new("rounds");
    let args = ["film.mp4", "--players", "3", "--seconds", "5"];
    let output = folder.demo(&[&args[..], &["--json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rounds = said["rounds"].as_array().unwrap();
    let words: Vec<&Value> = rounds.iter().map(|round| &round["round"]).collect();
    assert_eq!(words, ["apart", "together", "one process"]);
    let means: Vec<f64> = rounds
        .iter()
        .map(|round| round["tardiness_mean_ms"].as_f64().unwrap())
        .collect();
    assert_eq!(means, [3.0, 2.0, 3.0]);
    assert!(rounds.iter().all(|round| round["frames_per_s_sum"] == 3.0));
    let output = folder.demo(&args);
    let table = text(&output.stdout);
    for part in [
        "stock scheduler, no cooperation",
        "cooperating at user level",
        "one process (ideal)",
        "100.0",
    ] {
        assert!(table.contains(part), "{part}: {table}");
    }
}

#[test]
fn what_is_missing_or_fails_is_said() {
    let folder = Folder::new("missing");
    let some = ["--players", "2"];
    for (film, part) in [
        ("none.mp4", "there is no film at none.mp4"),
        ("bad.mp4", "it said: no video"),
    ] {
        let output = folder.demo(&[&some[..], &[film]].concat());
        assert_eq!(output.status.code(), Some(1), "{film}");
        assert!(
            text(&output.stderr).contains(part),
            "{}",
            text(&output.stderr)
        );
    }
    fs::remove_file(Path::new(&folder.0).join("consort-play")).unwrap();
    let output = folder.demo(&[&some[..], &["film.mp4"]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("package consort-play"));
}
