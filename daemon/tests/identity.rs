// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers that the kernel gives to somebody else while the daemon looks at whom they mean. A file that is a pipe lets the
//! test change what the others say between two looks.

mod common;

use std::{
    fs,
    os::fd::{AsRawFd, OwnedFd},
    path::{Path, PathBuf},
    thread::{self, JoinHandle},
    time::Duration,
};

use common::{write_thread, Folder};
use consort_daemon::{
    listen::Listener,
    peer::Processes,
    targets::{Scope, Target},
};
use nix::{
    errno::Errno,
    sys::{
        signal::{kill, Signal},
        socket::{connect, socket, AddressFamily, SockFlag, SockType, UnixAddr},
        stat::Mode,
        wait::waitpid,
    },
    unistd::{fork, getuid, mkfifo, ForkResult, Pid},
};

const USER: u32 = 70_001;
const PROCESS: i32 = 4000;

/// Makes `file` a pipe. Its reader waits until `change` was done, and reads what it said before.
fn change_at(file: PathBuf, change: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let said = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    mkfifo(&file, Mode::from_bits_truncate(0o600)).unwrap();
    thread::spawn(move || {
        // Opens as soon as somebody reads.
        let mut pipe = fs::OpenOptions::new().write(true).open(&file).unwrap();
        change();
        // Whoever looks again sees a file.
        fs::remove_file(&file).unwrap();
        fs::write(&file, &said).unwrap();
        std::io::Write::write_all(&mut pipe, &said).unwrap();
    })
}

/// The process of that number is another one from now on.
fn give_away(root: &Path) {
    let stat = root.join(format!("{PROCESS}/stat"));
    let said = fs::read_to_string(&stat).unwrap();
    fs::write(&stat, said.replace(" 5 0 ", " 6 0 ")).unwrap();
}

#[test]
fn who_ends_while_its_owner_is_read_is_not_taken_for_the_next_one() {
    let folder = Folder::new();
    write_thread(&folder.0, PROCESS, &[PROCESS], USER, 5);
    let processes = Processes::at(&folder.0);
    let peer = processes.peer(PROCESS, USER).unwrap();
    let found = processes.target(&peer, PROCESS, Scope::Any).unwrap();
    let expected = Target::Process {
        pid: PROCESS,
        start: 5,
    };
    assert_eq!(found, expected);
    let other = PROCESS + 1;
    write_thread(&folder.0, other, &[other], USER, 7);
    let peer = processes.peer(other, USER).unwrap();
    let root = folder.0.clone();
    let status = folder.0.join(format!("{PROCESS}/status"));
    let changed = change_at(status, move || give_away(&root));
    let refusal = processes.target(&peer, PROCESS, Scope::Any).unwrap_err();
    changed.join().unwrap();
    assert_eq!(refusal.errno, Errno::ESRCH);
}

#[test]
fn who_ends_while_its_thread_is_looked_for_gets_nobody_elses() {
    let folder = Folder::new();
    write_thread(&folder.0, PROCESS, &[PROCESS], USER, 5);
    write_thread(&folder.0, PROCESS, &[PROCESS + 9], USER, 5);
    let processes = Processes::at(&folder.0);
    let peer = processes.peer(PROCESS, USER).unwrap();
    let (_, found) = processes.thread(&peer, PROCESS + 9);
    assert_eq!(found.unwrap().tid, PROCESS + 9);
    let root = folder.0.clone();
    let stat = folder
        .0
        .join(format!("{PROCESS}/task/{}/stat", PROCESS + 9));
    let changed = change_at(stat, move || give_away(&root));
    let (_, found) = processes.thread(&peer, PROCESS + 9);
    changed.join().unwrap();
    assert_eq!(found.unwrap_err().errno, Errno::EPERM);
}

/// A child that connects with `socket`, which it shares with us, and does nothing more.
fn child_that_connects(socket: &OwnedFd, path: &Path) -> Pid {
    let address = UnixAddr::new(path).unwrap();
    // SAFETY: the child calls nothing that may allocate or lock.
    match unsafe { fork() }.unwrap() {
        ForkResult::Parent { child } => child,
        ForkResult::Child => {
            let _ = connect(socket.as_raw_fd(), &address);
            // SAFETY: system calls; it ends should nobody end it.
            unsafe {
                libc::alarm(60);
                libc::pause();
                libc::_exit(1)
            }
        }
    }
}

/// Its number may be anybody's by then: on paper a process of the same user has it all the time.
#[test]
fn who_hands_its_connection_on_and_ends_is_refused() {
    let folder = Folder::new();
    let path = folder.0.join("socket");
    let listener = Listener::bind(&path).unwrap();
    let kind = SockType::SeqPacket;
    let handed_on = socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None).unwrap();
    let child = child_that_connects(&handed_on, &path);
    let accepted = (0..10_000).find_map(|_| {
        thread::sleep(Duration::from_millis(1));
        listener.accept().unwrap()
    });
    let connection = accepted.expect("a connection");
    let pid = child.as_raw();
    write_thread(&folder.0, pid, &[pid], getuid().as_raw(), 5);
    let processes = Processes::at(&folder.0);
    let peer = processes.peer_of(&connection).unwrap();
    assert_eq!(peer.pid, pid);
    kill(child, Signal::SIGKILL).unwrap();
    waitpid(child, None).unwrap();
    let refusal = processes.peer_of(&connection).unwrap_err();
    assert_eq!(refusal.errno, Errno::EACCES, "{}", refusal.text);
    // Whom it was let in as before is not taken for the next one.
    let (_, found) = processes.thread(&peer, pid);
    assert_eq!(found.unwrap_err().errno, Errno::EPERM);
}
