// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where members meet, and where they must not: directories of all kinds, and namespaces.

mod common;

use common::{file, in_child, runtime, Directory, Seat, IS_CHOSEN, TERMS};
use consort_userlevel::{inspect, Linux, Meeting, Runtime};
use std::fs;
use std::os::unix::fs::{chown, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;

const GROUP: u32 = 60_000;

/// Only root can be other users.
fn is_root() -> bool {
    // SAFETY: plain look-up.
    unsafe { libc::geteuid() == 0 }
}

/// Becomes that user, of a group of its own and of GROUP.
fn become_user(user: u32) {
    // SAFETY: the one group is valid; in a child with one thread.
    unsafe {
        assert_eq!(libc::setgroups(1, &GROUP), 0);
        assert_eq!(libc::setgid(user), 0);
        assert_eq!(libc::setuid(user), 0);
    }
    IS_CHOSEN.store(true, Relaxed);
}

#[test]
fn users_of_a_group_meet_though_its_directory_does_not_hand_the_group_on() {
    if !is_root() {
        return;
    }
    let directory = Directory::new();
    chown(&directory.0, None, Some(GROUP)).unwrap();
    fs::set_permissions(&directory.0, PermissionsExt::from_mode(0o770)).unwrap();
    let met = in_child(|| {
        // The second one comes, and goes, in a child of the first one's.
        let comes = || {
            become_user(GROUP + 2);
            let seat = Seat::take(&directory.0);
            inspect::domains(&directory.0)[0].members.len() == 2 && seat.meeting.is_current()
        };
        // SAFETY: this child has one thread, and root's rights again for the other user's.
        unsafe {
            assert_eq!(libc::setgroups(1, &GROUP), 0);
            assert_eq!(libc::setegid(GROUP + 1), 0);
            assert_eq!(libc::seteuid(GROUP + 1), 0);
        }
        IS_CHOSEN.store(true, Relaxed);
        let seat = Seat::take(&directory.0);
        // SAFETY: as above.
        assert_eq!(unsafe { libc::seteuid(0) | libc::setegid(0) }, 0);
        let has_met = in_child(comes) == 0;
        // SAFETY: as above.
        assert_eq!(unsafe { libc::seteuid(GROUP + 1) }, 0);
        has_met && seat.meeting.is_current()
    });
    assert_eq!(met, 0);
}

#[test]
fn a_directory_in_place_of_the_file_is_put_aside() {
    let directory = Directory::new();
    let path = file(&directory.0);
    Seat::take(&directory.0).leave();
    fs::create_dir(&path).unwrap();
    fs::write(path.join("kept"), "").unwrap();
    let seat = Seat::take(&directory.0);
    assert!(seat.meeting.is_current());
    assert_eq!(seat.poll(), Ok(()));
    seat.leave();
    let aside = fs::read_dir(&directory.0).unwrap();
    let kept = aside.filter(|entry| entry.as_ref().unwrap().path().join("kept").exists());
    assert_eq!(kept.count(), 1);
}

#[test]
fn a_directory_is_its_user_s_alone_whatever_the_file_mode_mask() {
    let parent = Directory::new();
    let made = in_child(|| {
        // SAFETY: a plain system call, in a child.
        unsafe { libc::umask(0o777) };
        let path = parent.0.join("consort");
        let attended = Meeting::attend(&Runtime::at(&path), "studio", TERMS).is_ok();
        attended && fs::metadata(&path).unwrap().mode() & 0o7777 == 0o700
    });
    assert_eq!(made, 0);
}

/// Leaves a namespace; not every machine permits that.
fn unshare(what: libc::c_int) -> bool {
    // SAFETY: plain system call, in a child with one thread.
    unsafe { libc::unshare(what) == 0 }
}

#[test]
fn members_of_other_containers_do_not_replace_each_other_s_files() {
    let directory = Directory::new();
    let seat = Seat::take(&directory.0);
    let stays = in_child(|| {
        if !unshare(libc::CLONE_NEWIPC) {
            return true;
        }
        let own = Seat::take(&directory.0);
        let seen = inspect::domains(&directory.0);
        let is_alone = seen.len() == 1 && seen[0].members.len() == 1;
        own.poll() == Ok(()) && own.meeting.is_current() && is_alone
    });
    assert_eq!(stays, 0);
    assert!(seat.meeting.is_current(), "nobody has replaced it");
    assert_eq!(inspect::domains(&directory.0).len(), 1);
    seat.leave();
}

#[test]
fn members_whose_clocks_differ_do_not_meet() {
    let directory = Directory::new();
    let seat = Seat::take(&directory.0);
    assert_eq!(seat.poll(), Ok(()));
    let stays = in_child(|| {
        let offset = "monotonic 100000 0\n";
        if !unshare(libc::CLONE_NEWTIME) || fs::write("/proc/self/timens_offsets", offset).is_err()
        {
            return true;
        }
        in_child(|| {
            let own = Seat::take(&directory.0);
            own.poll() == Ok(()) && inspect::domains(&directory.0)[0].members.len() == 1
        }) == 0
    });
    assert_eq!(stays, 0);
    seat.leave();
}

/// /proc of another namespace says of a process' number what is another process'.
#[test]
fn nobody_is_declared_dead_by_the_proc_of_other_numbers() {
    let is_unknown = in_child(|| {
        // The parent's of a new namespace keeps the old /proc.
        !unshare(libc::CLONE_NEWPID) || in_child(|| Linux::new().me().pid_space == 0) == 0
    });
    assert_eq!(is_unknown, 0);
}

const AS_PRIVILEGED: &str = "TEST_PRIVILEGED_DIRECTORY";

/// What the next test's program does: it looks where it would meet others. Nothing, if it is none.
#[test]
fn privileged() {
    let Some(directory) = std::env::var_os(AS_PRIVILEGED) else {
        return;
    };
    // SAFETY: plain look-up.
    assert_ne!(unsafe { libc::getauxval(libc::AT_SECURE) }, 0);
    let own = Runtime::of_user();
    assert_ne!(own.path(), Path::new(&directory));
    // SAFETY: plain look-up.
    let user = unsafe { libc::geteuid() };
    let planted = format!("/tmp/consort-{user}");
    assert_eq!(own.path(), Path::new(&planted));
    assert!(Meeting::attend(&own, "studio", TERMS).is_err());
}

/// Whoever starts a program with more rights than one's own has made the directory where that would meet others, and names it
/// in the environment, too.
#[test]
fn a_program_with_more_rights_than_its_user_is_not_led_into_others_directories() {
    let user = 61_000 + std::process::id() % 4000;
    let planted = format!("/tmp/consort-{user}");
    let program = Directory::new();
    let copy = program.0.join("privileged");
    if !is_root() || fs::create_dir(&planted).is_err() {
        return;
    }
    fs::set_permissions(&planted, PermissionsExt::from_mode(0o777)).unwrap();
    // Another process copies: a child that another test forks would hold the copy open for writing, and then nobody can
    // run it.
    let copied = Command::new("cp")
        .arg(std::env::current_exe().unwrap())
        .arg(&copy)
        .status();
    assert!(copied.unwrap().success());
    chown(&copy, Some(user), None).unwrap();
    fs::set_permissions(&copy, PermissionsExt::from_mode(0o4755)).unwrap();
    fs::set_permissions(&program.0, PermissionsExt::from_mode(0o755)).unwrap();
    let status = Command::new(&copy)
        .args(["--exact", "privileged", "--nocapture"])
        .env("CONSORT_RUNTIME_DIR", &planted)
        .env(AS_PRIVILEGED, "/nowhere")
        .stdout(std::process::Stdio::null())
        .status();
    fs::remove_dir_all(&planted).unwrap();
    assert!(status.unwrap().success());
}

#[test]
fn a_directory_that_is_another_user_s_is_refused_though_it_is_empty() {
    if !is_root() {
        return;
    }
    let directory = Directory::new();
    chown(&directory.0, Some(GROUP + 1), None).unwrap();
    assert!(Meeting::attend(&runtime(&directory.0), "studio", TERMS).is_err());
}
