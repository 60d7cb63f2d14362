// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is asked for: refused and nothing changed, or done in one step.

use std::{collections::BTreeMap, fs, os::unix::fs::MetadataExt, time::Instant};

use consort_daemon::{
    config::Division,
    division::ReservationPage,
    rate::Rate,
    reservations::{Ask, AskedRate},
    root::RootsPart,
    targets::{Named, Scope},
};
use consort_kernel::RATE_ONE;
use nix::errno::Errno;

use crate::{
    common::write_thread,
    world::{World, PERIOD_NS, ROOT, UID, USER},
};

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut world = World::new();
    world.reserve(USER, 0, "guaranteed", 0.3).unwrap();
    let before = (world.admitted(), fs::read(world.journal()).unwrap());
    let stranger = USER + 100;
    write_thread(&world.folder.0, stranger, &[stranger], UID + 1, 5);
    for (asker, number, class, rate, errno, part) in [
        (USER, 0, "guaranteed", 0.0, Errno::ERANGE, "0.0001 to 1"),
        (USER, 0, "guaranteed", -0.1, Errno::ERANGE, "out of range"),
        (USER, 0, "guaranteed", f64::NAN, Errno::ERANGE, "rate NaN"),
        (ROOT, 0, "guaranteed", 1.5, Errno::ERANGE, "out of range"),
        (ROOT, 0, "guaranteed", 0.6, Errno::ENOSPC, "0.2 are left"),
        (
            ROOT,
            0,
            "guaranteed",
            0.200001,
            Errno::ENOSPC,
            "0.2 are left",
        ),
        (
            ROOT,
            0,
            "golden",
            0.1,
            Errno::ENOENT,
            "guaranteed, adaptive",
        ),
        (
            ROOT,
            0,
            "flexible",
            0.1,
            Errno::ENOENT,
            "guaranteed, adaptive",
        ),
        (
            USER,
            USER + 1,
            "adaptive",
            0.3,
            Errno::EDQUOT,
            "at most 0.2 more",
        ),
        (
            USER,
            ROOT,
            "adaptive",
            0.1,
            Errno::EPERM,
            "belongs to user 0",
        ),
        (
            USER,
            stranger,
            "adaptive",
            0.1,
            Errno::EPERM,
            "belongs to user",
        ),
        (
            ROOT,
            9999,
            "adaptive",
            0.1,
            Errno::ESRCH,
            "no process or thread 9999",
        ),
        (
            ROOT,
            -1,
            "adaptive",
            0.1,
            Errno::EINVAL,
            "expected its number",
        ),
    ] {
        let refused = world.reserve(asker, number, class, rate).unwrap_err();
        assert_eq!(refused.0, errno, "{}", refused.1);
        assert!(refused.1.contains(part), "{}", refused.1);
    }
    for period_ns in [0, 999_999, 10_000_000_001, u64::MAX] {
        let ask = Ask {
            named: Named::Number {
                number: 0,
                scope: Scope::Any,
            },
            class: "adaptive".to_owned(),
            rate: AskedRate::Fixed(0.1),
            period_ns,
        };
        let refusal = world.service.reserve(&world.peer(ROOT), &ask).unwrap_err();
        assert_eq!(refusal.errno, Errno::ERANGE);
        assert!(
            refusal.text.contains("expected 1ms to 10s"),
            "{}",
            refusal.text
        );
    }
    assert_eq!(world.release(USER + 1), Err(Errno::ENOENT));
    assert_eq!(
        (world.admitted(), fs::read(world.journal()).unwrap()),
        before
    );
    assert_eq!(world.in_force(), world.admitted());
}

#[test]
fn what_the_scheduler_or_the_disk_refuses_is_undone() {
    let mut world = World::new();
    world.reserve(ROOT, 0, "guaranteed", 0.3).unwrap();
    let before = world.admitted();
    for call in ["create_reservation", "add_to_reservation"] {
        world.host.record().refuse.insert(call, libc::EBUSY);
        let refused = world.reserve(USER, 0, "guaranteed", 0.1).unwrap_err();
        assert_eq!(refused.0, Errno::EBUSY, "{call}");
        world.host.record().refuse.clear();
        assert_eq!(
            (world.admitted(), world.in_force()),
            (before.clone(), before.clone())
        );
    }
    // All its threads have ended, or are not the scheduler's.
    world
        .host
        .record()
        .refuse
        .insert("add_to_reservation", libc::ESRCH);
    let refused = world.reserve(USER, 0, "guaranteed", 0.1).unwrap_err();
    assert!(
        refused.1.contains("not under the scheduler"),
        "{}",
        refused.1
    );
    world.host.record().refuse.clear();
    world
        .host
        .record()
        .refuse
        .insert("change_reservation", libc::EINVAL);
    world.reserve(ROOT, 0, "guaranteed", 0.1).unwrap_err();
    world.host.record().refuse.clear();
    assert_eq!(
        (world.admitted(), world.in_force()),
        (before.clone(), before)
    );
}

#[test]
fn a_change_is_one_request() {
    let mut world = World::new();
    let number = world.reserve(USER, 0, "guaranteed", 0.3).unwrap();
    assert_eq!(world.reserve(USER, 0, "guaranteed", 0.5), Ok(number));
    assert_eq!(world.reserve(ROOT, USER, "adaptive", 0.4), Ok(number));
    let expected = BTreeMap::from([(USER, ("adaptive".to_owned(), 400_000))]);
    assert_eq!(
        (world.admitted(), world.in_force()),
        (expected.clone(), expected)
    );
    assert_eq!(world.release(USER), Ok(number));
    assert_eq!(world.host.record().reservations.len(), 0);
    assert_ne!(world.reserve(USER, 0, "guaranteed", 0.3), Ok(number));
}

#[test]
fn the_dead_make_room() {
    let mut world = World::new();
    world.reserve(ROOT, USER, "guaranteed", 0.5).unwrap();
    world
        .reserve(ROOT, USER + 1, "guaranteed", 0.1)
        .unwrap_err();
    for promise in world.host.record().reservations.values_mut() {
        promise.threads.clear();
    }
    world.reserve(ROOT, USER + 1, "guaranteed", 0.1).unwrap();
    assert_eq!(world.admitted().into_keys().collect::<Vec<_>>(), [USER + 1]);
    for promise in world.host.record().reservations.values_mut() {
        promise.threads.clear();
    }
    world.service.tick(Instant::now());
    assert!(world.admitted().is_empty());
}

#[test]
fn classes_keep_what_they_promised() {
    let mut world = World::new();
    world.reserve(ROOT, USER, "guaranteed", 0.4).unwrap();
    let refused = world.set_guaranteed(300_000).unwrap_err();
    assert_eq!(refused.0, Errno::EBUSY);
    assert!(refused.1.contains("admitted rates of 0.4"), "{}", refused.1);
    assert_eq!(
        world.service.remove_class("guaranteed").unwrap_err().errno,
        Errno::EBUSY
    );
    let refused = world.set_guaranteed(760_000).unwrap_err();
    assert!(refused.1.contains("at most 0.74"), "{}", refused.1);
    world
        .host
        .record()
        .refuse
        .insert("set_classes", libc::ENOMEM);
    assert_eq!(world.set_guaranteed(450_000).unwrap_err().0, Errno::ENOMEM);
    world.host.record().refuse.clear();
    assert_eq!(world.capacity(0), 0.5);
    world.set_guaranteed(450_000).unwrap();
    world.service.remove_class("adaptive").unwrap();
    assert_eq!(world.capacity(0), 0.45);
    assert_eq!(
        world.reserve(ROOT, 0, "adaptive", 0.1).unwrap_err().0,
        Errno::ENOENT
    );
}

/// A cgroup's reservation is for whoever is in it, and lasts as long as the cgroup.
#[test]
fn cgroups_reserve() {
    let mut world = World::new();
    let folder = world.cgroup("films");
    fs::write(folder.join("cgroup.threads"), "11\n12\n").unwrap();
    fs::write(folder.join("cpu.stat"), "usage_usec 1500\nuser_usec 1000\n").unwrap();
    let number = world.reserve_cgroup(ROOT, "/films", 0.3).unwrap();
    assert_eq!(world.reserve_cgroup(ROOT, "films", 0.2), Ok(number));
    let held = &ReservationPage::of(&world.service, None, None).reservations[0];
    assert_eq!(
        (held.kind, &*held.command, held.threads),
        ("cgroup", "films", 2)
    );
    assert_eq!((held.asked, held.used_total_ns), (0.2, 1_500_000));
    for (path, errno) in [
        ("", Errno::EINVAL),
        ("/", Errno::EINVAL),
        ("films/../films", Errno::EINVAL),
        ("none", Errno::ENOENT),
        ("films/cpu.stat", Errno::ENOENT),
    ] {
        assert_eq!(world.reserve_cgroup(ROOT, path, 0.1), Err(errno), "{path}");
    }
    assert_eq!(world.reserve_cgroup(USER, "films", 0.1), Err(Errno::EPERM));
    world
        .host
        .record()
        .refuse
        .insert("adopt_cgroup", libc::EBUSY);
    world.cgroup("films/late");
    assert_eq!(
        world.reserve_cgroup(ROOT, "films/late", 0.1),
        Err(Errno::EBUSY)
    );
    world.host.record().refuse.clear();
    assert_eq!(world.host.record().reservations.len(), 1);

    let mut world = World::beside(world.killed());
    let rates = |world: &World| -> Vec<(Option<u64>, u32)> {
        let record = world.host.record();
        let all = record.reservations.values();
        all.map(|one| (one.cgroup, one.rate)).collect()
    };
    let id = fs::metadata(&folder).unwrap().ino();
    assert_eq!(
        rates(&world),
        [(Some(id), (0.2 * f64::from(RATE_ONE)) as u32)]
    );
    // The scheduler sees it go.
    for promise in world.host.record().reservations.values_mut() {
        promise.cgroup = None;
    }
    world.service.tick(Instant::now());
    assert_eq!(rates(&world), []);

    world.reserve_cgroup(ROOT, "films", 0.2).unwrap();
    let gone = world.killed();
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(rates(&World::beside(gone)), []);
}

/// A thread shares what its process has reserved: it can have one of its own if that came first.
#[test]
fn a_thread_that_has_a_part_in_another_reservation_is_told_so() {
    let mut world = World::new();
    world.reserve(USER, 0, "guaranteed", 0.1).unwrap();
    let ask = Ask {
        named: Named::Number {
            number: USER,
            scope: Scope::Thread,
        },
        class: "guaranteed".to_owned(),
        rate: AskedRate::Fixed(0.1),
        period_ns: PERIOD_NS,
    };
    let peer = world.peer(USER);
    let before = world.admitted();
    let refused = world.service.reserve(&peer, &ask).unwrap_err();
    assert_eq!(refused.errno, Errno::EBUSY, "{}", refused.text);
    assert!(
        refused.text.contains("has a part in another reservation"),
        "{}",
        refused.text
    );
    assert_eq!(world.admitted(), before);
}

/// However many users there are, some is left for root; what root has of that already is not kept again.
#[test]
fn a_part_of_each_class_is_roots() {
    let folder = World::new().killed();
    let kept = |division: &mut Division| division.roots_part = RootsPart::of(0.2).unwrap();
    let mut world = World::beside_with(folder, kept);
    let refused = world.reserve(USER, 0, "guaranteed", 0.41).unwrap_err();
    assert_eq!(refused.0, Errno::ENOSPC);
    assert!(
        refused.1.contains("keeps 0.1 for root: 0.4 are left"),
        "{}",
        refused.1
    );
    world.reserve(USER, 0, "guaranteed", 0.35).unwrap();
    world.reserve(ROOT, ROOT, "guaranteed", 0.1).unwrap();
    // Root has all of its part: what else there is is everybody's.
    world.reserve(USER, 0, "guaranteed", 0.4).unwrap();
    let refused = world.reserve(USER, 0, "guaranteed", 0.41).unwrap_err();
    assert_eq!(refused.0, Errno::ENOSPC);
    world.release(ROOT).unwrap();
    // A user within what root keeps may go down, and not up.
    world.reserve(ROOT, ROOT, "guaranteed", 0.02).unwrap();
    world.reserve(USER, 0, "guaranteed", 0.38).unwrap();
    let refused = world.reserve(USER, 0, "guaranteed", 0.41).unwrap_err();
    assert!(
        refused.1.contains("keeps 0.08 for root: 0.4 are left"),
        "{}",
        refused.1
    );
    // Root passes its own part by.
    world.reserve(ROOT, ROOT, "guaranteed", 0.12).unwrap();
    world.reserve(USER, 0, "guaranteed", 0.3).unwrap();
    world.reserve(ROOT, ROOT, "guaranteed", 0.2).unwrap();
    // Set later: what is held stays, and can only shrink.
    let mut world = World::beside_with(world.killed(), |division| {
        division.roots_part = RootsPart::of(1.0).unwrap();
    });
    world.reserve(USER, 0, "guaranteed", 0.31).unwrap_err();
    world.reserve(USER, 0, "guaranteed", 0.3).unwrap();
    world.reserve(USER, 0, "guaranteed", 0.2).unwrap();
}

/// The part of root's that the operator's file says when it is read again holds from then on; of a file with an error nothing does.
#[test]
fn a_part_of_roots_that_is_read_again_holds() {
    let mut world = World::new();
    let file = world.folder.0.join("classes.toml");
    let reload = |world: &mut World, text: &str| {
        std::fs::write(&file, text).unwrap();
        world.service.set_file(Some(file.clone()));
        world.service.reload((0, ROOT));
    };
    reload(&mut world, "[limits]\nkept_for_root = '20%'\n");
    let refused = world.reserve(USER, 0, "guaranteed", 0.41).unwrap_err();
    assert!(refused.1.contains("keeps 0.1 for root"), "{}", refused.1);
    reload(&mut world, "[limits]\nkept_for_root = '101%'\n");
    world.reserve(USER, 0, "guaranteed", 0.41).unwrap_err();
    reload(&mut world, "[limits]\nkept_for_root = 0\n");
    world.reserve(USER, 0, "guaranteed", 0.41).unwrap();
}

/// What root has granted may shrink as it is; to grow, it must be within the limits of whoever lets it grow.
#[test]
fn a_grant_of_roots_does_not_grow_beyond_its_users_limits() {
    let folder = World::new().killed();
    let mut world = World::beside_with(folder, |division| division.limits.rate = Rate(100_000));
    world.reserve(ROOT, ROOT, "guaranteed", 0.05).unwrap();
    world.reserve(ROOT, USER, "adaptive", 0.15).unwrap();
    world.lend(ROOT, USER + 1, 0.01).unwrap();
    for (number, class, rate) in [
        (USER, "adaptive", 0.16),
        (USER, "guaranteed", 0.15),
        (USER + 1, "guaranteed", 0.11),
    ] {
        let refused = world.reserve(number, number, class, rate).unwrap_err();
        assert_eq!(refused.0, Errno::EDQUOT, "{number}: {}", refused.1);
    }
    let auto = Ask {
        named: Named::Number {
            number: 0,
            scope: Scope::Any,
        },
        class: "adaptive".to_owned(),
        rate: AskedRate::Auto {
            least: 0.05,
            most: 1.0,
        },
        period_ns: PERIOD_NS,
    };
    // The most that an automatic rate may become counts when it becomes it, on its user's account.
    let user = world.peer(USER);
    world.service.reserve(&user, &auto).unwrap();
    let page = ReservationPage::of(&world.service, Some(UID), None);
    assert_eq!(page.reservations.len(), 1);
    // Within what was granted, and within one's own limits, all is well.
    world.reserve(ROOT, USER + 2, "adaptive", 0.15).unwrap();
    world.reserve(USER + 2, USER + 2, "adaptive", 0.12).unwrap();
    world
        .reserve(USER + 1, USER + 1, "guaranteed", 0.05)
        .unwrap();
}

/// A stranger's loan is given back when its receiver goes elsewhere.
#[test]
fn nobody_is_kept_in_a_class_by_a_loan() {
    let mut world = World::new();
    world.reserve(ROOT, ROOT, "guaranteed", 0.1).unwrap();
    world.reserve(USER, USER, "guaranteed", 0.1).unwrap();
    world.lend(ROOT, USER, 0.0001).unwrap();
    world.reserve(USER, USER, "adaptive", 0.1).unwrap();
    assert_eq!(world.admitted()[&ROOT].1, 100_000);
    assert_eq!(world.admitted()[&USER], ("adaptive".to_owned(), 100_000));
    assert_eq!(world.admitted(), world.in_force());
    // One that has nothing else begins anew.
    world.lend(ROOT, USER + 1, 0.01).unwrap();
    world.reserve(USER + 1, USER + 1, "adaptive", 0.1).unwrap();
    assert_eq!(world.admitted(), world.in_force());
    assert_eq!(world.admitted()[&ROOT].1, 100_000);
}

#[test]
fn a_cgroup_has_one_name_however_it_is_written() {
    let mut world = World::new();
    world.cgroup("a/x");
    world.reserve_cgroup(ROOT, "a/x/", 0.1).unwrap();
    world.reserve_cgroup(ROOT, "/a//x/./", 0.2).unwrap();
    let peer = world.peer(ROOT);
    world
        .service
        .release(&peer, &Named::Cgroup("a/x".to_owned()))
        .unwrap();
    assert!(world.host.record().reservations.is_empty());
}

#[test]
fn a_refused_request_takes_no_number() {
    let mut world = World::new();
    let first = world.reserve(ROOT, ROOT, "guaranteed", 0.1).unwrap();
    world
        .host
        .record()
        .refuse
        .insert("add_to_reservation", libc::ESRCH);
    for _ in 0..10 {
        world.reserve(USER, 0, "guaranteed", 0.1).unwrap_err();
    }
    world.host.record().refuse.clear();
    let second = world.reserve(USER, 0, "guaranteed", 0.1).unwrap();
    assert_eq!(second, first + 1);
}
