// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a member writes into its slot, and when, beside programs that keep the contract: the scheduler itself, compiled for
//! this machine, reads it in a simulated kernel, which looks at all its promises. The bytes are the hostile member's program
//! (sim/src/programs/script.rs), but for the first: its lowest bit asks for a domain that preempts, the next one for two CPUs.

use consort_sim::{
    consort, run as simulate,
    setup::{Domain, Due, Kernel, Length, Machine, Program, Setup, Step, Task},
};

const MS: u64 = 1_000_000;
const DURATION_NS: u64 = 200 * MS;
/// By which what a hog gets may be less than its share: what its neighbours may run ahead, and a slice each.
const AHEAD_NS: u64 = 20 * MS;

pub fn run(bytes: &[u8]) {
    let (options, script) = bytes.split_first().unwrap_or((&0, &[]));
    let setup = setup(options & 1 != 0, 1 + u32::from(options >> 1 & 1), script);
    let outcome = simulate(&setup, consort(), &mut ()).expect("a setup that fits together");
    if let Some(broken) = outcome.violation {
        panic!("{}: {}", broken.rule, broken.detail);
    }
    // Of three that want a CPU all the time, or of two where there are two CPUs.
    let share_ns = match setup.machine.cpus() {
        1 => DURATION_NS / 3,
        _ => DURATION_NS * 2 / 3,
    };
    let hog = outcome.tasks.iter().find(|task| task.name == "hog");
    let ran_ns = hog.map_or(0, |hog| hog.run_ns);
    assert!(
        ran_ns + AHEAD_NS >= share_ns,
        "a hog beside it ran for {ran_ns} ns"
    );
}

fn setup(preempt: bool, cpus: u32, script: &[u8]) -> Setup {
    let machine = Machine::simple(cpus, cpus, Kernel::V7_2);
    let mut setup = Setup::empty(machine, DURATION_NS);
    setup.domains.push(Domain {
        name: "d".to_owned(),
        event_ns: MS,
        order: 0,
        preempt,
    });
    let hostile = Program::Script {
        domain: 0,
        bytes: script.to_vec(),
    };
    let poll = Step::Poll {
        due: Due::In(Length::Fixed(10 * MS)),
        best_effort: None,
    };
    let turn = Step::Loop {
        times: None,
        steps: vec![Step::Run(Length::Fixed(MS)), poll],
    };
    let honest = Program::Steps(vec![Step::Join(0), turn]);
    setup.tasks = [
        ("hostile", hostile),
        ("honest", honest),
        ("hog", Program::Hog),
    ]
    .map(|(name, program)| Task::new(name, program))
    .to_vec();
    setup
}
