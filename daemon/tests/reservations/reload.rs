// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operator's file is read again while there are reservations.

use std::fs;

use consort_daemon::{config::Division, division::DivisionStatus, service::Service};

use crate::world::{World, ROOT, USER};

const DEFAULT: &str = "
    [class.guaranteed]
    capacity = '50%'
    [class.adaptive]
    capacity = '25%'
    overbooking = '70%'
";

fn reload(world: &mut World, text: &str) {
    let file = world.folder.0.join("classes.toml");
    fs::write(&file, text).unwrap();
    world.service.set_file(Some(file));
    world.service.reload((0, 0));
}

fn names(service: &Service) -> Vec<String> {
    let classes = DivisionStatus::of(service).classes.into_iter();
    classes.map(|class| class.name).collect()
}

/// Classes that are new, or in another order, are no reason to move anybody to another class.
#[test]
fn who_has_reserved_stays_in_its_class() {
    let mut world = World::new();
    world.reserve(ROOT, USER, "guaranteed", 0.2).unwrap();
    world.reserve(ROOT, USER + 1, "adaptive", 0.3).unwrap();
    world.lend(USER, USER + 2, 0.1).unwrap();
    let before = world.admitted();
    let with_another = format!("{DEFAULT}\n[class.a-batch]\ncapacity = 0.2\n");
    reload(&mut world, &with_another);
    assert_eq!(
        names(&world.service),
        ["guaranteed", "adaptive", "a-batch", "flexible"]
    );
    assert_eq!(
        (world.admitted(), world.in_force()),
        (before.clone(), before.clone())
    );
    world.reserve(ROOT, USER + 3, "a-batch", 0.2).unwrap();
    world.release(USER + 3).unwrap();
    let world = World::beside(world.killed());
    assert_eq!(
        (world.admitted(), world.in_force()),
        (before.clone(), before)
    );
}

/// Another class in its place is not the class in which somebody has reserved.
#[test]
fn a_class_that_is_in_use_cannot_be_left_out() {
    let mut world = World::new();
    world.reserve(ROOT, USER, "guaranteed", 0.2).unwrap();
    let before = (world.admitted(), world.in_force(), names(&world.service));
    reload(&mut world, "[class.batch]\ncapacity = 0.5\n");
    let after = (world.admitted(), world.in_force(), names(&world.service));
    assert_eq!(after, before);
    world.release(USER).unwrap();
    reload(&mut world, "[class.batch]\ncapacity = 0.5\n");
    assert_eq!(names(&world.service), ["batch", "flexible"]);
}

fn capacity_of_guaranteed(service: &Service) -> f64 {
    let classes = DivisionStatus::of(service).classes.into_iter();
    let mut capacities = classes.filter(|class| class.name == "guaranteed");
    capacities.next().unwrap().capacity
}

/// What the file says last holds, for the next daemon too, whatever it has said in between.
#[test]
fn a_file_that_says_again_what_it_has_said_before_holds() {
    let less = "[class.guaranteed]\ncapacity = 0.2\n";
    let said = [(less, 0.2), (DEFAULT, 0.5), (less, 0.2), (DEFAULT, 0.5)];
    for count in 1..=said.len() {
        let mut world = World::new();
        for (text, capacity) in &said[..count] {
            world.set_guaranteed(300_000).unwrap();
            reload(&mut world, text);
            assert_eq!(capacity_of_guaranteed(&world.service), *capacity);
        }
        let file = Division::read(Some(&world.folder.0.join("classes.toml")), 1).unwrap();
        let next = World::beside_with(world.killed(), |division| *division = file);
        assert_eq!(
            capacity_of_guaranteed(&next.service),
            said[count - 1].1,
            "{count} times"
        );
    }
}
