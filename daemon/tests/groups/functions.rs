// SPDX-License-Identifier: MIT OR Apache-2.0
//! Users' own decision functions: whoever has one loaded hears what has become of it, whatever others load.

use std::{path::Path, sync::OnceLock, time::Instant};

use consort_daemon::{
    functions::{Outcome, Ticket},
    peer::{Peer, Processes},
};
use nix::errno::Errno;

use crate::{
    common::write_thread,
    world::{World, OTHER, USER},
};

fn object() -> Vec<u8> {
    static OBJECT: OnceLock<Vec<u8>> = OnceLock::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../df/examples/laxity.c");
    let built = || consort_df::build(&source).unwrap();
    OBJECT.get_or_init(built).clone()
}

fn load(world: &mut World, peer: &Peer, name: &str) -> Result<Ticket, Errno> {
    let loaded = world.service.load_function(peer, name, object(), false);
    loaded.map_err(|refusal| refusal.errno)
}

fn outcome(world: &mut World, peer: &Peer, ticket: Ticket) -> Result<Outcome, Errno> {
    let outcome = world.service.function_outcome(peer, ticket);
    outcome.map_err(|refusal| refusal.errno)
}

/// The verifier refuses functions at once, and their user asks for none of the outcomes.
#[test]
fn nobody_loses_an_outcome_to_another_user() {
    let mut world = World::new();
    let (user, other) = (world.peer(USER), world.peer(OTHER));
    let first = load(&mut world, &other, "first").unwrap();
    world.service.tick(Instant::now());
    world
        .host
        .record()
        .refuse
        .insert("verify_user", libc::EINVAL);
    let tickets: Vec<Ticket> = (0..1000)
        .map(|_| load(&mut world, &user, "bad").unwrap())
        .collect();
    let was_loaded = outcome(&mut world, &other, first);
    assert!(
        matches!(was_loaded, Ok(Outcome::Loaded { .. })),
        "{was_loaded:?}"
    );
    // What nobody asks for is not kept for ever, and the last ones are.
    let mut asked = tickets
        .into_iter()
        .map(|ticket| outcome(&mut world, &user, ticket));
    assert_eq!(asked.next(), Some(Err(Errno::ENOENT)));
    assert!(matches!(
        asked.next_back(),
        Some(Ok(Outcome::Refused { .. }))
    ));
}

/// Else the next daemon has what was refused, or another one than the one that answers.
#[test]
fn a_function_that_the_scheduler_does_not_take_is_not_kept() {
    let mut world = World::new();
    let user = world.peer(USER);
    world.host.record().refuse.insert("put_user", libc::ENOMEM);
    let ticket = load(&mut world, &user, "refused").unwrap();
    let was_refused = outcome(&mut world, &user, ticket);
    assert!(
        matches!(was_refused, Ok(Outcome::Refused { .. })),
        "{was_refused:?}"
    );
    world.host.record().refuse.clear();
    let ticket = load(&mut world, &user, "taken").unwrap();
    let was_loaded = outcome(&mut world, &user, ticket);
    assert!(
        matches!(was_loaded, Ok(Outcome::Loaded { .. })),
        "{was_loaded:?}"
    );
    let mut restored = World::beside(world.killed());
    let refused_again = load(&mut restored, &user, "refused");
    assert!(refused_again.is_ok(), "{refused_again:?}");
    assert_eq!(load(&mut restored, &user, "taken"), Err(Errno::EEXIST));
}

/// As many as one may have wait already, of many users.
#[test]
fn whoever_has_many_functions_verified_keeps_nobody_else_from_it() {
    let mut world = World::new();
    world.host.record().verifies_on = true;
    let other = world.peer(OTHER);
    for (pid, uid) in (3100..3110).zip(70_100..) {
        write_thread(&world.folder.0, pid, &[pid], uid, 5);
        let peer = Processes::at(&world.folder.0).peer(pid, uid).unwrap();
        let refused =
            (0..100).find_map(|number| load(&mut world, &peer, &format!("f{number}")).err());
        assert!(
            refused.is_some(),
            "user {uid} may have any number of functions wait"
        );
    }
    let ticket = load(&mut world, &other, "mine").unwrap();
    world.host.record().verifies_on = false;
    (0..1000).for_each(|_| world.service.tick(Instant::now()));
    let was_verified = outcome(&mut world, &other, ticket);
    assert!(
        !matches!(was_verified, Ok(Outcome::Verifying) | Err(_)),
        "{was_verified:?}"
    );
}
