// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a daemon starts and ends.

mod common;

use std::{
    env, fs, io,
    os::{fd::AsRawFd, unix::fs::PermissionsExt, unix::net::UnixDatagram},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use common::{gettid, join, Daemon, FakeHost, Program};
use consort_abi::CONSORT_HELLO;
use consort_daemon::{
    config::Division,
    listen::Listener,
    lock::{Lock, LockError},
    serve, End, ServeError,
};
use nix::{
    fcntl::{Flock, FlockArg},
    sys::{
        signal::Signal,
        socket::{self, AddressFamily, Backlog, SockFlag, SockType, UnixAddr},
    },
};

#[test]
fn a_second_daemon_names_the_first() {
    let daemon = Daemon::start();
    let second = serve(&daemon.config, |_| {
        panic!("the second daemon must not load a scheduler")
    });
    match second {
        Err(ServeError::Lock(LockError::Held { holder })) => {
            assert_eq!(holder, std::process::id() as i32);
        }
        other => panic!("{other:?}"),
    }
    // The first is not disturbed.
    daemon.hello();
}

#[test]
fn everybody_may_connect_and_nobody_else_may_hold_the_lock() {
    let daemon = Daemon::start();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&daemon.config.socket), 0o666);
    assert_eq!(mode(&daemon.config.socket.with_extension("lock")), 0o600);
}

/// The lock of an earlier version could be opened, and so held, by everybody.
#[test]
fn a_stranger_who_holds_an_old_lock_keeps_no_daemon_from_starting() {
    let folder = common::Folder::new();
    let lock = folder.0.join("consort.lock");
    fs::write(&lock, "4711\n").unwrap();
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o644)).unwrap();
    let strangers = fs::File::open(&lock).unwrap();
    let _held = Flock::lock(strangers, FlockArg::LockExclusiveNonblock).unwrap();
    let daemon = Daemon::in_folder(folder);
    daemon.hello();
}

/// Nor does one who has opened it, and holds it once the daemon has ended: what could be read is not locked again.
#[test]
fn an_old_lock_is_not_used_again() {
    let folder = common::Folder::new();
    let (lock, socket) = (folder.0.join("consort.lock"), folder.0.join("consort.sock"));
    fs::write(&lock, "4711\n").unwrap();
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o644)).unwrap();
    let strangers = fs::File::open(&lock).unwrap();
    drop(Lock::take(&socket).unwrap());
    let _held = Flock::lock(strangers, FlockArg::LockExclusiveNonblock).unwrap();
    drop(Lock::take(&socket).unwrap());
}

/// Whoever starts the daemon on demand answers at its socket meanwhile.
#[test]
fn a_daemon_that_is_given_its_socket_does_not_ask_there_for_another_one() {
    let folder = common::Folder::new();
    let (lock, socket) = (folder.0.join("consort.lock"), folder.0.join("consort.sock"));
    let _listener = Listener::bind(&socket).unwrap();
    fs::write(&lock, "4711\n").unwrap();
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o644)).unwrap();
    let strangers = fs::File::open(&lock).unwrap();
    let _held = Flock::lock(strangers, FlockArg::LockExclusiveNonblock).unwrap();
    assert!(matches!(Lock::take(&socket), Err(LockError::Held { .. })));
    let own = Lock::take_with_listener(&socket).unwrap();
    let again = Lock::take_with_listener(&socket);
    assert!(matches!(again, Err(LockError::Busy { .. })));
    drop(own);
}

/// Nobody is named who may be innocent.
#[test]
fn a_lock_that_is_held_while_nobody_listens_is_a_daemon_that_starts() {
    let folder = common::Folder::new();
    let socket = folder.0.join("consort.sock");
    let held = Lock::take(&socket).unwrap();
    let Err(LockError::Busy { path }) = Lock::take(&socket) else {
        panic!("taken twice");
    };
    assert_eq!(path, socket.with_extension("lock"));
    drop(held);
    Lock::take(&socket).unwrap();
}

#[test]
fn a_daemon_that_cannot_load_leaves_no_socket_and_no_lock() {
    let folder = common::Folder::new();
    let config = consort_daemon::Config {
        socket: folder.0.join("below/consort.sock"),
        limits: Default::default(),
        classes: None,
        division: Division::by_default(1),
        restarts: common::quick_restarts(),
        drops_privileges: false,
        replaces: false,
    };
    for _ in 0..2 {
        let failed = serve(&config, |_| Err(consort_kernel::Error::NotPermitted));
        assert!(
            matches!(
                failed,
                Err(ServeError::Kernel(consort_kernel::Error::NotPermitted))
            ),
            "{failed:?}"
        );
        assert!(!config.socket.exists());
    }
}

#[test]
fn a_detached_scheduler_ends_the_daemon_and_the_reason_is_handed_on() {
    let daemon = Daemon::start();
    let program = daemon.hello();
    assert_eq!(program.ask(&join(gettid(), 0, "video")).error, 0);
    let socket = daemon.config.socket.clone();
    let asked = common::unloaded();
    daemon.eject(asked.clone());
    match daemon.end() {
        Ok(End::Ejected { report, .. }) => assert_eq!(report, asked),
        other => panic!("{other:?}"),
    }
    assert!(!socket.exists());
    assert!(
        program.receive().is_none(),
        "programs learn of it by the closed connection"
    );
}

#[test]
fn a_daemon_replaces_the_socket_of_one_that_was_killed() {
    let folder = common::Folder::new();
    let path = folder.0.join("consort.sock");
    // A killed daemon leaves a socket on which nobody listens, and a lock file that nobody holds.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    fs::write(path.with_extension("lock"), "1234567\n").unwrap();
    let config = consort_daemon::Config {
        socket: path.clone(),
        limits: Default::default(),
        classes: None,
        division: Division::by_default(1),
        restarts: common::quick_restarts(),
        drops_privileges: false,
        replaces: false,
    };
    let host = FakeHost::default();
    let for_thread = host.clone();
    let thread = std::thread::spawn(move || serve(&config, |mode| for_thread.load(mode)));
    while Program::try_connect(&path).is_none() {
        std::thread::yield_now();
    }
    host.record().exit = Some(common::unloaded());
    assert!(matches!(thread.join().unwrap(), Ok(End::Ejected { .. })));
}

/// SIGHUP lets the daemon read its file again: all of it holds then, or nothing has changed.
#[test]
fn a_file_is_read_again_as_a_whole_or_not_at_all() {
    let folder = common::Folder::new();
    let file = folder.0.join("classes.toml");
    fs::write(&file, "[class.old]\ncapacity = 0.3\n").unwrap();
    let config = consort_daemon::Config {
        socket: folder.0.join("consort.sock"),
        limits: Default::default(),
        classes: Some(file.clone()),
        division: Division::read(Some(&file), 1).unwrap(),
        restarts: common::quick_restarts(),
        drops_privileges: false,
        replaces: false,
    };
    let host = FakeHost::default();
    let (for_thread, socket) = (host.clone(), config.socket.clone());
    let (send, receive) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || -> Result<End, ServeError> {
        send.send(nix::sys::pthread::pthread_self()).unwrap();
        serve(&config, |mode| for_thread.load(mode))
    });
    let daemon = receive.recv().unwrap();
    let connected = || Program::try_connect(&socket);
    while connected().is_none() {
        std::thread::yield_now();
    }
    let hang_up = || nix::sys::pthread::pthread_kill(daemon, Signal::SIGHUP).unwrap();
    let classes = || -> Vec<String> {
        let told = connected()
            .unwrap()
            .control(r#"{"command": "classes"}"#)
            .unwrap();
        let classes = told["classes"].as_array().unwrap().iter();
        classes
            .map(|class| class["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let wait_for = |expected: &[&str]| {
        while classes() != expected {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    };
    wait_for(&["old", "flexible"]);
    fs::write(
        &file,
        "[class.new]\ncapacity = 0.2\n[limits]\nprograms = 3\n",
    )
    .unwrap();
    hang_up();
    wait_for(&["new", "flexible"]);
    // Good classes beside a limit that is none: nothing of it.
    fs::write(
        &file,
        "[class.newer]\ncapacity = 0.2\n[limits]\nprograms = 0\n",
    )
    .unwrap();
    hang_up();
    // Signals are heard before what was asked after them is answered, a round of the daemon's loop later at most.
    for _ in 0..3 {
        assert_eq!(classes(), ["new", "flexible"]);
    }
    nix::sys::pthread::pthread_kill(daemon, Signal::SIGTERM).unwrap();
    assert!(matches!(
        thread.join().unwrap(),
        Ok(End::Signal(Signal::SIGTERM))
    ));
}

const IS_MANAGED: &str = "CONSORT_TEST_IS_MANAGED";

/// What a service manager is to the daemon: a socket that it tells.
struct Manager {
    path: PathBuf,
    socket: UnixDatagram,
    _folder: common::Folder,
}

impl Manager {
    fn new() -> Manager {
        let folder = common::Folder::new();
        let path = folder.0.join("manager.sock");
        let socket = UnixDatagram::bind(&path).unwrap();
        let patience = Some(Duration::from_secs(30));
        socket.set_read_timeout(patience).unwrap();
        Manager {
            path,
            socket,
            _folder: folder,
        }
    }

    fn heard(&self) -> String {
        let mut buffer = [0; 256];
        let length = self.socket.recv(&mut buffer).expect("a word within 30 s");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    /// The test `name` once more, in a process with the environment of a service manager's daemon, that serves.
    fn starts(&self, name: &str) -> Child {
        let daemon = Command::new(env::current_exe().unwrap())
            .args([name, "--exact"])
            .env(IS_MANAGED, "yes")
            .env("NOTIFY_SOCKET", &self.path)
            .env("FDSTORE", "100")
            .env("WATCHDOG_USEC", "500000")
            .env_remove("WATCHDOG_PID")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while self.heard() != "READY=1\nSTATUS=serving" {}
        daemon
    }
}

#[test]
fn a_service_manager_is_told_that_the_daemon_serves_and_that_its_loop_goes_round() {
    if env::var_os(IS_MANAGED).is_some() {
        let _daemon = Daemon::start();
        // Until the manager has heard enough.
        io::copy(&mut io::stdin(), &mut io::sink()).unwrap();
        return;
    }
    let manager = Manager::new();
    let name = "a_service_manager_is_told_that_the_daemon_serves_and_that_its_loop_goes_round";
    let mut daemon = manager.starts(name);
    for _ in 0..3 {
        assert_eq!(manager.heard(), "WATCHDOG=1");
    }
    drop(daemon.stdin.take());
    assert!(daemon.wait().unwrap().success());
}

/// Everybody may send to a manager's socket, and so keep it busy. Whoever is answered meanwhile is with the next daemon, too.
#[test]
fn a_service_manager_that_is_behind_is_told_later() {
    if env::var_os(IS_MANAGED).is_some() {
        let _daemon = Daemon::start();
        io::copy(&mut io::stdin(), &mut io::sink()).unwrap();
        return;
    }
    let manager = Manager::new();
    let mut daemon = manager.starts("a_service_manager_that_is_behind_is_told_later");
    let busy = UnixDatagram::unbound().unwrap();
    busy.set_nonblocking(true).unwrap();
    while busy.send_to(b"X=1", &manager.path).is_ok() {}
    let of_the_child = format!("consort-test-{}-0/consort.sock", daemon.id());
    let socket = env::temp_dir().join(of_the_child);
    let greet = || {
        let program = Program::try_connect(&socket).unwrap();
        let reply = program.ask(&common::request(CONSORT_HELLO));
        assert_eq!(reply.error, 0, "{}", reply.text);
        (program, reply.client)
    };
    let programs: Vec<(Program, u32)> = (0..3).map(|_| greet()).collect();
    for (_, client) in &programs {
        let kept = format!("FDSTORE=1\nFDNAME=client-{client}");
        let mut words = std::iter::repeat_with(|| manager.heard()).filter(|word| word != "X=1");
        assert!(words.by_ref().take(40).any(|word| word == kept), "{kept}");
    }
    drop(daemon.stdin.take());
    assert!(daemon.wait().unwrap().success());
}

/// A socket that a service manager has made: it is listened at as at the daemon's own, and stays.
#[test]
fn a_socket_of_the_service_managers_is_adopted() {
    let folder = common::Folder::new();
    let path = folder.0.join("consort.sock");
    let socket = |kind| {
        let none = SockFlag::empty();
        socket::socket(AddressFamily::Unix, kind, none, None).unwrap()
    };
    assert!(
        Listener::adopt(socket(SockType::SeqPacket)).is_err(),
        "it does not listen"
    );
    assert!(Listener::adopt(socket(SockType::Stream)).is_err());
    let made = socket(SockType::SeqPacket);
    socket::bind(made.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
    socket::listen(&made, Backlog::new(8).unwrap()).unwrap();
    let listener = Listener::adopt(made).unwrap();
    assert!(listener.accept().unwrap().is_none());
    let program = Program::try_connect(&path).unwrap();
    let connection = listener.accept().unwrap().expect("a connection");
    let sent = program.send_with(b"x", &[connection.as_raw_fd()]);
    assert_eq!(sent, Err(nix::errno::Errno::EPERM));
    drop(listener);
    assert!(path.exists());
}
