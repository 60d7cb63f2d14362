// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is used, and rates that follow it.

use std::time::{Duration, Instant};

use consort_daemon::{
    division::ReservationPage,
    reservations::{Ask, AskedRate},
    targets::{Named, Scope},
};
use nix::errno::Errno;

use crate::world::{World, PERIOD_NS, ROOT, USER};

#[test]
fn use_is_told_by_windows() {
    let mut world = World::new();
    world.reserve(ROOT, USER, "guaranteed", 0.25).unwrap();
    let id = *world.host.record().reservations.keys().next().unwrap();
    let now = Instant::now();
    let before = now.checked_sub(Duration::from_secs(20)).unwrap();
    for tick in 0..=80u32 {
        world
            .host
            .record()
            .used_ns
            .insert(id, u64::from(tick) * 75_000_000);
        world
            .service
            .tick(before + tick * Duration::from_millis(250));
    }
    let held = ReservationPage::of(&world.service, None, None)
        .reservations
        .remove(0);
    for used in held.used {
        assert!((used.unwrap() - 0.3).abs() < 0.02, "{:?}", held.used);
    }
    assert_eq!((held.used_total_ns, held.given), (6_000_000_000, 0.5));
}

/// An automatic rate follows demand: up while it uses all that it is given, down when it uses less; within its limits,
/// and within what the class has.
#[test]
fn an_automatic_rate_follows_demand() {
    let mut world = World::new();
    let ask = |least, most| Ask {
        named: Named::Number {
            number: 0,
            scope: Scope::Any,
        },
        class: "guaranteed".to_owned(),
        rate: AskedRate::Auto { least, most },
        period_ns: PERIOD_NS,
    };
    let peer = world.peer(USER);
    for (least, most) in [(0.2, 0.1), (0.0, 0.1), (0.1, f64::NAN)] {
        let refusal = world.service.reserve(&peer, &ask(least, most)).unwrap_err();
        assert_eq!(refusal.errno, Errno::ERANGE);
    }
    world.service.reserve(&peer, &ask(0.05, 0.4)).unwrap();
    world.reserve(ROOT, 0, "guaranteed", 0.25).unwrap();
    let id = *world.host.record().reservations.keys().next().unwrap();
    let mut now = Instant::now();
    let mut run = |world: &mut World, seconds: u32, demand: f64| -> f64 {
        for _ in 0..seconds {
            let given = ReservationPage::of(&world.service, None, None).reservations[0].given;
            let used_ns = (demand.min(given) * 1e9) as u64;
            *world.host.record().used_ns.entry(id).or_default() += used_ns;
            now += Duration::from_secs(1);
            world.service.tick(now);
            assert_eq!(world.admitted(), world.in_force());
        }
        ReservationPage::of(&world.service, None, None).reservations[0].asked
    };
    let asked = run(&mut world, 30, 0.9);
    // As much as is left in the class.
    assert_eq!(asked, 0.25);
    world.release(ROOT).unwrap();
    assert_eq!(run(&mut world, 30, 0.9), 0.4);
    let asked = run(&mut world, 30, 0.2);
    assert!((0.2..0.25).contains(&asked), "{asked}");
    assert_eq!(run(&mut world, 30, 0.0), 0.05);
    let page = ReservationPage::of(&world.service, None, None);
    assert_eq!(page.reservations[0].auto, Some([0.05, 0.4]));
    let after = World::beside(world.killed());
    let page = ReservationPage::of(&after.service, None, None);
    assert_eq!(page.reservations[0].auto, Some([0.05, 0.4]));
}
