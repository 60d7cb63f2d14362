// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort sim` for tests: folders, files, and what the command says.
#![allow(dead_code)] // each test uses its part

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::atomic::{AtomicU32, Ordering},
};

use serde_json::Value;

/// A folder that is removed when dropped.
pub struct Folder(pub PathBuf);

impl Folder {
    /// Tests of one process run side by side, and may use the same name.
    pub fn new(name: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let own = format!("consort-sim-{name}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(own);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    pub fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.0.join(name), text).unwrap();
        self.path(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn sim(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_consort"))
        .arg("sim")
        .args(args)
        .output()
        .unwrap()
}

pub fn code(output: &Output) -> i32 {
    output.status.code().expect("not killed")
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Standard output of a run that must succeed.
pub fn succeed(args: &[&str]) -> String {
    let output = sim(args);
    assert_eq!(code(&output), 0, "{args:?}: {}", stderr(&output));
    stdout(&output)
}

pub fn json(args: &[&str]) -> Value {
    serde_json::from_str(&succeed(args)).unwrap()
}

pub fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../sim/scenarios")
}

pub fn scenario(name: &str) -> String {
    scenarios().join(name).to_str().unwrap().to_owned()
}

pub fn shares(summary: &Value) -> Vec<(String, f64)> {
    let tasks = summary["tasks"].as_array().unwrap().iter();
    tasks
        .map(|task| {
            let share = task["share_percent"].as_f64().unwrap();
            (task["name"].as_str().unwrap().to_owned(), share)
        })
        .collect()
}
