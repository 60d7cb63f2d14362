// SPDX-License-Identifier: MIT OR Apache-2.0
//! The audit trail: what is written down of whom, in which fields, and how much of it.

mod common;

use std::{
    collections::BTreeMap,
    fmt::Debug,
    fs,
    sync::{mpsc, Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use common::{join, quick_restarts, request, write_thread, FakeHost, Folder, Program};
use consort_abi::CONSORT_HELLO;
use consort_daemon::{
    audit::TARGET, config::Division, limits::Limits, peer::Processes, serve, service::Service,
    wire, Config,
};
use nix::{
    sys::{
        pthread::{pthread_kill, pthread_self},
        signal::Signal,
        socket::{socketpair, AddressFamily, SockFlag, SockType},
    },
    unistd::getuid,
};
use tracing::{
    field::{Field, Visit},
    subscriber::{set_default, DefaultGuard},
    Event, Subscriber,
};
use tracing_subscriber::{
    layer::{Context, SubscriberExt},
    registry, Layer,
};

const OPERATOR: u64 = 0;
const USER: u64 = 1;
const PIDS: [i32; 2] = [3000, 3001];
const UIDS: [u32; 2] = [0, 70_001];

/// The fields of one line.
#[derive(Debug, Default)]
struct Line(BTreeMap<&'static str, String>);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

/// Everything of the audit's target that is logged in a thread where it listens.
#[derive(Debug, Default, Clone)]
struct Trail(Arc<Mutex<Vec<Line>>>);

impl<S: Subscriber> Layer<S> for Trail {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == TARGET {
            let mut line = Line::default();
            event.record(&mut line);
            self.0.lock().unwrap().push(line);
        }
    }
}

impl Trail {
    fn listen(&self) -> DefaultGuard {
        set_default(registry().with(self.clone()))
    }

    /// What was written since it was read last.
    fn read(&self) -> Vec<Line> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// The only line since then.
    fn line(&self) -> Line {
        let mut lines = self.read();
        assert_eq!(lines.len(), 1, "{lines:?}");
        lines.remove(0)
    }
}

/// A service that knows the operator's program and a user's.
struct World {
    service: Service,
    trail: Trail,
    now: Instant,
    _folder: Folder,
    _listens: DefaultGuard,
}

impl World {
    fn new() -> World {
        let (folder, trail, now) = (Folder::new(), Trail::default(), Instant::now());
        let listens = trail.listen();
        let processes = Processes::at(&folder.0);
        let host = Box::new(FakeHost::default());
        let mut service = Service::new(host, processes.clone(), Limits::default());
        let journal = folder.0.join("consort.journal");
        let division = Division::by_default(1);
        service.open_reservations(division, &journal).unwrap();
        for (connection, (pid, uid)) in (0..).zip(PIDS.into_iter().zip(UIDS)) {
            write_thread(&folder.0, pid, &[pid], uid, 5);
            let peer = processes.peer(pid, uid).unwrap();
            service.connect(connection, peer, now).unwrap();
        }
        World {
            service,
            trail,
            now,
            _folder: folder,
            _listens: listens,
        }
    }

    fn say(&mut self, connection: u64, message: &[u8]) -> wire::Reply {
        let length = message.len();
        let (reply, _) = self.service.handle(connection, message, length, self.now);
        reply
    }
}

/// It is one of `connection`'s, with these fields and no others.
fn check(line: &Line, connection: u64, fields: &[(&'static str, &str)]) {
    let who = connection as usize;
    let (uid, pid) = (UIDS[who].to_string(), PIDS[who].to_string());
    let whose = [("uid", &*uid), ("pid", &*pid), ("command", "x")];
    let expected = whose.iter().chain(fields);
    let expected: BTreeMap<_, _> = expected
        .map(|(name, text)| (*name, (*text).to_owned()))
        .collect();
    assert_eq!(line.0, expected);
}

#[test]
fn what_is_done_is_written_down_with_who_did_it() {
    let mut world = World::new();
    world.say(USER, &wire::request_bytes(request(CONSORT_HELLO)));
    assert!(world.trail.read().is_empty());
    world.say(USER, &wire::request_bytes(join(PIDS[1], 0, "video")));
    let details = "thread 3001 in domain video";
    check(
        &world.trail.line(),
        USER,
        &[("doing", "join"), ("details", details)],
    );
    for (who, ask, doing, details) in [
        (
            OPERATOR,
            r#"{"command": "reserve", "class": "guaranteed", "rate": 0.2, "period_ns": 30000000}"#,
            "reserve",
            "0.2 of guaranteed for process 3000",
        ),
        (
            OPERATOR,
            r#"{"command": "lend", "from": 0, "to": 3001, "rate": 0.1}"#,
            "lend",
            "0.1 of 0 to 3001",
        ),
        (
            OPERATOR,
            r#"{"command": "take_back", "from": 0, "to": 3001}"#,
            "recollect",
            "what 3001 has of 0",
        ),
        (
            OPERATOR,
            r#"{"command": "release"}"#,
            "release",
            "process 3000",
        ),
        (
            OPERATOR,
            r#"{"command": "class_set", "name": "batch", "capacity": 0.1, "overbooking": "unlimited"}"#,
            "class set",
            "batch: capacity 0.1, overbooking unlimited, order Period",
        ),
        (
            OPERATOR,
            r#"{"command": "class_remove", "name": "batch"}"#,
            "class remove",
            "batch",
        ),
        (
            OPERATOR,
            r#"{"command": "set", "granularity_ns": 10000000, "min_slice_ns": 200000}"#,
            "set",
            "granularity 10ms, min-slice 200us",
        ),
    ] {
        let reply = world.say(who, &wire::control_message(ask));
        assert_eq!(reply.error, 0, "{ask}: {}", reply.text);
        check(
            &world.trail.line(),
            who,
            &[("doing", doing), ("details", details)],
        );
    }
    // Whoever only looks is nobody's business.
    world.say(USER, &wire::control_message(r#"{"command": "classes"}"#));
    assert!(world.trail.read().is_empty());
}

#[test]
fn what_is_refused_is_written_down_with_the_words_that_were_said() {
    let mut world = World::new();
    let unknown = wire::request_bytes(request(99)).to_vec();
    for (message, kind, errno) in [
        (
            wire::control_message(r#"{"command": "class_remove", "name": "adaptive"}"#),
            "4",
            "EPERM: Operation not permitted",
        ),
        (
            wire::request_bytes(join(PIDS[0], 0, "video")).to_vec(),
            "2",
            "ENOTCONN: Transport endpoint is not connected",
        ),
        (unknown[..20].to_vec(), "0", "EPROTO: Protocol error"),
        (
            unknown,
            "99",
            "EOPNOTSUPP: Operation not supported on transport endpoint",
        ),
    ] {
        let reply = world.say(USER, &message);
        let fields = [
            ("doing", "refused"),
            ("request", kind),
            ("errno", errno),
            ("details", &*reply.text),
        ];
        check(&world.trail.line(), USER, &fields);
    }
}

/// What is no message costs its sender's lines, and nobody else's.
#[test]
fn a_flood_does_not_fill_the_log() {
    let mut world = World::new();
    for _ in 0..900 {
        world.say(USER, b"no message");
    }
    assert_eq!(world.trail.read().len(), 100);
    world.now += Duration::from_millis(250);
    for _ in 0..100 {
        world.say(USER, b"no message");
    }
    let lines = world.trail.read();
    assert_eq!(lines[0].0["doing"], "left out");
    assert_eq!(lines[0].0["lines"], "800");
    assert_eq!(lines.len(), 1 + 2);
    world.say(OPERATOR, b"no message");
    let lines = world.trail.read();
    assert_eq!(lines[0].0["lines"], "98");
    assert_eq!(lines[1].0["uid"], "0");
}

#[test]
fn a_program_that_is_not_let_in_is_written_down_with_what_the_kernel_tells_of_it() {
    let (empty, trail, now) = (Folder::new(), Trail::default(), Instant::now());
    let _listens = trail.listen();
    let host = Box::new(FakeHost::default());
    let mut service = Service::new(host, Processes::at(&empty.0), Limits::default());
    let (kind, flags) = (SockType::SeqPacket, SockFlag::SOCK_CLOEXEC);
    let (_program, socket) = socketpair(AddressFamily::Unix, kind, None, flags).unwrap();
    let refusal = service.connect_from(7, &socket, now).unwrap_err();
    let expected = [
        ("doing", "turn away".to_owned()),
        ("uid", getuid().to_string()),
        ("pid", std::process::id().to_string()),
        ("errno", "EACCES: Permission denied".to_owned()),
        ("details", refusal.text),
    ];
    assert_eq!(trail.line().0, BTreeMap::from(expected));
    for _ in 0..2000 {
        service.connect_from(7, &socket, now).unwrap_err();
    }
    assert_eq!(trail.read().len(), 99);
}

#[test]
fn a_file_that_is_read_again_is_written_down_with_who_wanted_it_and_what_came_of_it() {
    let folder = Folder::new();
    let file = folder.0.join("classes.toml");
    fs::write(&file, "[class.old]\ncapacity = 0.3\n").unwrap();
    let config = Config {
        socket: folder.0.join("consort.sock"),
        limits: Limits::default(),
        classes: Some(file.clone()),
        division: Division::read(Some(&file), 1).unwrap(),
        restarts: quick_restarts(),
        drops_privileges: false,
        replaces: false,
    };
    let (trail, socket) = (Trail::default(), config.socket.clone());
    let (of_thread, (send, receive)) = (trail.clone(), mpsc::channel());
    let thread = thread::spawn(move || {
        let _listens = of_thread.listen();
        send.send(pthread_self()).unwrap();
        serve(&config, |mode| FakeHost::default().load(mode)).unwrap()
    });
    let daemon = receive.recv().unwrap();
    while Program::try_connect(&socket).is_none() {
        thread::yield_now();
    }
    let reload = || {
        pthread_kill(daemon, Signal::SIGHUP).unwrap();
        let line = (0..10_000).find_map(|_| {
            thread::sleep(Duration::from_millis(1));
            trail.read().pop()
        });
        let mut line = line.expect("a line").0;
        let details = line.remove("details").unwrap();
        let expected = [
            ("doing", "reload".to_owned()),
            ("uid", getuid().to_string()),
            ("pid", std::process::id().to_string()),
        ];
        assert_eq!(line, BTreeMap::from(expected));
        details
    };
    assert_eq!(reload(), "applied");
    fs::write(&file, "[scheduler]\ngranularity = \"9ms\"\n").unwrap();
    assert!(reload().contains("[scheduler], which counts from the next start"));
    fs::write(&file, "[class.old]\ncapacity = 7.0\n").unwrap();
    assert!(reload().contains("class"));
    pthread_kill(daemon, Signal::SIGTERM).unwrap();
    thread.join().unwrap();
}

/// A message may be of any length, and what is wrong with it comes back in what it is told.
#[test]
fn a_line_is_not_as_long_as_its_user_likes() {
    let mut world = World::new();
    let long = "x".repeat(190_000);
    for ask in [
        format!(r#"{{"command": "{long}"}}"#),
        format!(
            r#"{{"command": "reserve", "class": "{long}", "rate": 0.2, "period_ns": 30000000}}"#
        ),
        format!(r#"{{"command": "release", "cgroup": "{long}"}}"#),
        format!(r#"{{"command": "df", "doing": "remove", "name": "{long}"}}"#),
        format!(r#"{{"command": "group", "doing": "delete", "name": "{long}"}}"#),
    ] {
        let reply = world.say(USER, &wire::control_message(&ask));
        assert_ne!(reply.error, 0);
        let details = world.trail.line().0["details"].len();
        assert!(details <= 512, "{details} bytes of {}", &ask[..40]);
    }
}
