// SPDX-License-Identifier: MIT OR Apache-2.0
//! One user's greed is that user's problem. Time is simulated.

mod common;

use std::time::{Duration, Instant};

use common::{join, leave, request, write_thread, Daemon, FakeHost, Folder};
use consort_abi::{consort_request, CONSORT_HELLO};
use consort_daemon::{
    limits::Limits, peer::Processes, requests::Next, service::Service, users::Users, wire,
};
use consort_rates::accounts::Accounts;
use nix::{
    errno::Errno,
    sys::{
        inotify::{AddWatchFlags, InitFlags, Inotify},
        socket::{socketpair, AddressFamily, SockFlag, SockType},
    },
    unistd::getuid,
};

const GREEDY: u64 = 10;
const MODEST: u64 = 11;

struct World {
    service: Service,
    host: FakeHost,
    proc_root: Folder,
    now: Instant,
}

impl World {
    /// A greedy user's program with 3000 threads, and a modest user's with one.
    fn new(limits: Limits) -> Self {
        let proc_root = Folder::new();
        let processes = Processes::at(&proc_root.0);
        let host = FakeHost::default();
        let now = Instant::now();
        let mut service = Service::new(Box::new(host.clone()), processes.clone(), limits);
        for (connection, uid) in [(GREEDY, 70_001), (MODEST, 70_002)] {
            let pid = pid_of(connection);
            write_thread(&proc_root.0, pid, &[pid], uid, 5);
            service
                .connect(connection, processes.peer(pid, uid).unwrap(), now)
                .unwrap();
        }
        let mut world = World {
            service,
            host,
            proc_root,
            now,
        };
        for connection in [GREEDY, MODEST] {
            assert_eq!(world.ask(connection, request(CONSORT_HELLO)).0.error, 0);
        }
        world
    }

    fn ask(&mut self, connection: u64, request: consort_request) -> (wire::Reply, Next) {
        let bytes = wire::request_bytes(request);
        self.service
            .handle(connection, &bytes, bytes.len(), self.now)
    }

    fn thread(&self, connection: u64, tid: i32) {
        write_thread(&self.proc_root.0, pid_of(connection), &[tid], 70_000, 5);
    }
}

fn pid_of(connection: u64) -> i32 {
    1000 + connection as i32
}

#[test]
fn ten_thousand_joins_a_second_hurt_nobody_else() {
    let mut world = World::new(Limits::default());
    let (mut granted, mut refused) = (0, 0);
    let mut modest_joins = 0;
    for request in 0..20_000u32 {
        world.now += Duration::from_micros(100);
        let message = match request % 2 {
            0 => join(pid_of(GREEDY), 0, ""),
            _ => leave(pid_of(GREEDY), 0),
        };
        let (reply, next) = world.ask(GREEDY, message);
        match reply.error {
            libc::EAGAIN => {
                assert_eq!(next, Next::Pause);
                assert!(
                    reply.text.contains("1000 requests a second"),
                    "{}",
                    reply.text
                );
                refused += 1;
            }
            _ => granted += 1,
        }
        if request % 1000 == 0 {
            let (reply, next) = world.ask(MODEST, join(pid_of(MODEST), 0, "video"));
            assert_eq!((reply.error, next), (0, Next::Listen), "{}", reply.text);
            assert_eq!(world.ask(MODEST, leave(pid_of(MODEST), 0)).0.error, 0);
            modest_joins += 1;
        }
    }
    assert_eq!(modest_joins, 20);
    // Two seconds at 1000 a second after a burst of 1000.
    assert!((2900..=3100).contains(&granted), "{granted}");
    assert_eq!(granted + refused, 20_000);
    assert!(world.host.record().joins < 1600);
}

/// What is no request is one more all the same: whoever sends nothing but that is not read any more.
#[test]
fn refusals_are_not_for_nothing() {
    let mut world = World::new(Limits::default());
    let outcomes: Vec<_> = (0..1200).map(|_| world.ask(GREEDY, request(99))).collect();
    let unknown = (libc::EOPNOTSUPP, Next::Listen);
    let too_many = (libc::EAGAIN, Next::Pause);
    let count = |outcome| {
        let same = outcomes
            .iter()
            .filter(|(reply, next)| (reply.error, *next) == outcome);
        same.count()
    };
    // A HELLO, which counts more, was before.
    assert_eq!(count(unknown) + count(too_many), 1200);
    assert!((980..1000).contains(&count(unknown)), "{}", count(unknown));
    // Nobody else is refused.
    let (reply, _) = world.ask(MODEST, request(99));
    assert_eq!(reply.error, libc::EOPNOTSUPP);
}

#[test]
fn members_and_domains_are_counted_and_given_back() {
    let mut world = World::new(Limits {
        members: 3,
        domains: 2,
        ..Limits::default()
    });
    for tid in 5000..5005 {
        world.thread(GREEDY, tid);
    }
    assert_eq!(world.ask(GREEDY, join(5000, 0, "a")).0.error, 0);
    assert_eq!(world.ask(GREEDY, join(5001, 1, "b")).0.error, 0);
    let (reply, _) = world.ask(GREEDY, join(5002, 2, "c"));
    assert_eq!(reply.error, libc::EDQUOT);
    assert!(reply.text.contains("2 domains"), "{}", reply.text);
    assert_eq!(world.ask(GREEDY, join(5002, 2, "b")).0.error, 0);
    let (reply, _) = world.ask(GREEDY, join(5003, 3, "b"));
    assert_eq!(reply.error, libc::EDQUOT);
    assert!(reply.text.contains("3 member threads"), "{}", reply.text);

    // The other user is not affected.
    assert_eq!(world.ask(MODEST, join(pid_of(MODEST), 0, "a")).0.error, 0);

    // What is left is given back, and only once.
    assert_eq!(world.ask(GREEDY, leave(5000, 0)).0.error, 0);
    assert_eq!(world.ask(GREEDY, leave(5000, 0)).0.error, libc::ENOENT);
    assert_eq!(world.ask(GREEDY, join(5003, 3, "c")).0.error, 0);
    let now = world.now;
    world.service.disconnect(GREEDY, now);
    world.service.disconnect(GREEDY, now);
    let record = world.host.record();
    assert_eq!(record.members.len(), 1);
    assert_eq!(record.domains.len(), 1);
    assert_eq!(record.pages.len(), 1);
}

#[test]
fn reconnecting_does_not_renew_the_allowance() {
    let mut world = World::new(Limits::default());
    for _ in 0..1000 {
        world.ask(GREEDY, leave(1, 0));
    }
    let processes = Processes::at(&world.proc_root.0);
    let peer = processes.peer(pid_of(GREEDY), 70_001).unwrap();
    let now = world.now;
    world.service.disconnect(GREEDY, now);
    world.service.tick(now);
    let refusal = world
        .service
        .connect(GREEDY, peer.clone(), now)
        .unwrap_err();
    assert_eq!(refusal.errno as i32, libc::EAGAIN);
    let later = now + Duration::from_secs(1);
    world.service.connect(GREEDY, peer, later).unwrap();
}

/// Who connects too often is refused by the user number that the kernel tells: looking at who it is costs far more.
#[test]
fn who_connects_too_often_is_not_looked_at() {
    // In it this process is another user's: whoever is looked for there is not found.
    let proc_root = Folder::new();
    let own = std::process::id() as i32;
    write_thread(&proc_root.0, own, &[own], getuid().as_raw() + 1, 5);
    let opened = Inotify::init(InitFlags::IN_NONBLOCK).unwrap();
    let folder = proc_root.0.join(own.to_string());
    let watched = opened.add_watch(&folder, AddWatchFlags::IN_OPEN);
    watched.unwrap();
    let processes = Processes::at(&proc_root.0);
    let host = Box::new(FakeHost::default());
    let mut service = Service::new(host, processes, Limits::default());
    let (kind, flags) = (SockType::SeqPacket, SockFlag::SOCK_CLOEXEC);
    let (_program, socket) = socketpair(AddressFamily::Unix, kind, None, flags).unwrap();
    let now = Instant::now();
    let mut refused = || service.connect_from(GREEDY, &socket, now).unwrap_err();
    let most = match getuid().is_root() {
        true => 1000 + 200,
        false => 1000,
    };
    for _ in 0..most {
        assert_eq!(refused().errno, Errno::EACCES);
        assert!(opened.read_events().is_ok(), "nobody has looked");
        while opened.read_events().is_ok() {}
    }
    for _ in 0..800 {
        assert_eq!(refused().errno, Errno::EAGAIN);
    }
    assert!(opened.read_events().is_err(), "somebody has looked");
}

/// To be told why costs: a crowd is told now and then, and shut out meanwhile. Nobody waits behind it for as long as it takes
/// to tell them all, which is most of a minute.
#[test]
fn a_crowd_that_connects_too_often_is_shut_out() {
    let daemon = Daemon::start();
    let began = Instant::now();
    // No more of them wait at a time than fit into the socket's queue.
    let crowd = (0..6000).map(|_| daemon.connect());
    crowd.for_each(drop);
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_namespaced_program_pays_for_the_search() {
    let mut world = World::new(Limits::default());
    let pid = 4000;
    write_thread(&world.proc_root.0, pid, &[pid, 1], 70_003, 9);
    for inner in 2..=200 {
        write_thread(&world.proc_root.0, pid, &[pid + inner, inner], 70_003, 9);
    }
    let processes = Processes::at(&world.proc_root.0);
    let peer = processes.peer(pid, 70_003).unwrap();
    assert!(peer.namespaced);
    let now = world.now;
    world.service.connect(12, peer, now).unwrap();
    assert_eq!(world.ask(12, request(CONSORT_HELLO)).0.error, 0);
    // Thread 150 of the namespace is 4150 outside; outside numbers mean nothing inside.
    assert_eq!(world.ask(12, join(150, 0, "video")).0.error, 0);
    assert!(world.host.record().members.contains_key(&4150));
    assert_eq!(world.ask(12, join(4150, 1, "video")).0.error, libc::ESRCH);
    let answered = (0..1000)
        .filter(|_| world.ask(12, join(4150, 1, "video")).0.error == libc::ESRCH)
        .count();
    assert!(
        (1..20).contains(&answered),
        "each search looks at 200 threads: {answered}"
    );
}

#[test]
fn a_real_time_thread_is_refused_by_the_name_of_its_policy() {
    let mut world = World::new(Limits::default());
    let pid = pid_of(MODEST);
    let stat = world.proc_root.0.join(format!("{pid}/task/{pid}/stat"));
    for (policy, name) in [(1, "SCHED_FIFO"), (2, "SCHED_RR"), (6, "SCHED_DEADLINE")] {
        let zeros = "0 ".repeat(18);
        std::fs::write(&stat, format!("{pid} (x) S {zeros}5 {zeros}{policy} 0\n")).unwrap();
        let (reply, _) = world.ask(MODEST, join(pid, 0, "video"));
        assert_eq!(reply.error, libc::ESRCH);
        assert!(reply.text.contains(name), "{}", reply.text);
    }
    assert!(world.host.record().members.is_empty());
}

#[test]
fn a_process_number_that_was_reused_is_another_process() {
    let mut world = World::new(Limits::default());
    let pid = pid_of(GREEDY);
    write_thread(&world.proc_root.0, pid, &[pid], 0, 6);
    let (reply, _) = world.ask(GREEDY, join(pid, 0, "video"));
    assert_eq!(reply.error, libc::EPERM, "{}", reply.text);
    assert!(world.host.record().members.is_empty());
    let refusal = Processes::at(&world.proc_root.0)
        .peer(pid, 70_001)
        .unwrap_err();
    assert_eq!(refusal.errno as i32, libc::EACCES);
}

/// Numbers that one user may give to processes of its own are that user.
#[test]
fn subordinate_users_share_their_owners_limits() {
    let now = Instant::now();
    let mut users = Users::new(Limits {
        clients: 3,
        ..Limits::default()
    });
    users.set_accounts(Accounts::parse("70001:500000:65536\n", ""));
    for number in 0..3 {
        users.admit_connection(500_000 + number, now).unwrap();
        users.add_client(500_000 + number, now);
    }
    for uid in [70_001, 500_099] {
        let refusal = users.admit_connection(uid, now).unwrap_err();
        assert_eq!(refusal.errno as i32, libc::EDQUOT);
    }
    users.admit_connection(70_002, now).unwrap();
}

/// A user that was made while the daemon runs gets subordinate numbers, which the daemon reads when it reads its file again.
#[test]
fn subordinate_numbers_that_come_later_count_while_others_are_connected() {
    let now = Instant::now();
    let mut users = Users::new(Limits {
        clients: 2,
        ..Limits::default()
    });
    users.add_client(70_002, now);
    users.add_client(500_000, now);
    users.set_accounts(Accounts::parse("70001:500000:65536\n", ""));
    for uid in [70_001, 500_001] {
        users.admit_connection(uid, now).unwrap();
        users.add_client(uid, now);
    }
    let refusal = users.admit_connection(500_002, now).unwrap_err();
    assert_eq!(refusal.errno as i32, libc::EDQUOT);
    // What was counted before is given back where it was.
    users.remove_client(500_000, now);
    assert!(users.admit_connection(500_002, now).is_err());
    users.forget_idle(now + Duration::from_secs(3600));
    assert_eq!(users.account(500_000), 70_001);
    for uid in [70_001, 500_001, 70_002] {
        users.remove_client(uid, now);
    }
    users.admit_connection(500_002, now).unwrap();
}

/// However many users come, the next one and root still get something.
#[test]
fn many_users_leave_something_to_the_next_one_and_to_root() {
    let now = Instant::now();
    let mut users = Users::new(Limits::default());
    let mut taken = 0;
    for uid in 1000..1100 {
        let mut of_this_user = 0;
        while users.check_clients(uid, now).is_ok() {
            users.add_client(uid, now);
            of_this_user += 1;
        }
        taken += of_this_user;
        assert!(uid > 1018 || of_this_user > 0, "nothing for user {uid}");
    }
    assert!(taken <= 4096 - 512, "{taken}");
    for _ in 0..Limits::default().clients {
        users.check_clients(0, now).unwrap();
        users.add_client(0, now);
    }
    // Its services have all that they may have: its operator gets in.
    users.admit_connection(0, now).unwrap();
}

/// The kernel has work with it after the daemon: pages in a loop are no way to have that for nothing.
#[test]
fn a_page_costs_of_the_budget_of_time() {
    let mut world = World::new(Limits {
        cpu_per_s: Duration::from_micros(200),
        ..Limits::default()
    });
    let mut connected = 0;
    for connection in 100..200 {
        let pid = pid_of(GREEDY);
        let peer = Processes::at(&world.proc_root.0).peer(pid, 70_001).unwrap();
        if world.service.connect(connection, peer, world.now).is_err() {
            break;
        }
        world.ask(connection, request(CONSORT_HELLO));
        world.service.disconnect(connection, world.now);
        connected += 1;
    }
    // The burst of half a minute, and as much owed.
    assert!((50..=60).contains(&connected), "{connected}");
    assert_eq!(world.service.waits_for(MODEST, world.now), None);
}

/// The daemon's time is a user's to pay for; what is not paid is waited for, root excepted.
#[test]
fn whoever_takes_too_much_of_the_daemons_time_waits() {
    let now = Instant::now();
    let mut users = Users::new(Limits::default());
    users.charge_cpu(70_001, Duration::from_millis(299), now);
    assert_eq!(users.waits_for(70_001, now), None);
    users.charge_cpu(70_001, Duration::from_millis(11), now);
    assert_eq!(users.waits_for(70_001, now), Some(Duration::from_secs(1)));
    assert_eq!(users.waits_for(70_001, now + Duration::from_secs(1)), None);
    users.admit_connection(70_001, now).unwrap();
    users.charge_cpu(70_001, Duration::from_secs(60), now);
    let refusal = users.admit_connection(70_001, now).unwrap_err();
    assert_eq!(refusal.errno as i32, libc::EAGAIN);
    // What took so long at once is owed in full, and many small sums are not.
    assert_eq!(
        users.waits_for(70_001, now),
        Some(Duration::from_secs(6000))
    );
    (0..1000).for_each(|_| users.charge_cpu(70_003, Duration::from_millis(60), now));
    assert_eq!(users.waits_for(70_003, now), Some(Duration::from_secs(60)));
    assert_eq!(users.waits_for(70_002, now), None);
    users.charge_cpu(0, Duration::from_secs(60), now);
    assert_eq!(users.waits_for(0, now), None);
    users.admit_connection(0, now).unwrap();
}

#[test]
fn limits_that_are_taken_out_of_the_file_are_as_at_the_start() {
    let now = Instant::now();
    let mut users = Users::new(Limits::default());
    let few = Limits {
        clients: 1,
        ..Limits::default()
    };
    users.set_limits(Some(few));
    users.add_client(70_001, now);
    assert!(users.check_clients(70_001, now).is_err());
    users.set_limits(None);
    users.check_clients(70_001, now).unwrap();
}

#[test]
fn roots_commands_are_heard_whatever_its_services_ask() {
    let now = Instant::now();
    let mut users = Users::new(Limits::default());
    users.entry(0, now);
    users.entry(70_001, now);
    users.charge(0, 1_000_000);
    assert!(users.admit_request(0, now).is_err());
    users.admit_command(0, now).unwrap();
    users.charge(70_001, 1_000_000);
    assert!(users.admit_command(70_001, now).is_err());
    // A debt of two seconds, and no more.
    users
        .admit_command(70_001, now + Duration::from_millis(2100))
        .unwrap();
}
