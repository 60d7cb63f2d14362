// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs in containers: their numbers are their own, and the kernel translates them.

use std::{
    fs,
    process::{Child, Command, Stdio},
    time::Duration,
};

use consort_daemon::{
    peer::{Peer, Processes},
    targets::{Scope, Target},
};

/// A process that is number 1 of a pid namespace of its own.
struct Contained {
    unshare: Child,
    pid: i32,
}

impl Contained {
    /// `None` where this user may make no namespaces.
    fn start() -> Option<Contained> {
        let unshare = Command::new("unshare")
            .args([
                "--user",
                "--map-root-user",
                "--pid",
                "--fork",
                "--kill-child",
                "sleep",
                "60",
            ])
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let id = unshare.id();
        let children = format!("/proc/{id}/task/{id}/children");
        let mut contained = Contained { unshare, pid: 0 };
        for _ in 0..2000 {
            if contained.unshare.try_wait().unwrap().is_some() {
                return None;
            }
            let text = fs::read_to_string(&children).unwrap_or_default();
            if let Some(pid) = text.split_ascii_whitespace().next() {
                contained.pid = pid.parse().unwrap();
                return Some(contained);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("it never started");
    }

    fn peer(&self) -> Peer {
        let uid = nix::unistd::getuid().as_raw();
        Processes::default().peer(self.pid, uid).unwrap()
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        let _ = self.unshare.kill();
        let _ = self.unshare.wait();
    }
}

#[test]
fn a_program_in_a_container_names_its_processes_and_threads_as_it_knows_them() {
    let Some(contained) = Contained::start() else {
        eprintln!("not tested: no namespaces for this user");
        return;
    };
    let (processes, peer) = (Processes::default(), contained.peer());
    assert!(peer.namespaced);
    let (cost, thread) = processes.thread(&peer, 1);
    assert_eq!((cost, thread.unwrap().tid), (1, contained.pid));
    for scope in [Scope::Any, Scope::Thread] {
        let target = processes.target(&peer, 1, scope).unwrap();
        assert_eq!(target, processes.target(&peer, 0, scope).unwrap());
        assert_eq!(target.number(), contained.pid);
        assert_eq!(
            matches!(target, Target::Thread { .. }),
            scope == Scope::Thread
        );
    }
    // Numbers of the outside mean nothing inside, not even its own.
    for number in [contained.pid, std::process::id() as i32] {
        assert!(
            processes.target(&peer, number, Scope::Any).is_err(),
            "{number}"
        );
    }
}
