// SPDX-License-Identifier: MIT OR Apache-2.0
//! A daemon follows another one while groups have members.

use consort_daemon::End;
use serde_json::json;

use crate::{
    common::{leave, unloaded, Daemon, Program, Record},
    programs::{announce, apply, bound, Sleeper},
};

const FILE: &str = r#"
[group.film]
class = "guaranteed"
rate = 0.3
members = ["read", { name = "show", interval = "4ms" }]

[group.talk]
function = "coop"
members = ["talker"]
"#;

fn control(program: &Program, command: &serde_json::Value) {
    let done = program.control(&command.to_string());
    done.map_err(|reply| reply.text).unwrap();
}

/// The file is in force, two members are there, and a plan runs.
fn set_up(program: &Program, show: &Sleeper, talker: &Sleeper) {
    apply(program, FILE).unwrap();
    assert_eq!(program.ask(&announce(show.tid, 0, "show")).error, 0);
    assert_eq!(program.ask(&announce(talker.tid, 1, "talker")).error, 0);
    let delays_ns = [0_u64, 30_000_000];
    let plan = json!({"command": "group", "doing": "plan_load", "member": "show",
        "delays_ns": delays_ns, "lengths_ns": [4_000_000_u64]});
    control(program, &plan);
    let trigger = json!({"command": "group", "doing": "plan_trigger", "member": "show"});
    control(program, &trigger);
}

/// What the scheduler has, but for its numbers.
fn in_force(record: &Record) -> String {
    let groups = record.groups.values().map(|made| {
        let threads: Vec<_> = made
            .threads
            .values()
            .map(|bind| (bind.thread.tid, bind.role, bind.page))
            .collect();
        (
            &made.group.name,
            made.reservation.is_some(),
            threads,
            &made.plans,
            made.begun,
        )
    });
    let mut groups: Vec<_> = groups.map(|group| format!("{group:?}")).collect();
    groups.sort();
    let rates: Vec<u32> = record.reservations.values().map(|one| one.rate).collect();
    format!("{groups:?} {rates:?}")
}

#[test]
fn groups_go_on_with_the_next_daemon() {
    let daemon = Daemon::start();
    let program = daemon.hello();
    let (show, talker) = (Sleeper::new(), Sleeper::new());
    set_up(&program, &show, &talker);
    let (host, before) = (daemon.host.clone(), in_force(&daemon.host.record()));
    assert!(
        before.contains("Some((") && host.record().groups.len() == 2,
        "{before}"
    );
    let next = daemon.replace();
    assert!(matches!(daemon.end_beside(), Ok(End::Replaced)));
    assert_eq!(bound(&program).len(), 2);
    assert_eq!(in_force(&host.record()), before);
    assert_eq!(program.ask(&leave(show.tid, 0)).error, 0);
    assert_eq!(bound(&program), [("talker".to_owned(), talker.tid.into())]);
    assert_eq!(program.ask(&announce(show.tid, 0, "show")).error, 0);
    assert_eq!(in_force(&host.record()), before);
    host.unload(unloaded());
    assert!(next.join().unwrap().is_ok());
}

/// Also after its groups were ended.
#[test]
fn a_daemon_whose_successor_fails_has_its_groups() {
    let daemon = Daemon::start();
    let program = daemon.hello();
    let (show, talker) = (Sleeper::new(), Sleeper::new());
    set_up(&program, &show, &talker);
    let before = in_force(&daemon.host.record());
    let numbers = |record: &Record| record.groups.keys().copied().collect::<Vec<_>>();
    let first = numbers(&daemon.host.record());
    daemon.host.record().refuse.insert("begin", libc::EIO);
    let failed = daemon.replace().join().unwrap();
    assert!(failed.is_err(), "{failed:?}");
    daemon.host.record().refuse.clear();
    assert_eq!(bound(&program).len(), 2);
    assert_eq!(in_force(&daemon.host.record()), before);
    let second = numbers(&daemon.host.record());
    assert!(
        first.iter().all(|id| !second.contains(id)),
        "{first:?} {second:?}"
    );
    let delete = json!({"command": "group", "doing": "delete", "name": "film"});
    control(&program, &delete);
    let record = daemon.host.record();
    assert!(record.groups.is_empty() && record.reservations.is_empty());
}
