// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two examples, asked as the kernel would ask them.

use std::path::Path;

use consort_df::{build, df_group, Answer, Object, Record};

const WANTS: u32 = 3;

fn example(name: &str) -> Object {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    Object::read(&build(&folder.join(name)).unwrap()).unwrap()
}

fn group(nr: u32) -> df_group {
    let mut group = df_group {
        nr,
        now_ns: 1_000_000_000,
        ..Default::default()
    };
    for member in &mut group.member[..nr as usize] {
        member.flags = WANTS;
    }
    group
}

fn order(answer: &Answer) -> Vec<usize> {
    let Answer::Keys(keys) = answer else {
        panic!("{answer:?}");
    };
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by_key(|index| keys[*index]);
    order
}

#[test]
fn whoever_can_least_afford_to_wait_goes_first() {
    let laxity = example("laxity.c");
    let mut asked = group(4);
    // A near deadline and little to do; a later one and nearly all the time needed; none; one that has passed.
    asked.member[0].state = [1_010_000_000, 1_000_000, 0, 0];
    asked.member[1].state = [1_020_000_000, 19_500_000, 0, 0];
    asked.member[3].state = [900_000_000, 1, 0, 0];
    let mut record = Record::new(&asked);
    assert_eq!(order(&laxity.run(&mut record)), [3, 1, 0, 2]);
    assert_eq!(record.group().ask_after_ns, 1_000_000);
    // What it has had is no longer to do.
    asked.member[1].ran_ns = 19_000_000;
    let mut record = Record::new(&asked);
    assert_eq!(order(&laxity.run(&mut record)), [3, 0, 1, 2]);
    assert_eq!(record.group().member[1].control[0], 19_000_000);
    // Whatever members say, there is a key that counts.
    for word in [i64::MIN, -1, i64::MAX] {
        asked.member[0].state = [word; 4];
        let Answer::Keys(keys) = laxity.run(&mut Record::new(&asked)) else {
            panic!();
        };
        assert!(keys[0] == u64::MAX || keys[0] < 1 << 62, "{}", keys[0]);
    }
}

#[test]
fn the_robots_modes_change_with_what_it_sees() {
    let robot = example("robot.c");
    let mut record = Record::new(&group(3));
    let mut pick = |change: &dyn Fn(&mut df_group)| {
        let mut asked = record.group();
        change(&mut asked);
        record.set_group(&asked);
        let answer = robot.run(&mut record);
        (answer, record.group().member[1].control[0])
    };
    // Nothing to plan with: the sensors.
    assert_eq!(pick(&|_| {}), (Answer::Pick(0), 0));
    // As many readings as the planner is to have at once.
    assert_eq!(pick(&|g| g.member[0].state[0] = 8), (Answer::Pick(1), 0));
    // Near: the reflex, then the sensors.
    assert_eq!(pick(&|g| g.member[2].state[0] = 200), (Answer::Pick(2), 1));
    assert_eq!(pick(&|g| g.member[2].flags = 1), (Answer::Pick(0), 1));
    // Not near any more, and not for long: it is kept in mind.
    let later = |g: &mut df_group| {
        g.now_ns += 10_000_000;
        g.member[2].state[0] = 0;
    };
    assert_eq!(pick(&later), (Answer::Pick(0), 1));
    assert_eq!(pick(&|g| g.now_ns += 60_000_000), (Answer::Pick(1), 0));
}
