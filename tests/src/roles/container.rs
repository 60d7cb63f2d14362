// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program in a container that an ordinary user has made: users, processes and files are its own, and of the outside it has
//! the folder of the daemon's socket.

use std::{fs, path::Path};

use consort::{lend, now_ns, Next, Reservation};
use nix::{
    mount::{mount, MsFlags},
    sched::{unshare, CloneFlags},
    sys::{prctl, signal::Signal, wait::waitpid},
    unistd::{chdir, chroot, fork, getgid, getpid, getuid, ForkResult},
};

use super::{join, show, sleeping_thread};
use crate::suite::board::{Board, Field};

const MS: u64 = 1_000_000;
/// Where the container's files are made.
const ROOT: &str = "/tmp";
const SOCKETS: &str = "/run/consort";

/// `container`: in one, joins the domain `contained`, reserves for a thread and for its process, and lends that thread more. Errors
/// counts what was granted and must not be.
pub fn container(board: &Board, _: &[&str]) -> Result<(), String> {
    let outside = getpid().as_raw() as u32;
    let (uid, gid) = (getuid(), getgid());
    let flags = CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID;
    unshare(flags).map_err(|errno| format!("cannot make namespaces: {errno}"))?;
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/uid_map", &format!("0 {uid} 1"))?;
    write("/proc/self/gid_map", &format!("0 {gid} 1"))?;
    // SAFETY: this process has one thread.
    match unsafe { fork() }.map_err(|errno| format!("cannot fork: {errno}"))? {
        ForkResult::Parent { child } => waitpid(child, None)
            .map(drop)
            .map_err(|errno| errno.to_string()),
        ForkResult::Child => {
            let _ = prctl::set_pdeathsig(Signal::SIGKILL);
            let ended = enter().and_then(|()| contained(board, outside));
            // What failed is said by the role, which this process is not.
            if let Err(text) = ended {
                println!("in the container: {text}");
            }
            std::process::exit(1)
        }
    }
}

fn write(path: &str, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("cannot write {path}: {error}"))
}

/// A root of its own, with /proc and the daemon's folder.
fn enter() -> Result<(), String> {
    let root = Path::new(ROOT);
    let place = |of: Option<&str>, at: &Path, kind: Option<&str>, flags: MsFlags| {
        mount(of, at, kind, flags, None::<&str>)
            .map_err(|errno| format!("cannot mount {}: {errno}", at.display()))
    };
    let folder = |name: &str| {
        let at = root.join(name);
        let made = fs::create_dir_all(&at);
        made.map_err(|error| format!("cannot make {}: {error}", at.display()))?;
        Ok::<_, String>(at)
    };
    place(
        None,
        Path::new("/"),
        None,
        MsFlags::MS_REC | MsFlags::MS_PRIVATE,
    )?;
    place(Some("root"), root, Some("tmpfs"), MsFlags::empty())?;
    place(
        Some("proc"),
        &folder("proc")?,
        Some("proc"),
        MsFlags::empty(),
    )?;
    let sockets = folder(SOCKETS.trim_start_matches('/'))?;
    place(Some(SOCKETS), &sockets, None, MsFlags::MS_BIND)?;
    chroot(root)
        .and_then(|()| chdir("/"))
        .map_err(|errno| format!("cannot enter {ROOT}: {errno}"))
}

fn contained(board: &Board, outside: u32) -> Result<(), String> {
    if getpid().as_raw() != 1 || !getuid().is_root() {
        return Err("expected to be process 1 of user 0".to_owned());
    }
    let said = |what: &str, done: Result<(), consort::Error>| {
        done.map_err(|error| format!("cannot {what}: {error}"))
    };
    let member = join("contained")?;
    let of_process = Reservation::in_class("guaranteed").rate(0.2);
    let of_thread = of_process.clone().rate(0.1);
    // Before its process, whose threads share what it reserves.
    let (has_own, shares) = (sleeping_thread(), sleeping_thread());
    let reserved = of_thread.clone().for_thread(has_own).reserve();
    said("reserve for a thread", reserved)?;
    said("reserve for the process", of_process.reserve())?;
    said("lend to a thread", lend(has_own, 0.05))?;
    for named in [
        // It has a part in what it would be lent.
        lend(shares, 0.05),
        // Nobody in here has that number.
        lend(outside, 0.05),
        of_thread.clone().for_process(outside).reserve(),
        of_thread.for_thread(outside).reserve(),
    ] {
        board.add(Field::Errors, u64::from(named.is_ok()));
    }
    loop {
        let next = Next::due(now_ns() + 20 * MS);
        show(
            board,
            &member.poll(next).map_err(|error| error.to_string())?,
        );
        board.set(Field::Ready, 1);
    }
}
