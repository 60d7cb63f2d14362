// SPDX-License-Identifier: MIT OR Apache-2.0
//! A GStreamer application that is not changed, under a group file: found by rules, and named by our tracer; and the display
//! server that it draws with.

use std::{
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::Value;

use super::groups::{apply, bound};
use crate::{
    check,
    suite::{
        machine::thread_time_ns,
        process::{wait_until, Role, ALICE, PATIENCE},
        Cpus, Needs, Outcome, Test,
    },
};

pub const TESTS: &[Test] = &[
    Test {
        name: "gstreamer.unchanged",
        cpus: Cpus::Any,
        needs: Needs::Daemon,
        run: unchanged,
    },
    Test {
        name: "gstreamer.tracer",
        cpus: Cpus::Any,
        needs: Needs::Daemon,
        run: traced,
    },
    Test {
        name: "gstreamer.display_follows",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: display,
    },
];

const LAUNCH: &str = "/usr/bin/gst-launch-1.0";
const XVFB: &str = "/usr/bin/Xvfb";
const DISPLAY: &str = ":9";
/// Where its server listens.
const DISPLAY_SOCKET: &str = "/tmp/.X11-unix/X9";
/// Frames that a display has to follow.
const FOLLOWED: u64 = 50;
const SHOWN_NOWHERE: &str = "fakesink sync=true";
/// Most frames that the queue takes.
const CAPACITY: i64 = 8;
/// A thread that shows a frame each 40 ms uses that much before long.
const RUNS_NS: u64 = 2_000_000;

/// A program of alice's; killed when it goes out of scope.
struct Launch(Child);

impl Launch {
    fn spawn(mut command: Command) -> Result<Launch, String> {
        command.uid(ALICE).gid(ALICE).stdin(Stdio::null());
        let child = command
            .spawn()
            .map_err(|error| format!("cannot start {command:?}: {error}"))?;
        Ok(Launch(child))
    }

    /// A pipeline of two threads.
    fn start(sink: &str, environment: &[(&str, &str)]) -> Result<Launch, String> {
        let pipeline = format!(
            "videotestsrc name=make ! video/x-raw,width=64,height=48,framerate=25/1 \
             ! queue name=show max-size-buffers={CAPACITY} max-size-time=0 ! {sink}"
        );
        let mut command = Command::new(LAUNCH);
        command
            .arg("--quiet")
            .args(pipeline.split_whitespace())
            .env("GST_REGISTRY", "/tmp/gstreamer-registry")
            // The program that looks at plugins elsewhere is not in the guest.
            .env("GST_REGISTRY_FORK", "no")
            .envs(environment.iter().copied());
        Launch::spawn(command)
    }

    /// The display server, once it can be asked.
    fn start_display() -> Result<Launch, String> {
        let mut command = Command::new(XVFB);
        command.args([DISPLAY, "-screen", "0", "320x240x24", "-nolisten", "tcp"]);
        let mut display = Launch::spawn(command)?;
        wait_until(PATIENCE, "the display server", || {
            match display.0.try_wait() {
                Ok(None) => Ok(Path::new(DISPLAY_SOCKET).exists()),
                ended => Err(format!("it has ended: {ended:?}")),
            }
        })?;
        Ok(display)
    }

    /// The thread of this pipeline that a member is bound to, as `consort show` has it.
    fn await_bound(&mut self, member: &str) -> Result<Value, String> {
        let pid = self.0.id();
        let mut found = Value::Null;
        wait_until(PATIENCE, &format!("{member} to be bound"), || {
            let threads = bound(member)?;
            match threads.iter().find(|one| one["pid"] == pid) {
                Some(thread) => found = thread.clone(),
                None => return Err(format!("bound are {threads:?}")),
            }
            Ok(true)
        })
        .map_err(|text| format!("{text}; {LAUNCH}: {:?}", self.0.try_wait()))?;
        Ok(found)
    }

    /// It is bound, and goes on running beside others.
    fn await_running(&mut self, member: &str) -> Outcome {
        let tid = self.await_bound(member)?["tid"]
            .as_u64()
            .unwrap_or_default() as u32;
        let pid = self.0.id();
        let begun_ns = thread_time_ns(pid, tid)?;
        wait_until(PATIENCE, &format!("{member} to run"), || {
            Ok(thread_time_ns(pid, tid)? >= begun_ns + RUNS_NS)
        })
    }
}

impl Drop for Launch {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A member that is found by the name that GStreamer gives its thread.
fn member(name: &str) -> String {
    format!(
        "{{ name = \"{name}\", rule = {{ executable = \"{LAUNCH}\", thread = \"{name}:src\" }} }}"
    )
}

fn unchanged() -> Outcome {
    let _hog = Role::ready("hog")?;
    let text = format!(
        "[group.film]\nfunction = \"plan\"\nclass = \"guaranteed\"\nrate = 0.2\nperiod = \"40ms\"\n\
         members = [{}, {}]",
        member("show"),
        member("make")
    );
    let _applied = apply(ALICE, "gstreamer", &text)?;
    // The second run finds the names as the first one did.
    for _ in 0..2 {
        let mut launch = Launch::start(SHOWN_NOWHERE, &[])?;
        for name in ["show", "make"] {
            launch.await_running(name)?;
            let command = launch.await_bound(name)?["command"].clone();
            check!(
                command == format!("{name}:src"),
                "{name} is the thread {command}"
            );
        }
    }
    Ok(())
}

/// Threads announce themselves, and the level of the queue is what the pipeline is scheduled by.
fn traced() -> Outcome {
    let _hog = Role::ready("hog")?;
    let text = "[group.film]\nfunction = \"pipeline\"\nhigh = 6\nstate = { queued = 0 }\n\
                members = [\"make\", \"show\"]";
    let _applied = apply(ALICE, "gstreamer", text)?;
    let mut launch = Launch::start(
        SHOWN_NOWHERE,
        &[
            ("GST_TRACERS", "consort"),
            ("GST_PLUGIN_PATH", "/usr/lib/consort"),
        ],
    )?;
    for name in ["show", "make"] {
        launch.await_running(name)?;
    }
    wait_until(PATIENCE, "the level of the queue", || {
        let queued = launch.await_bound("make")?["role"]["state"][0].clone();
        check!(queued[0] == "queued", "the state is {queued}");
        let level = queued[1].as_i64().unwrap_or(-1);
        check!(
            (0..=CAPACITY).contains(&level),
            "{level} frames are in a queue for {CAPACITY}"
        );
        Ok(level > 0)
    })
}

/// The server runs when the pipeline has drawn, beside a program that always wants the CPU.
fn display() -> Outcome {
    let mut display = Launch::start_display()?;
    let _hog = Role::ready("hog")?;
    let text = format!(
        "[group.film]\nfunction = \"plan\"\nmembers = [{}, {{ name = \"x\", follows = \"show\", \
         at_most = \"5ms\", rule = {{ executable = \"{XVFB}\" }} }}, {}]",
        member("show"),
        member("make")
    );
    let _applied = apply(ALICE, "gstreamer", &text)?;
    let mut launch = Launch::start("ximagesink", &[("DISPLAY", DISPLAY)])?;
    launch.await_running("show")?;
    let count = |display: &mut Launch| -> Result<[u64; 2], String> {
        let role = display.await_bound("x")?["role"].clone();
        let causes = role["missed"].as_object();
        let missed = causes.map_or(0, |all| all.values().filter_map(Value::as_u64).sum());
        Ok([role["kept"].as_u64().unwrap_or_default(), missed])
    };
    let [kept_before, missed_before] = count(&mut display)?;
    wait_until(PATIENCE, "the display to follow", || {
        let [kept, missed] = count(&mut display)?;
        Ok(kept + missed >= kept_before + missed_before + FOLLOWED)
    })?;
    let [kept, missed] = count(&mut display)?;
    let (kept, missed) = (kept - kept_before, missed - missed_before);
    check!(
        missed * 20 <= kept,
        "of {} submissions the display followed {kept}",
        kept + missed
    );
    display.await_running("x")
}
