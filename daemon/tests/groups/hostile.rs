// SPDX-License-Identifier: MIT OR Apache-2.0
//! Users who want to keep the daemon busy, to take what is others', or who are just unlucky.

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use consort_daemon::{
    groups::{
        control::{answer, GroupCommand},
        plan::Plan,
        show::{GroupPage, What},
    },
    limits::Limits,
    peer::Processes,
    status::{Status, UserStatus},
    wire::ANSWER_BYTES_MAX,
};
use consort_groups::frames::Interval;
use nix::{errno::Errno, sys::stat::Mode, unistd::mkfifo};

use crate::{
    common::write_thread,
    world::{World, FILM, OTHER, OTHER_UID, UID, USER},
};

const PLAYER: &str = "/usr/bin/player";

fn by_rule(count: u32) -> String {
    format!("[group.a]\nmembers = [{{ name = \"found\", count = {count}, rule = {{ thread = \"show\" }} }}]")
}

/// What a user holds, and has made the daemon do.
fn holds(world: &World, uid: u32) -> Option<UserStatus> {
    let all = Status::of(&world.service, None).unwrap().users;
    all.into_iter().find(|user| user.uid == uid)
}

fn members(world: &World, uid: u32) -> usize {
    holds(world, uid).map_or(0, |user| user.members)
}

/// However many threads of a member the scheduler refuses, each is tried again on its own.
#[test]
fn threads_that_are_refused_cost_no_more_than_others() {
    let mut world = World::new();
    const THREADS: i32 = 100;
    for tid in 9001..9000 + THREADS {
        write_thread(&world.folder.0, USER, &[tid], UID, 7);
    }
    world.host.record().unbindable = (USER..9000 + THREADS).collect();
    world.apply(USER, "a", &by_rule(600)).unwrap();
    let peer = world.peer(USER);
    world.service.name_process(&peer, "found").unwrap();
    world.tick();
    let before = world.host.record().binds;
    world.service.tick(Instant::now());
    let binds = world.host.record().binds - before;
    assert!((1..=THREADS as u64).contains(&binds), "{binds}");
    world.host.record().unbindable.clear();
    // A look ends after a while, and the next one goes on: the busier the machine, the more looks it takes.
    let bound = |world: &World| {
        let record = world.host.record();
        record.groups.values().next().map(|it| it.threads.len())
    };
    for _ in 0..100 * THREADS {
        if bound(&world) == Some(THREADS as usize) {
            break;
        }
        world.tick();
    }
    assert_eq!(bound(&world), Some(THREADS as usize));
}

/// One whose number another user's process has got before that was seen.
#[test]
fn a_named_process_is_on_its_own_users_account() {
    let mut world = World::new();
    let root = world.folder.0.clone();
    for (uid, start) in [(UID, 7), (OTHER_UID, 9)] {
        write_thread(&root, 900, &[900], uid, start);
        let peer = Processes::at(&root).peer(900, uid);
        world.service.name_process(&peer.unwrap(), "x").unwrap();
    }
    assert_eq!((members(&world, UID), members(&world, OTHER_UID)), (0, 1));
    world.end_process(900);
    world.apply(USER, "a", &by_rule(1)).unwrap();
    world.tick();
    assert_eq!((members(&world, UID), members(&world, OTHER_UID)), (0, 0));
}

/// A process that is named anew has its last name.
#[test]
fn a_process_has_one_name() {
    let mut world = World::new();
    let text = "[group.a]\nmembers = [\"one\", \"other\"]";
    world.apply(USER, "a", text).unwrap();
    let peer = world.peer(USER);
    world.service.name_process(&peer, "one").unwrap();
    assert_eq!(world.bound("one"), [USER]);
    world.service.name_process(&peer, "other").unwrap();
    assert_eq!(
        (world.bound("one"), world.bound("other")),
        (vec![], vec![USER])
    );
    assert_eq!(members(&world, UID), 2);
}

/// While the daemon reads what a thread is called its process ends, and its number becomes a stranger's.
#[test]
fn a_number_that_becomes_a_strangers_while_it_is_looked_at_is_nobodys() {
    let mut world = World::new();
    world.thread((500, 500), UID, (PLAYER, "show"));
    let root = world.folder.0.clone();
    let comm = root.join("500/task/500/comm");
    fs::remove_file(&comm).unwrap();
    mkfifo(&comm, Mode::S_IRWXU).unwrap();
    let swap = |root: &Path| {
        // Returns once the daemon reads.
        let mut pipe = fs::OpenOptions::new().write(true).open(&comm).unwrap();
        fs::remove_file(&comm).unwrap();
        write_thread(root, 500, &[500], OTHER_UID, 8);
        std::io::Write::write_all(&mut pipe, b"show\n").unwrap();
    };
    thread::scope(|scope| {
        scope.spawn(|| swap(&root));
        world.apply(USER, "a", &by_rule(1)).unwrap();
    });
    assert_eq!(world.bound("found"), [0; 0]);
    assert_eq!(members(&world, UID), 0);
}

/// A user with a thousand rules pays for them, not one with a single rule.
#[test]
fn rules_are_paid_for_by_those_who_have_them() {
    let mut world = World::new();
    world.apply(OTHER, "a", &by_rule(1)).unwrap();
    let members: Vec<String> = (0..1000)
        .map(|number| format!("{{ name = \"m{number}\", rule = {{ thread = \"t{number}\" }} }}"))
        .collect();
    let many = format!("[group.a]\nmembers = [{}]", members.join(","));
    world.apply(USER, "many", &many).unwrap();
    let spent = |world: &World, uid| holds(world, uid).map_or(0, |user| user.told.cpu_us) as f64;
    let before = (spent(&world, UID), spent(&world, OTHER_UID));
    world.tick();
    let many = spent(&world, UID) - before.0;
    let one = spent(&world, OTHER_UID) - before.1;
    assert!(many > 100.0 * one, "{many} us and {one} us");
}

/// What cannot be put in force is undone, also if its user would not be allowed it today.
#[test]
fn what_was_in_force_stays_so_under_lower_limits() {
    let limits = Limits {
        domains: 2,
        ..Limits::default()
    };
    let folder = World::new().killed();
    let mut world = World::beside(folder);
    world.apply(USER, "film", FILM).unwrap();
    world
        .apply(USER, "more", "[group.x]\nmembers = [\"m\"]")
        .unwrap();
    let before = world.state();
    let mut world = World::with_limits(world.killed(), limits);
    assert_eq!(world.state(), before);
    world.host.record().refuse.insert("load_plan", libc::ENOMEM);
    // Three domains, of which one is made anew, and two are allowed.
    let other = FILM.replace("\"pipeline\"", "\"plan\"");
    assert_eq!(
        world.apply(USER, "film", &other).unwrap_err().0,
        Errno::EDQUOT
    );
    assert_eq!(world.state(), before);
}

/// The scheduler keeps a plan for each thread of a member.
#[test]
fn plans_of_sets_count_for_each_thread() {
    let mut world = World::new();
    let file = |count: u32| format!("[group.a]\nmembers = [{{ name = \"x\", count = {count} }}]");
    let plan = |intervals: u64| Plan {
        intervals: (0..intervals)
            .map(|number| Interval {
                start_ns: number * 1_000_000,
                end_ns: number * 1_000_000 + 100_000,
            })
            .collect(),
        repeat_ns: 0,
    };
    world.apply(USER, "a", &file(32)).unwrap();
    let peer = world.peer(USER);
    let load = |world: &mut World, intervals| {
        let loaded = world
            .service
            .set_plan(&peer, "x", Some(plan(intervals)), false);
        loaded.map_err(|refusal| refusal.errno)
    };
    assert_eq!(load(&mut world, 16_384), Err(Errno::EDQUOT));
    assert_eq!(load(&mut world, 2_048), Ok(()));
    assert_eq!(load(&mut world, 2_049), Err(Errno::EDQUOT));
    // Neither first the plan, then the set.
    world.apply(USER, "a", &file(4)).unwrap();
    assert_eq!(load(&mut world, 16_384), Ok(()));
    let (errno, text) = world.apply(USER, "a", &file(5)).unwrap_err();
    assert_eq!(errno, Errno::EDQUOT, "{text}");
    world.apply(USER, "a", &file(3)).unwrap();
}

/// Root sees all groups, also those of users who would rather have it see none.
#[test]
fn whatever_a_file_says_an_answer_is_one_message() {
    let mut world = World::new();
    let path = "\\u0001".repeat(4094);
    let rule = format!("executable = \"/{path}\", cgroup = \"{path}\"");
    let apply = |world: &mut World, text: String| {
        let peer = world.peer(USER);
        let command = GroupCommand::Apply {
            name: "a".to_owned(),
            text,
            only_look: false,
        };
        let answer = answer(&mut world.service, &peer, None, command).unwrap();
        answer.unwrap().len()
    };
    let member = |count| {
        format!("[group.a]\nmembers = [{{ name = \"x\", count = {count}, rule = {{ {rule} }} }}]")
    };
    let members = |range: &mut dyn Iterator<Item = usize>| {
        let names: Vec<String> = range.map(|n| format!("\"{n:039}\"")).collect();
        format!("[group.a]\nmembers = [{}]", names.join(","))
    };
    for text in [
        member(1),
        member(2),
        members(&mut (0..2000)),
        members(&mut (0..2000).rev()),
        member(1),
    ] {
        let bytes = apply(&mut world, text);
        assert!(bytes <= ANSWER_BYTES_MAX, "{bytes}");
    }
    let page = GroupPage::of(&world.service, None, None);
    let bytes = serde_json::to_vec(&page).unwrap().len();
    assert!(bytes <= ANSWER_BYTES_MAX, "{bytes}");
}

/// Threads may call themselves whatever they want.
#[test]
fn what_is_shown_says_nothing_to_a_terminal() {
    let mut world = World::new();
    world.thread((500, 500), UID, (PLAYER, "\u{1b}[2J\nshow"));
    let text =
        "[group.a]\nmembers = [{ name = \"x\", rule = { executable = \"/usr/bin/player\" } }]";
    world.apply(USER, "a", text).unwrap();
    let thread = world.rows(None).into_iter().find_map(|row| match row {
        What::Thread(row) => Some(row.command),
        _ => None,
    });
    assert_eq!(thread.as_deref(), Some("?[2J?show"));
}

/// A process that has become another user's is not its former user's to direct.
#[test]
fn a_program_with_other_rights_has_no_name() {
    let mut world = World::new();
    world.thread((500, 500), UID, (PLAYER, "show"));
    world.apply(USER, "a", &by_rule(2)).unwrap();
    let peer = world.peer(USER);
    world.service.name_process(&peer, "found").unwrap();
    assert_eq!(world.bound("found"), [500, USER]);
    let root = world.folder.0.clone();
    let acts_as = |pid: i32, uid: u32| {
        let status = format!("Tgid:\t{pid}\nUid:\t{UID}\t{uid}\t{uid}\t{uid}\n");
        fs::write(root.join(format!("{pid}/status")), status).unwrap();
    };
    acts_as(500, 0);
    acts_as(USER, 0);
    world.service.tick(Instant::now());
    assert_eq!(world.bound("found"), [0; 0]);
    acts_as(USER, UID);
    world.tick();
    assert_eq!(world.bound("found"), [USER]);
}

/// A look takes some of many processes. Whoever has the daemon begin a look, over and over, keeps it from no process.
#[test]
fn another_users_files_do_not_keep_threads_from_being_found() {
    let mut world = World::new();
    world.thread((500, 500), OTHER_UID, (PLAYER, "show"));
    for pid in 4000..4600 {
        write_thread(&world.folder.0, pid, &[pid], UID, 5);
    }
    world.apply(OTHER, "a", &by_rule(1)).unwrap();
    let began = Instant::now();
    for tick in 0..1000 {
        let text = format!("[group.b]\nmembers = [\"m{}\"]", tick % 2);
        world.apply(USER, "b", &text).unwrap();
        let quarter = Duration::from_millis(250);
        world.service.tick(began + tick * quarter);
        if world.bound("found") == [500] {
            return;
        }
    }
    panic!("the thread is never found");
}
