// SPDX-License-Identifier: MIT OR Apache-2.0
//! A user and its subordinate numbers, as containers without root have them, are on one account: no limit is a number's.

use std::{path::Path, time::Instant};

use consort_daemon::{groups::plan::Plan, limits::Limits};
use consort_groups::frames::Interval;
use consort_rates::accounts::Accounts;
use nix::errno::Errno;

use crate::world::{World, OTHER, ROOT, USER};

/// The other user is a subordinate number of the first one.
fn world() -> World {
    let accounts = Accounts::parse("70001:70002:1\n", "");
    World::with(World::new().killed(), Limits::default(), accounts)
}

fn load(world: &mut World, asker: i32, member: &str, intervals: u64) -> Result<(), Errno> {
    let interval = |number: u64| Interval {
        start_ns: number * 2_000_000,
        end_ns: number * 2_000_000 + 1_000_000,
    };
    let plan = Plan {
        intervals: (0..intervals).map(interval).collect(),
        repeat_ns: 0,
    };
    let peer = world.peer(asker);
    let loaded = world.service.set_plan(&peer, member, Some(plan), true);
    loaded.map_err(|refusal| refusal.errno)
}

#[test]
fn files_of_subordinates_are_their_users() {
    let mut world = world();
    let mut sizes = Vec::new();
    let refused = (0..20).find_map(|number| {
        let text = format!("[group.a{number}]\nmembers = [\"m{number}\"]\n");
        let text = text + &"#".repeat(95 << 10);
        let asker = [USER, OTHER][number % 2];
        let applied = world.apply(asker, &format!("f{number}"), &text);
        sizes.push(text.len());
        applied.err()
    });
    assert_eq!(refused.unwrap().0, Errno::EDQUOT);
    let sum: usize = sizes.iter().sum();
    assert!(sum > 1 << 20 && sum - sizes[0] <= 1 << 20, "{sum}");
    // Whoever is on another account has its own.
    let text = "[group.a]\nmembers = [\"m\"]\n".to_owned() + &"#".repeat(95 << 10);
    assert!(world.apply(ROOT, "a", &text).is_ok());
}

#[test]
fn plans_of_subordinates_are_their_users() {
    let mut world = world();
    let text = "[group.a]\nmembers = [\"a\", \"b\", \"c\", \"d\"]";
    for asker in [USER, OTHER, ROOT] {
        world.apply(asker, "a", text).unwrap();
    }
    for (asker, member) in [(USER, "a"), (USER, "b"), (OTHER, "a")] {
        assert_eq!(load(&mut world, asker, member, 16_384), Ok(()));
    }
    assert_eq!(load(&mut world, OTHER, "b", 16_384), Ok(()));
    for asker in [USER, OTHER] {
        assert_eq!(load(&mut world, asker, "c", 1), Err(Errno::EDQUOT));
    }
    assert_eq!(load(&mut world, ROOT, "a", 16_384), Ok(()));
    // One that is replaced does not count, its namesake of the other number does.
    assert_eq!(load(&mut world, OTHER, "b", 10_000), Ok(()));
    assert_eq!(load(&mut world, USER, "c", 6_384), Ok(()));
    // Names that stand for more threads are more intervals.
    let more = text.replace("\"a\",", "{ name = \"a\", count = 2 },");
    assert_eq!(world.apply(OTHER, "a", &more).unwrap_err().0, Errno::EDQUOT);
    assert!(world.apply(ROOT, "a", &more).is_ok());
}

#[test]
fn functions_of_subordinates_are_their_users() {
    let mut world = world();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../df/examples/laxity.c");
    let object = consort_df::build(&source).unwrap();
    let mut load = |asker: i32, name: &str| {
        let (peer, object) = (world.peer(asker), object.clone());
        let loaded = world.service.load_function(&peer, name, object, false);
        // It is verified, and put where groups find it.
        (0..2).for_each(|_| world.service.tick(Instant::now()));
        loaded.map(|_| ()).map_err(|refusal| refusal.errno)
    };
    for number in 0..8 {
        for asker in [USER, OTHER] {
            assert_eq!(load(asker, &format!("f{number}")), Ok(()));
        }
    }
    for asker in [USER, OTHER] {
        assert_eq!(load(asker, "more"), Err(Errno::EDQUOT));
    }
    assert_eq!(load(ROOT, "more"), Ok(()));
}
