// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is applied is in force, and nothing else; what is refused changes nothing.

use std::collections::BTreeMap;

use consort_daemon::{groups::show::What, limits::Limits};
use nix::errno::Errno;

use crate::{
    common::{write_thread, Folder},
    world::{Told, World, FILM, OTHER, ROOT, UID, USER},
};

fn told(members: &[&str], rate: Option<u64>) -> Told {
    Told {
        members: members.iter().map(|name| (*name).to_owned()).collect(),
        rate,
        threads: BTreeMap::new(),
    }
}

#[test]
fn groups_and_their_rates_are_in_force() {
    let mut world = World::new();
    let changes = world.apply(USER, "film", FILM).unwrap();
    assert_eq!(changes[0], "+ group film: fair");
    let (groups, rates) = world.state();
    assert_eq!(
        groups,
        [
            told(&["logs"], Some(100_000)),
            told(&["read", "scale", "show"], Some(200_000))
        ]
    );
    assert_eq!(rates, [100_000, 200_000]);
    // Again: nothing to do.
    assert_eq!(world.apply(USER, "film", FILM), Ok(vec![]));
    assert_eq!(world.state(), (groups, rates));
    let changes = world.delete(USER, "film").unwrap();
    assert_eq!(changes, ["- group film", "- group stages", "- group rest"]);
    assert_eq!(world.state(), (vec![], vec![]));
    assert_eq!(world.delete(USER, "film"), Err(Errno::ENOENT));
    assert!(world.rows(None).is_empty());
}

/// What a look says is right is not refused a moment later for what it could have known.
#[test]
fn a_look_refuses_classes_and_functions_that_there_are_not() {
    let mut world = World::new();
    let peer = world.peer(USER);
    let no_class = FILM.replace("\"guaranteed\"", "\"garanteed\"");
    assert_ne!(no_class, FILM);
    let no_function = "[group.a]\nfunction = \"user:frist\"\nmembers = [\"one\"]";
    for text in [&no_class, no_function] {
        let looked = world.service.apply_file(&peer, "film", text, true);
        assert_eq!(looked.map_err(|refusal| refusal.errno), Err(Errno::ENOENT));
        let applied = world.apply(USER, "film", text);
        assert_eq!(applied.map_err(|refused| refused.0), Err(Errno::ENOENT));
    }
    let looked = world.service.apply_file(&peer, "film", FILM, true);
    assert_eq!(looked, world.service.apply_file(&peer, "film", FILM, false));
}

#[test]
fn only_what_differs_is_done() {
    let mut world = World::new();
    world.apply(USER, "film", FILM).unwrap();
    let numbers = |world: &World| {
        world
            .host
            .record()
            .groups
            .keys()
            .copied()
            .collect::<Vec<_>>()
    };
    let before = numbers(&world);
    let more = FILM.replace("rate = 0.3", "rate = 0.4");
    let changes = world.apply(USER, "film", &more).unwrap();
    assert_eq!(
        changes,
        ["~ group film rate: 0.3 of guaranteed in 30ms -> 0.4 of guaranteed in 30ms"]
    );
    assert_eq!(numbers(&world), before);
    assert_eq!(world.in_force(), [100_000, 300_000]);
    let shown = world.rows(None).into_iter().find_map(|row| match row {
        What::Group(row) => row.rate,
        _ => None,
    });
    assert_eq!(shown, Some(0.4));
    // A member's terms are changed where it is.
    let longer = more.replace("4ms", "5ms");
    world.apply(USER, "film", &longer).unwrap();
    assert_eq!(numbers(&world), before);
    let interval = |world: &World| {
        let record = world.host.record();
        let members = record
            .groups
            .values()
            .flat_map(|group| group.group.members.clone());
        members
            .filter_map(|member| member.terms.interval_ns)
            .collect::<Vec<_>>()
    };
    assert_eq!(interval(&world), [5_000_000]);
    // Another stage makes it another pipeline, and leaves the other group alone.
    let another = longer.replace("\"scale\",", "\"scale\", \"sharpen\",");
    world.apply(USER, "film", &another).unwrap();
    assert_eq!(
        numbers(&world)
            .iter()
            .filter(|id| before.contains(id))
            .count(),
        1
    );
    assert_eq!(
        world.told()[1].members,
        ["read", "scale", "sharpen", "show"]
    );
}

/// The scheduler refuses each of its calls in turn: what was in force stays.
#[test]
fn what_is_refused_on_the_way_changes_nothing() {
    let other = FILM
        .replace("rate = 0.3", "rate = 0.35")
        .replace("\"scale\",", "")
        .replace("interval = \"4ms\"", "interval = \"3ms\"")
        + "\n[group.new]\nclass = \"adaptive\"\nrate = 0.1\nmembers = [\"fresh\"]\n";
    for refused in ["create_group", "create_reservation", "change_reservation"] {
        let mut world = World::new();
        world.apply(USER, "film", FILM).unwrap();
        let before = world.state();
        let members = world.host.record().groups.clone();
        world.host.record().refuse.insert(refused, libc::ENOSPC);
        // What undoes is not refused: the scheduler had room for that before.
        let peer = world.peer(USER);
        let refusal = world.service.apply_file(&peer, "film", &other, false);
        assert_eq!(refusal.unwrap_err().errno, Errno::ENOSPC, "{refused}");
        world.host.record().refuse.clear();
        if refused != "create_group" {
            assert_eq!(world.state(), before, "{refused}");
            let after = world.host.record().groups.clone();
            assert_eq!(after.len(), members.len());
        }
        // Whatever it was, a further try does all of it.
        world.apply(USER, "film", &other).unwrap();
        assert_eq!(world.told().len(), 3, "{refused}");
    }
}

#[test]
fn a_file_that_cannot_be_kept_changes_nothing() {
    let mut world = World::new();
    world.apply(USER, "film", FILM).unwrap();
    let before = world.state();
    let store = world.store();
    // A folder is where the file is made.
    std::fs::create_dir(store.join("unfinished")).unwrap();
    let (errno, text) = world
        .apply(USER, "film", &FILM.replace("\"scale\",", ""))
        .unwrap_err();
    assert_eq!(errno, Errno::EIO);
    assert!(text.contains("nothing was changed"), "{text}");
    assert_eq!(world.state(), before);
}

#[test]
fn rates_are_admitted_as_all_others() {
    let mut world = World::new();
    let file =
        |rate: &str| format!("[group.a]\nclass = \"guaranteed\"\nrate = {rate}\nmembers = [\"a\"]");
    let (errno, text) = world.apply(ROOT, "a", &file("0.6")).unwrap_err();
    assert_eq!(errno, Errno::ENOSPC);
    assert!(text.contains("guaranteed"), "{text}");
    assert_eq!(world.state(), (vec![], vec![]));
    world.apply(ROOT, "a", &file("0.2")).unwrap();
    // A user has half a CPU, in all classes.
    let two = "[group.a]\nclass = \"guaranteed\"\nrate = 0.3\nmembers = [\"a\"]\n\
               [group.b]\nclass = \"adaptive\"\nrate = 0.3\nmembers = [\"b\"]";
    let (errno, text) = world.apply(USER, "b", two).unwrap_err();
    assert_eq!(errno, Errno::EDQUOT, "{text}");
    assert_eq!(world.in_force(), [200_000]);
    let (errno, _) = world
        .apply(USER, "c", &file("0.1").replace("guaranteed", "golden"))
        .unwrap_err();
    assert_eq!(errno, Errno::ENOENT);
}

#[test]
fn files_and_names_belong_to_their_users() {
    let mut world = World::new();
    world.apply(USER, "film", FILM).unwrap();
    // The same names, of another user.
    world
        .apply(OTHER, "film", &FILM.replace("0.3", "0.2"))
        .unwrap();
    let foreign = |peer: i32, uid| {
        let peer = world.peer(peer);
        (peer, Some(uid))
    };
    let (peer, uid) = foreign(OTHER, UID);
    let refusal = world.service.delete_file(&peer, "film", uid).unwrap_err();
    assert_eq!(refusal.errno, Errno::EPERM);
    assert_eq!(world.rows(Some(UID)).len(), 3 + 4);
    let peer = world.peer(ROOT);
    world.service.delete_file(&peer, "film", Some(UID)).unwrap();
    assert_eq!(world.rows(Some(UID)).len(), 0);
    assert_eq!(world.told().len(), 2);
    // A name is of one file of a user's.
    let (errno, text) = world
        .apply(OTHER, "more", "[group.x]\nmembers = [\"show\"]")
        .unwrap_err();
    assert_eq!(errno, Errno::EEXIST);
    assert!(text.contains("group stages of the file film"), "{text}");
    // Only root names strangers, and nobody who does not exist.
    let rule = |user: &str| {
        format!("[group.x]\nmembers = [{{ name = \"x\", rule = {{ user = \"{user}\" }} }}]")
    };
    assert_eq!(
        world.apply(OTHER, "x", &rule("root")).unwrap_err().0,
        Errno::EPERM
    );
    assert_eq!(
        world
            .apply(ROOT, "x", &rule("nobody-at-all"))
            .unwrap_err()
            .0,
        Errno::ENOENT
    );
    assert!(world.apply(ROOT, "x", &rule("70001")).is_ok());
}

#[test]
fn one_user_can_hold_so_many() {
    let folder = Folder::new();
    write_thread(&folder.0, USER, &[USER], UID, 5);
    let limits = Limits {
        domains: 3,
        ..Limits::default()
    };
    let mut world = World::with_limits(folder, limits);
    world.apply(USER, "film", FILM).unwrap();
    let two = "[group.a]\nmembers = [\"a\"]\n[group.b]\nmembers = [\"b\"]";
    assert_eq!(world.apply(USER, "two", two).unwrap_err().0, Errno::EDQUOT);
    assert_eq!(world.told().len(), 2);
    world.delete(USER, "film").unwrap();
    world.apply(USER, "two", two).unwrap();
    // However many small files: their texts are kept.
    let mut world = World::new();
    let text = |number: usize| {
        format!(
            "[group.a{number}]\nmembers = [\"m{number}\"]\n{}",
            "#".repeat(95 << 10)
        )
    };
    let first = (0..20).find_map(|number| {
        world
            .apply(USER, &format!("f{number}"), &text(number))
            .err()
    });
    let (errno, text) = first.unwrap();
    assert_eq!(errno, Errno::EDQUOT);
    assert!(text.contains("delete some"), "{text}");
}

#[test]
fn a_wrong_file_is_refused_with_its_line() {
    let mut world = World::new();
    let (errno, text) = world
        .apply(USER, "film", "\n[group.a]\nfunction = 3")
        .unwrap_err();
    assert_eq!(errno, Errno::EINVAL);
    assert!(text.starts_with("film:3: group.a.function"), "{text}");
}
