// SPDX-License-Identifier: MIT OR Apache-2.0
//! Disks without room for the journal, and disks that are read-only: what is admitted is still what is in force, then and after
//! the daemon has been killed.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use consort_daemon::{division::ReservationPage, status::Status};
use nix::errno::Errno;

use crate::{
    common::{write_thread, Daemon, Folder},
    world::{World, ROOT, UID, USER},
};

/// A file system of so many bytes, in memory.
struct Disk(PathBuf);

impl Disk {
    /// `None` where this user may not mount any.
    fn mount(folder: &Path, bytes: u32) -> Option<Disk> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"]);
        let mounted = mount.arg(folder).status().is_ok_and(|it| it.success());
        mounted.then(|| Disk(folder.to_owned()))
    }

    /// Leaves no room for another byte.
    fn fill(&self) -> PathBuf {
        let path = self.0.join("filling");
        let mut file = fs::File::create(&path).unwrap();
        while file.write_all(&[0; 512]).is_ok() {}
        path
    }

    fn make_read_only(&self) {
        let mut mount = Command::new("mount");
        mount.args(["-o", "remount,ro"]).arg(&self.0);
        assert!(mount.status().unwrap().success());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
        let _ = fs::remove_dir(&self.0);
    }
}

fn told(world: &World) -> Option<String> {
    Status::of(&world.service, None).unwrap().journal_error
}

/// What is reserved holds, more is refused until there is room, and the operator is told. A line that the daemon before had
/// no room for counts for nothing.
#[test]
fn a_journal_on_a_full_disk_is_taken_up() {
    let folder = Folder::new();
    let Some(disk) = Disk::mount(&folder.0, 1 << 20) else {
        eprintln!("NOT TESTED: this user may mount no file system of its own");
        return;
    };
    for end in ["", r#"{"op":"release","num"#] {
        write_thread(&folder.0, ROOT, &[ROOT], 0, 5);
        write_thread(&folder.0, USER, &[USER], UID, 5);
        let mut world = World::beside(Folder(folder.0.clone()));
        world.reserve(ROOT, USER, "guaranteed", 0.1).unwrap();
        let admitted = world.admitted();
        let mut journal = fs::read(world.journal()).unwrap();
        journal.extend(end.bytes());
        fs::write(world.journal(), journal).unwrap();
        let filling = disk.fill();

        let mut world = World::beside(world.killed());
        assert_eq!(
            (world.admitted(), world.in_force()),
            (admitted.clone(), admitted)
        );
        assert!(told(&world).unwrap().contains("No space left"));
        // There is room in the page that it ends in, and what it says may have ended.
        let refused = world.reserve(ROOT, ROOT, "guaranteed", 0.1).unwrap_err();
        assert_eq!(refused.0, Errno::EIO);
        assert!(told(&world).unwrap().contains("No space left"));
        assert_eq!(world.admitted(), world.in_force());

        fs::remove_file(filling).unwrap();
        world.reserve(ROOT, USER, "guaranteed", 0.2).unwrap();
        assert_eq!(told(&world), None);
    }
}

/// What it says holds, and what is reserved from now on ends with the daemon.
#[test]
fn a_journal_on_a_read_only_disk_is_taken_up() {
    let folder = Folder::new();
    let Some(disk) = Disk::mount(&folder.0, 1 << 20) else {
        eprintln!("NOT TESTED: this user may mount no file system of its own");
        return;
    };
    write_thread(&folder.0, ROOT, &[ROOT], 0, 5);
    write_thread(&folder.0, USER, &[USER], UID, 5);
    let mut world = World::beside(folder);
    world.reserve(ROOT, USER, "guaranteed", 0.1).unwrap();
    let admitted = world.admitted();
    let folder = world.killed();
    disk.make_read_only();
    let mut world = World::beside(folder);
    assert_eq!(world.admitted(), admitted);
    assert!(told(&world).unwrap().contains("Read-only"));
    world.reserve(ROOT, ROOT, "guaranteed", 0.1).unwrap();
    assert_eq!(world.admitted(), world.in_force());
}

/// Where there is no room for a first line either.
#[test]
fn a_daemon_whose_disk_is_full_serves() {
    let folder = Folder::new();
    let Some(disk) = Disk::mount(&folder.0, 1 << 16) else {
        eprintln!("NOT TESTED: this user may mount no file system of its own");
        return;
    };
    disk.fill();
    let daemon = Daemon::in_folder(folder);
    let program = daemon.hello();
    let ask =
        r#"{"command": "reserve", "class": "guaranteed", "rate": 0.25, "period_ns": 33000000}"#;
    program.control(ask).unwrap();
    let status = program.control(r#"{"command": "status"}"#).unwrap();
    let told = status["journal_error"].as_str().unwrap();
    assert!(told.contains("No space left"), "{told}");
}

/// A world on a disk of its own, with a process of root's and some of a user's.
fn on_a_disk() -> Option<(World, Disk)> {
    let folder = Folder::new();
    let Some(disk) = Disk::mount(&folder.0, 1 << 20) else {
        eprintln!("NOT TESTED: this user may mount no file system of its own");
        return None;
    };
    write_thread(&folder.0, ROOT, &[ROOT], 0, 5);
    for pid in USER..USER + 4 {
        write_thread(&folder.0, pid, &[pid], UID, 5);
    }
    Some((World::beside(folder), disk))
}

/// Bytes of the page that the journal ends in.
fn room(world: &World) -> usize {
    4096 - fs::metadata(world.journal()).unwrap().len() as usize % 4096
}

/// Leaves about so many: a cgroup's line is as long as the cgroup's name.
fn leave_room(world: &mut World, wanted: usize) {
    let reserve = |world: &mut World, name: &str| {
        world.cgroup(name);
        world.reserve_cgroup(ROOT, name, 0.01).unwrap();
    };
    let before = room(world);
    reserve(world, "a");
    let shortest = (before + 4096 - room(world)) % 4096;
    let name = loop {
        let more = room(world).checked_sub(wanted + shortest);
        match more.filter(|more| *more < 250) {
            Some(more) => break "b".repeat(1 + more),
            None => reserve(world, "a"),
        }
    };
    reserve(world, &name);
    assert!(room(world).abs_diff(wanted) < 10, "{}", room(world));
}

fn end(world: &mut World, pid: i32) {
    for promise in world.host.record().reservations.values_mut() {
        promise.threads.remove(&pid);
    }
    world.service.tick(Instant::now());
}

/// What `pid` has lent, and to which reservations.
fn lent(world: &World, pid: i32) -> Vec<(u32, f64)> {
    let page = ReservationPage::of(&world.service, None, None);
    let held = page.reservations.into_iter().find(|it| it.number == pid);
    let lent = held.unwrap().lent.into_iter();
    lent.map(|credit| (credit.reservation, credit.rate))
        .collect()
}

#[test]
fn what_was_lent_is_its_lenders_again_when_the_borrower_ends_on_a_full_disk() {
    let Some((mut world, disk)) = on_a_disk() else {
        return;
    };
    world.reserve(ROOT, USER, "guaranteed", 0.3).unwrap();
    world.lend(USER, USER + 1, 0.2).unwrap();
    leave_room(&mut world, 12);
    disk.fill();
    end(&mut world, USER + 1);
    assert_eq!(lent(&world, USER), []);
    assert_eq!(world.admitted()[&USER].1, 300_000);
    assert_eq!(world.admitted(), world.in_force());
    assert!(told(&world).unwrap().contains("No space left"));
}

/// What it has lent is nobody's any more: others may reserve it.
#[test]
fn what_was_lent_ends_with_its_lender_on_a_full_disk() {
    let Some((mut world, disk)) = on_a_disk() else {
        return;
    };
    world.reserve(ROOT, USER + 1, "guaranteed", 0.05).unwrap();
    world.reserve(ROOT, USER, "guaranteed", 0.4).unwrap();
    world.lend(USER, USER + 1, 0.2).unwrap();
    world.lend(USER, USER + 2, 0.19).unwrap();
    leave_room(&mut world, 12);
    let filling = disk.fill();
    end(&mut world, USER);
    let (left, in_force) = (world.admitted(), world.in_force());
    assert_eq!(left, in_force);
    assert_eq!(left[&(USER + 1)].1, 50_000);
    assert!(!left.contains_key(&USER) && !left.contains_key(&(USER + 2)));
    fs::remove_file(filling).unwrap();
    world.reserve(ROOT, USER + 3, "guaranteed", 0.4).unwrap();
    let before = world.admitted();
    let world = World::beside(world.killed());
    assert_eq!(
        (world.admitted(), world.in_force()),
        (before.clone(), before)
    );
}

/// A process that had a credit only has no reservation any more, and the journal has no room to say so.
fn with_an_untold_end() -> Option<(World, PathBuf, Disk)> {
    let (mut world, disk) = on_a_disk()?;
    world.reserve(ROOT, ROOT, "guaranteed", 0.2).unwrap();
    world.lend(ROOT, USER, 0.1).unwrap();
    // What holds takes more than a page.
    for number in 0..12 {
        let name = format!("{number:0>250}");
        world.cgroup(&name);
        world.reserve_cgroup(ROOT, &name, 0.01).unwrap();
    }
    // For the first of two lines.
    let taken_back = r#"{"op":"lent","changes":[{"from":1,"to":2,"rate":0}]}"#.len();
    leave_room(&mut world, taken_back + 14);
    let filling = disk.fill();
    world.take_back(ROOT, USER, None).unwrap();
    assert!(!world.admitted().contains_key(&USER));
    assert!(told(&world).unwrap().contains("No space left"));
    Some((world, filling, disk))
}

/// What is admitted, how many of them, and how many are in force.
fn held(world: &World) -> (BTreeMap<i32, (String, u64)>, usize, usize) {
    let page = ReservationPage::of(&world.service, None, None);
    let in_force = world.host.record().reservations.len();
    (world.admitted(), page.reservations.len(), in_force)
}

#[test]
fn what_ended_on_a_full_disk_takes_nobodys_place_after_a_restart() {
    let Some((mut world, filling, _disk)) = with_an_untold_end() else {
        return;
    };
    fs::remove_file(filling).unwrap();
    world.reserve(ROOT, USER, "guaranteed", 0.1).unwrap();
    assert_eq!(told(&world), None);
    let before = held(&world);
    let world = World::beside(world.killed());
    assert_eq!(held(&world), before);
}

/// A line that fits does not follow what the journal says of others and holds no more.
#[test]
fn a_journal_that_owes_a_line_takes_no_other_one() {
    let Some((mut world, filling, _disk)) = with_an_untold_end() else {
        return;
    };
    // Another page is room for lines, and not for a new journal.
    let filling = fs::OpenOptions::new().write(true).open(filling).unwrap();
    filling
        .set_len(filling.metadata().unwrap().len() - 4096)
        .unwrap();
    let before = held(&world);
    for _ in 0..3 {
        let refused = world.reserve(ROOT, USER, "guaranteed", 0.1).unwrap_err();
        assert_eq!(refused.0, Errno::EIO);
        world.lend(ROOT, USER, 0.1).unwrap_err();
        world.service.tick(Instant::now());
        assert!(told(&world).unwrap().contains("No space left"));
        assert_eq!(held(&world), before);
    }
    filling.set_len(0).unwrap();
    world.reserve(ROOT, USER, "guaranteed", 0.1).unwrap();
    assert_eq!(told(&world), None);
}

/// Without anybody's asking.
#[test]
fn a_journal_says_what_ended_on_a_full_disk_once_there_is_room() {
    let Some((mut world, filling, _disk)) = with_an_untold_end() else {
        return;
    };
    let says_so = |world: &World| {
        let journal = fs::read_to_string(world.journal()).unwrap();
        !journal.contains(&format!(r#""pid":{USER}"#))
    };
    world.service.tick(Instant::now());
    assert!(!says_so(&world) && told(&world).is_some());
    fs::remove_file(filling).unwrap();
    world.service.tick(Instant::now());
    assert!(says_so(&world));
    assert_eq!(told(&world), None);
}
