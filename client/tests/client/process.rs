// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process has one link to the daemon, so every test that uses it gets a process to itself.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const NAME_VARIABLE: &str = "CONSORT_TEST_NAME";
/// A test that hangs is ended, so that it fails with its name.
const HANG: Duration = Duration::from_secs(120);

/// Runs `body` in a process of its own, with a socket path of its own in CONSORT_SOCKET.
pub fn alone(path: &str, body: impl FnOnce()) {
    let (_, name) = path.split_once("::").unwrap();
    if std::env::var(NAME_VARIABLE).as_deref() == Ok(name) {
        return body();
    }
    let folder = scratch_folder(name);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(NAME_VARIABLE, name)
        .env("CONSORT_SOCKET", folder.join("socket"))
        // Tests of the other hosts say so themselves.
        .env("CONSORT_HOST", "kernel")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if started.elapsed() > HANG {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(status.success(), "{name} in its own process: {status}");
}

/// A fresh folder for one test.
pub fn scratch_folder(name: &str) -> PathBuf {
    let unique = format!("consort-{}-{}", std::process::id(), name.replace("::", "-"));
    let folder = std::env::temp_dir().join(unique);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

macro_rules! isolated {
    ($name:ident, $body:block) => {
        #[test]
        fn $name() {
            crate::process::alone(concat!(module_path!(), "::", stringify!($name)), || $body)
        }
    };
}
pub(crate) use isolated;
