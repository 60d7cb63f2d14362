// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole scenarios, good and bad.

use super::*;
use crate::setup::{ActionKind, Due, Kernel, Length, Limit, Policy, Program};

fn read(text: &str) -> Setup {
    match parse("a.json", text) {
        Ok(scenario) => scenario.setup,
        Err(error) => panic!("{error}\n{text}"),
    }
}

/// The steps inside the endless loop that a task is.
fn steps_of(setup: &Setup, task: usize) -> &[Step] {
    match &setup.tasks[task].program {
        Program::Steps(steps) => match steps.as_slice() {
            [Step::Loop { times: None, steps }] => steps,
            other => panic!("no endless loop: {other:?}"),
        },
        other => panic!("no steps: {other:?}"),
    }
}

fn run(us: u64) -> Step {
    Step::Run(Length::Fixed(us * 1000))
}

#[test]
fn the_least_that_is_a_scenario() {
    let scenario = parse(
        "/x/least.json",
        r#"{"tasks": {"a": {"run": 10, "sleep": 20}}}"#,
    )
    .unwrap();
    assert_eq!((scenario.name.as_str(), scenario.warmup_ns), ("least", 0));
    let setup = scenario.setup;
    assert_eq!((setup.machine.cpus(), setup.seed), (1, DEFAULT_SEED));
    assert_eq!(setup.duration_ns, DEFAULT_DURATION_NS);
    assert_eq!(
        steps_of(&setup, 0),
        [run(10), Step::Sleep(Length::Fixed(20_000))]
    );
    assert_eq!(setup.tasks[0].start_ns, Some(0));
}

#[test]
fn a_program_may_take_long_to_end() {
    let setup = read(
        r#"{"tasks": {"a": {"loop": 1, "run": 10, "exit": "20ms"}, "b": {"run": 1, "exit": 0}}}"#,
    );
    let ends = |task: usize, ns: u64| {
        let Program::Steps(steps) = &setup.tasks[task].program else {
            panic!("no steps");
        };
        let found = format!("{steps:?}");
        let expected = format!("{:?}", Step::Exit(Length::Fixed(ns)));
        assert!(found.contains(&expected), "{expected} is not in {found}");
    };
    ends(0, 20_000_000);
    ends(1, 0);
    let wrong = parse("a.json", r#"{"tasks": {"a": {"run": 1, "exit": true}}}"#).err();
    let said = wrong.expect("true is no time").to_string();
    assert!(said.contains("exit"), "{said}");
}

#[test]
fn rt_apps_phases_and_its_freedom() {
    let setup = read(
        r#"{
        /* as in rt-app's tutorial, with what workgen mends */
        "global": { "duration": 2, "calibration": "CPU0", "logdir": "./", "gnuplot": false, },
        "tasks": {
            "thread0": {
                "instance": 2,
                "delay": 500,
                "phases": {
                    "light": { "loop": 10, "run": 1000,
                               "timer": { "ref": "unique", "period": 30000 } },
                    "heavy": { "run0": 4000, "run1": 1, "timer": { "ref": "tick", "period": 30000 } }
                }
            },
            "thread0": { "loop": 3, "run": 7 "yield": "" }
        },
        "resources": {}
        }"#,
    );
    let names: Vec<&str> = setup.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["thread0-0", "thread0-1", "thread01"]);
    assert_eq!(setup.duration_ns, 2_000_000_000);
    assert_eq!(setup.tasks[1].start_ns, Some(500_000));
    let timer = |timer| Step::Timer {
        timer,
        period_ns: 30_000_000,
        absolute: false,
    };
    for (task, own) in [(0, 0), (1, 2)] {
        let light = Step::Loop {
            times: Some(10),
            steps: vec![run(1000), timer(own)],
        };
        assert_eq!(
            steps_of(&setup, task),
            [light, run(4000), run(1), timer(1)],
            "{task}"
        );
    }
    let Program::Steps(steps) = &setup.tasks[2].program else {
        panic!("no steps")
    };
    let body = vec![run(7), Step::Yield];
    assert_eq!(
        steps,
        &[Step::Loop {
            times: Some(3),
            steps: body
        }]
    );
}

#[test]
fn locks_that_inherit() {
    let read = |pi_enabled: bool, locks: &str| {
        read(&format!(
            r#"{{ "global": {{ "pi_enabled": {pi_enabled} }}, "locks": {{ {locks} }},
                 "tasks": {{ "a": {{ "lock": "x", "lock2": {{ "ref": "y", "timeout": "2ms" }}, "run": 1 }} }} }}"#
        ))
    };
    let setup = read(false, r#""y": { "inherit": true }, "x": {}"#);
    assert_eq!(setup.pi_locks, [1]);
    let timeout = Length::Fixed(2_000_000);
    let timed = Step::LockFor { lock: 1, timeout };
    assert_eq!(steps_of(&setup, 0), [Step::Lock(0), timed, run(1)]);
    assert_eq!(read(true, "").pi_locks, [0, 1]);
    assert_eq!(read(true, r#""x": { "inherit": false }"#).pi_locks, [1]);
    assert!(read(false, "").pi_locks.is_empty());
}

#[test]
fn tasks_that_depend_on_each_other() {
    let setup = read(
        r#"{"tasks": {
            "a": { "lock": "m", "wait": {"ref": "c", "mutex": "m"}, "unlock": "m", "barrier": "b" },
            "b": { "instance": 2, "barrier": "b", "sync": {"ref": "c", "mutex": "n"}, "resume": "c" },
            "c": { "suspend", "fork": "d", "broad": "c", "signal": "c", "suspend": "n" },
            "d": { "instance": 0, "loop": 1, "run": 1 }
        }}"#,
    );
    let barrier = Step::Barrier {
        barrier: 0,
        tasks: 3,
    };
    // "c" is a condition, and the lock of those who suspend themselves on it; "n" is both, too.
    let (lock, unlock) = (Step::Lock, Step::Unlock);
    let wait = |condition, lock| Step::Wait { condition, lock };
    assert_eq!(
        steps_of(&setup, 0),
        [lock(0), wait(0, 0), unlock(0), barrier.clone()]
    );
    let sync = [lock(1), Step::Signal(0), wait(0, 1), unlock(1)];
    let resume = [lock(2), Step::Broadcast(0), unlock(2)];
    assert_eq!(
        steps_of(&setup, 2),
        [&[barrier][..], &sync, &resume].concat()
    );
    let on_itself = [lock(2), wait(0, 2), unlock(2)];
    let others = [Step::Fork(4), Step::Broadcast(0), Step::Signal(0)];
    let on_another = [lock(1), wait(1, 1), unlock(1)];
    assert_eq!(
        steps_of(&setup, 3),
        [&on_itself[..], &others, &on_another].concat()
    );
    assert_eq!((setup.tasks[4].start_ns, setup.tasks.len()), (None, 5));
}

#[test]
fn sync_takes_the_lock_unless_it_is_held() {
    let setup = read(
        r#"{"tasks": {
            "held": { "lock": "m", "sync": {"ref": "c", "mutex": "m"}, "unlock": "m" },
            "free": { "lock": "m", "unlock": "m", "sync": {"ref": "c", "mutex": "m"} }
        }}"#,
    );
    let (lock, unlock) = (Step::Lock(0), Step::Unlock(0));
    let wait = Step::Wait {
        condition: 0,
        lock: 0,
    };
    let sync = [lock, Step::Signal(0), wait, unlock];
    assert_eq!(steps_of(&setup, 0), sync);
    assert_eq!(steps_of(&setup, 1)[2..], sync);
}

#[test]
fn how_tasks_are_scheduled() {
    let setup = read(
        r#"{
        "machine": {"cpus": 4},
        "tasks": {
            "rt": { "policy": "SCHED_FIFO", "priority": 10, "run": 1, "sleep": 1 },
            "dl": { "policy": "SCHED_DEADLINE", "dl-runtime": 1000, "run": 1, "exec": "", "sleep": 1 },
            "nice": { "priority": -5, "cpus": [1, 2], "taskgroup": "/films/loud", "run": 1 },
            "phased": { "cpus": [3], "phases": {
                "one": { "cpus": [0], "run": 1 },
                "two": { "priority": 3, "taskgroup": "/films", "run": 2 } } }
        }}"#,
    );
    assert_eq!(
        (setup.tasks[0].policy, setup.tasks[0].nice),
        (Policy::Realtime, 0)
    );
    assert_eq!(setup.tasks[1].policy, Policy::Deadline);
    let nice = &setup.tasks[2];
    assert_eq!((nice.policy, nice.nice), (Policy::Normal, -5));
    assert_eq!(nice.affinity, Some(vec![1, 2]));
    assert_eq!(setup.cgroups[nice.cgroup].name, "/films/loud");
    assert_eq!(
        steps_of(&setup, 3),
        [
            Step::Affinity(vec![0]),
            run(1),
            Step::Nice(3),
            Step::Cgroup(1),
            Step::Affinity(vec![3]),
            run(2)
        ]
    );
}

#[test]
fn consorts_own_keys() {
    let setup = read(
        r#"{
        "global": { "duration": "20s", "warmup": "500ms", "seed": 7 },
        "machine": { "cpus": 8, "llc": 2, "smt": 2, "numa": 2, "kernel": "6.18", "costs": {"switch": "3us"} },
        "tunables": { "granularity": "2ms", "min_slice": 200 },
        "cgroups": { "/a": { "weight": 300 }, "/a/b": { "max": { "quota": "20ms", "burst": "5ms" } } },
        "domains": { "studio": { "event": "1.2ms", "order": "progress", "preempt": true }, "other": {} },
        "tasks": {
            "ticker": { "join": "studio",
                        "poll0": { "due": {"timer": "unique", "period": "10ms"} },
                        "poll1": { "due": "5ms", "priority": 2, "key": 9 },
                        "poll2": { "priority": 2 }, "poll3": 10, "leave": "",
                        "run": { "vbr": "6ms" } },
            "liar": { "polite_liar": { "domain": "studio", "work": "2ms" } },
            "mute": { "mute_liar": "other" }, "noise": { "garbage": "studio" }, "hog": { "hog": true }
        },
        "actions": [ { "at": "1s", "cpu_offline": 1 }, { "at": 7, "nice": 4, "task": "hog" },
                     { "at": "2s", "cgroup_weight": 50, "cgroup": "/a" }, { "at": 1, "kill": "mute" },
                     { "at": 2, "daemon_dies": "20ms" }, { "at": 3, "daemon_dies": "never" },
                     { "at": 4, "cgroup_max": "max", "cgroup": "/a/b" } ],
        "faults": { "lookup": 0.25 }
        }"#,
    );
    assert_eq!(setup.machine.llc_of, [0, 0, 0, 0, 1, 1, 1, 1]);
    assert_eq!(setup.machine.core_of, [0, 0, 1, 1, 2, 2, 3, 3]);
    assert_eq!(setup.machine.kernel, Kernel::V6_18);
    assert_eq!((setup.costs.switch_ns, setup.seed), (3_000, 7));
    assert_eq!(setup.tunables.min_slice_ns, Some(200_000));
    assert_eq!(setup.cgroups[1].weight, 300);
    let max = Limit {
        quota_ns: 20_000_000,
        period_ns: 100_000_000,
        burst_ns: 5_000_000,
    };
    assert_eq!(
        (setup.cgroups[1].max, setup.cgroups[2].max),
        (None, Some(max))
    );
    let studio = &setup.domains[0];
    assert_eq!(
        (studio.event_ns, studio.order, studio.preempt),
        (1_200_000, 1, true)
    );
    let poll = |due, best_effort| Step::Poll { due, best_effort };
    assert_eq!(
        steps_of(&setup, 0),
        [
            Step::Join(0),
            poll(
                Due::Timer {
                    timer: 0,
                    period_ns: 10_000_000,
                    absolute: false,
                },
                None
            ),
            poll(Due::In(Length::Fixed(5_000_000)), Some((2, 9))),
            poll(Due::Never, Some((2, 0))),
            poll(Due::In(Length::Fixed(10_000)), None),
            Step::Leave,
            Step::Run(Length::Vbr { mean_ns: 6_000_000 })
        ]
    );
    assert_eq!(
        setup.tasks[1].program,
        Program::PoliteLiar {
            domain: 0,
            work_ns: 2_000_000
        }
    );
    assert_eq!(setup.tasks[2].program, Program::MuteLiar { domain: 1 });
    assert_eq!(setup.tasks[4].program, Program::Hog);
    let first = &setup.actions[0];
    assert_eq!(
        (first.at_ns, &first.what),
        (1_000_000_000, &ActionKind::CpuOffline(1))
    );
    assert_eq!(setup.actions[1].what, ActionKind::Nice { task: 4, nice: 4 });
    assert_eq!(
        setup.actions[2].what,
        ActionKind::CgroupWeight {
            cgroup: 1,
            weight: 50
        }
    );
    assert_eq!(setup.actions[3].what, ActionKind::Kill { task: 2 });
    let daemon =
        [Some(20_000_000), None].map(|back_after_ns| ActionKind::DaemonDies { back_after_ns });
    assert_eq!(
        [&setup.actions[4].what, &setup.actions[5].what],
        daemon.each_ref()
    );
    assert_eq!(setup.faults.lookup, 0.25);
}

#[test]
fn players_differ_in_film_and_phase_and_the_same_seed_gives_the_same() {
    let text =
        r#"{"tasks": {"p": {"instance": 4, "player": {"load": [0.1, 0.4], "domain": "d"}}}}"#;
    let players = |setup: Setup| -> Vec<crate::setup::Player> {
        let player = |task: Task| match task.program {
            Program::Player(player) => player,
            other => panic!("no player: {other:?}"),
        };
        setup.tasks.into_iter().map(player).collect()
    };
    let first = players(read(text));
    assert_eq!(first, players(read(text)));
    let seeded = |seed| super::read("a.json", text, Some(seed)).unwrap().setup;
    assert_eq!(first, players(seeded(DEFAULT_SEED)));
    assert_eq!(seeded(7).seed, 7);
    assert_ne!(
        first,
        players(seeded(7)),
        "the seed draws films and phases, too"
    );
    assert!((first[3].load - 0.4).abs() < 1e-9 && (first[0].load - 0.1).abs() < 1e-9);
    assert!(first.windows(2).all(|pair| pair[0].seed != pair[1].seed));
    assert!(first
        .windows(2)
        .all(|pair| pair[0].first_due_ns < pair[1].first_due_ns));
    assert!(first.iter().all(|player| player.domain == Some(0)));
}

#[test]
fn a_setup_that_was_written_down_is_read_again() {
    let setup =
        read(r#"{"tasks": {"a": {"run": 10, "sleep": {"uniform": [1, 2]}}, "h": {"hog": true}}}"#);
    let written = serde_json::to_string_pretty(&setup).unwrap();
    assert_eq!(read(&written), setup);
    let broken = written.replacen("\"seed\"", "\"sead\"", 1);
    let error = parse("a.json", &broken).unwrap_err();
    assert!(
        error.text.contains("sead") && error.position.line > 1,
        "{error}"
    );
}

/// Each with what its message must begin with: the place, the field, what is wrong.
#[test]
fn bad_scenarios_are_refused_with_their_place() {
    let cases = [
        ("", "a.json:1:1: is empty"),
        ("[]", "a.json:1:1: is a list, expected an object"),
        ("{\n\"tasks\": }", "a.json:2:10: this is no JSON"),
        (r#"{"tasks": {"a": {"run": 1}}"#, "a.json:1:1: this is no JSON: Unterminated object"),
        ("{}", "a.json:1:1: has no \"tasks\""),
        (r#"{"tasks": {}}"#, "a.json:1:11: tasks: is empty"),
        ("{\"tasks\": {\n  \"a\": {\"rum\": 1}}}", "a.json:2:9: tasks.a.rum: is no known key, did you mean \"run\""),
        (r#"{"tasks": {"a": {}}}"#, "a.json:1:17: tasks.a: does nothing that takes time"),
        (r#"{"tasks": {"a": {"lock": "m"}}}"#, "a.json:1:17: tasks.a: does nothing that takes time"),
        (r#"{"tasks": {"a": {"run": -1}}}"#, "a.json:1:25: tasks.a.run: is -1, expected a whole number of microseconds"),
        (r#"{"tasks": {"a": {"run": "1 ms"}}}"#, "a.json:1:25: tasks.a.run: is \"1 ms\", expected"),
        (r#"{"tasks": {"a": {"mem": 1}}}"#, "a.json:1:18: tasks.a.mem: mem is not simulated"),
        (r#"{"tasks": {"a": {"run": 1, "policy": "SCHED_IDLE"}}}"#, "a.json:1:38: tasks.a.policy: SCHED_IDLE is not simulated, expected SCHED_OTHER, SCHED_FIFO"),
        (r#"{"tasks": {"a": {"run": 1, "policy": "FIFO"}}}"#, "a.json:1:38: tasks.a.policy: is \"FIFO\", expected SCHED_OTHER"),
        (r#"{"tasks": {"a": {"run": 1, "priority": 20}}}"#, "a.json:1:40: tasks.a.priority: is 20, expected a whole number from -20 to 19"),
        (r#"{"tasks": {"a": {"run": 1, "cpus": [0, 1]}}}"#, "a.json:1:40: tasks.a.cpus[1]: is 1, expected a whole number from 0 to 0; \"machine\": {\"cpus\": N} says"),
        (r#"{"tasks": {"a": {"suspend", "yield", "run": -1}}}"#, "a.json:1:45: tasks.a.run: is -1"),
        (r#"{"tasks": {"a": {"run"}}}"#, "a.json:1:23: tasks.a.run: is \"\", expected a whole number of microseconds"),
        (r#"{"tasks": {"a": {"run": 1, "cpus": []}}}"#, "a.json:1:36: tasks.a.cpus: is empty"),
        (r#"{"tasks": {"a": {"run": 1, "fork": "b"}}}"#, "a.json:1:36: tasks.a.fork: is \"b\", expected the name of a task: a"),
        (r#"{"tasks": {"a": {"suspend": ""}, "b": {"run": 1, "resume": "c"}}}"#, "a.json:1:60: tasks.b.resume: is \"c\", expected a name on which"),
        (r#"{"tasks": {"a": {"suspend", "signal": "b"}}}"#, "a.json:1:39: tasks.a.signal: is \"b\", expected a condition that"),
        (r#"{"tasks": {"a": {"hog": true, "run": 1}}}"#, "a.json:1:31: tasks.a.run: is no known key"),
        (r#"{"tasks": {"a": {"hog": true, "mute_liar": "d"}}}"#, "a.json:1:44: tasks.a.mute_liar: stands beside \"hog\""),
        (r#"{"tasks": {"a": {"player": {"load": 0}}}}"#, "a.json:1:37: tasks.a.player.load: is 0, expected a number from 0.001 to 10"),
        (r#"{"tasks": {"a": {"player": {"fps": 30}}}}"#, "a.json:1:29: tasks.a.player.fps: is no known key, expected one of: chunk, domain, load, seed"),
        (r#"{"tasks": {"a": {"timer": {"ref": "x"}}}}"#, "a.json:1:27: tasks.a.timer: has no \"period\""),
        (r#"{"tasks": {"a": {"timer": {"ref": "x", "period": 0}}}}"#, "a.json:1:50: tasks.a.timer.period: is 0"),
        (r#"{"tasks": {"a": {"poll": {}}}}"#, "a.json:1:26: tasks.a.poll: asks for nothing"),
        (r#"{"tasks": {"a": {"poll": {"due": 1, "key": 1}}}}"#, "a.json:1:26: tasks.a.poll: has a \"key\""),
        (r#"{"tasks": {"a": {"hog": true, "reserve": {"class": "golden", "rate": 0.1}}}}"#, "a.json:1:52: tasks.a.reserve.class: there is no class \"golden\": expected one of: guaranteed, adaptive"),
        (r#"{"tasks": {"a": {"hog": true, "reserve": {"class": "guaranteed", "rate": 1.5}}}}"#, "a.json:1:74: tasks.a.reserve.rate: is 1.5, expected a number from 0.0001 to 1"),
        (r#"{"classes": {"all": {"capacity": "120%"}}, "tasks": {"a": {"hog": true}}}"#, "a.json:1:34: classes.all.capacity: is \"120%\", expected a number of CPUs, or a part such as \"50%\""),
        (r#"{"tasks": {"a": {"lend": {"to": "b", "rate": 0.1}, "run": 1}}}"#, "a.json:1:33: tasks.a.lend.to: is \"b\", expected the name of a task: a"),
        (r#"{"tasks": {"a": {"phases": {"p": {"loop": -1, "unlock": "x"}}}}}"#, "a.json:1:34: tasks.a.phases.p: loops for ever"),
        (r#"{"tasks": {"a": {"run": 1}}, "global": {"duration": -1}}"#, "a.json:1:53: global.duration: is -1, without end"),
        (r#"{"tasks": {"a": {"run": 1}}, "global": {"duration": 1, "warmup": 1}}"#, "a.json:1:66: global.warmup: is not shorter"),
        (r#"{"tasks": {"a": {"run": 1}}, "globl": {}}"#, "a.json:1:30: globl: is no known key, did you mean \"global\""),
        (r#"{"tasks": {"a": {"run": 1}}, "machine": {"cpus": 4, "llc": 3}}"#, "a.json:1:60: machine.llc: is 3, expected a number that divides the 4 CPUs"),
        (r#"{"tasks": {"a": {"run": 1}}, "machine": {"cpus": 4, "llc": 4, "smt": 2}}"#, "a.json:1:41: machine: has cores of 2 threads"),
        (r#"{"tasks": {"a": {"run": 1}}, "machine": {"kernel": "5.4"}}"#, "a.json:1:52: machine.kernel: is \"5.4\", expected \"6.18\" or \"7.2\""),
        (r#"{"tasks": {"a": {"run": 1}}, "domains": {"d": {"event": "3ms"}}}"#, "a.json:1:57: domains.d.event: is \"3ms\", expected 10us to 2ms"),
        (r#"{"tasks": {"a": {"run": 1, "lock": "m"}}, "locks": {"n": {"inherit": true}}}"#, "a.json:1:53: locks.n: is a lock that no task takes"),
        (r#"{"tasks": {"a": {"run": 1, "lock": {"ref": "m"}}}}"#, "a.json:1:36: tasks.a.lock: has no \"timeout\""),
        (r#"{"tasks": {"a": {"run": 1}}, "cgroups": {"/": {}}}"#, "a.json:1:42: cgroups./: is the root"),
        (r#"{"tasks": {"a": {"run": 1}}, "cgroups": {"/a": {"max": "half"}}}"#, "a.json:1:56: cgroups./a.max: is \"half\", expected max, or"),
        (r#"{"tasks": {"a": {"run": 1}}, "cgroups": {"/a": {"max": {"quota": 10}}}}"#, "a.json:1:66: cgroups./a.max.quota: is 10, expected 1ms or more"),
        (r#"{"tasks": {"a": {"run": 1}}, "cgroups": {"/a": {"max": {"quota": "1ms", "burst": "2ms"}}}}"#, "a.json:1:82: cgroups./a.max.burst: is \"2ms\", expected no more than the quota"),
        (r#"{"tasks": {"a": {"run": 1}}, "actions": [{"at": 1}]}"#, "a.json:1:42: actions[0]: says not exactly one of"),
        (r#"{"tasks": {"a": {"run": 1}}, "actions": [{"at": 1, "cpu_offline": 1}]}"#, "a.json:1:67: actions[0].cpu_offline: is 1, expected"),
        (r#"{"tasks": {"a": {"run": 1}}, "faults": {"lookup": 2}}"#, "a.json:1:51: faults.lookup: is 2, expected a number from 0 to 1"),
    ];
    for (text, begin) in cases {
        match parse("a.json", text) {
            Ok(_) => panic!("accepted: {text}"),
            Err(error) => assert!(
                error.to_string().starts_with(begin),
                "{text}\n{error}\n{begin}"
            ),
        }
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = load(Path::new("/nowhere/x.json"), None).unwrap_err();
    assert!(error
        .to_string()
        .starts_with("cannot read the scenario /nowhere/x.json: "));
}
