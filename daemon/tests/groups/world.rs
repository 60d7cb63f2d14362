// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes on paper that can be looked at as rules do, and a service that serves them.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    path::PathBuf,
    time::{Duration, Instant},
};

use consort_daemon::{
    config::Division,
    division::{ReservationPage, ReservationStatus},
    groups::show::{GroupPage, What},
    limits::Limits,
    peer::{Peer, Processes},
    service::Service,
};
use consort_rates::accounts::Accounts;
use nix::errno::Errno;

use crate::common::{write_thread, FakeHost, Folder};

pub const ROOT: i32 = 3000;
pub const USER: i32 = 3001;
pub const OTHER: i32 = 3002;
pub const UID: u32 = 70_001;
pub const OTHER_UID: u32 = 70_002;

/// What two groups with a rate come to, and one without members.
pub const FILM: &str = r#"
[group.film]
class = "guaranteed"
rate = 0.3

[group.stages]
parent = "film"
function = "pipeline"
state = { queued = 0 }
members = ["read", "scale", { name = "show", interval = "4ms" }]

[group.rest]
parent = "film"
class = "guaranteed"
rate = 0.1
members = [{ name = "logs", count = 2 }]
"#;

pub struct World {
    pub folder: Folder,
    pub host: FakeHost,
    pub service: Service,
}

/// A group as the scheduler was told of it: its members' names, the rate of its reservation in millionths, the threads by
/// role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    pub members: Vec<String>,
    pub rate: Option<u64>,
    pub threads: BTreeMap<i32, Option<u32>>,
}

impl World {
    pub fn new() -> World {
        let folder = Folder::new();
        for (pid, uid) in [(ROOT, 0), (USER, UID), (OTHER, OTHER_UID)] {
            write_thread(&folder.0, pid, &[pid], uid, 5);
        }
        World::beside(folder)
    }

    /// A daemon that starts where another one may have been.
    pub fn beside(folder: Folder) -> World {
        World::with_limits(folder, Limits::default())
    }

    pub fn with_limits(folder: Folder, limits: Limits) -> World {
        World::with(folder, limits, Accounts::default())
    }

    /// The same where users have subordinate numbers.
    pub fn with(folder: Folder, limits: Limits, accounts: Accounts) -> World {
        World::on(FakeHost::default(), folder, limits, accounts)
    }

    /// A daemon that finds a scheduler which refuses what `doing` names for want of memory.
    pub fn without_memory(folder: Folder, doing: &'static str) -> World {
        let host = FakeHost::default();
        host.record().refuse.insert(doing, libc::ENOMEM);
        World::on(host, folder, Limits::default(), Accounts::default())
    }

    fn on(host: FakeHost, folder: Folder, limits: Limits, accounts: Accounts) -> World {
        let processes = Processes::at(&folder.0).with_cgroups_at(folder.0.join("cgroups"));
        let mut service = Service::new(Box::new(host.clone()), processes, limits);
        let journal = folder.0.join("consort.journal");
        let mut division = Division::by_default(1);
        division.accounts = accounts;
        service.open_reservations(division, &journal).unwrap();
        service.open_groups(&folder.0.join("consort.groups"));
        World {
            folder,
            host,
            service,
        }
    }

    /// What is left when the daemon is killed.
    pub fn killed(self) -> Folder {
        self.folder
    }

    pub fn peer(&self, pid: i32) -> Peer {
        let uid = match pid {
            ROOT => 0,
            OTHER => OTHER_UID,
            _ => UID,
        };
        Processes::at(&self.folder.0).peer(pid, uid).unwrap()
    }

    /// A thread that rules can find.
    pub fn thread(&self, (pid, tid): (i32, i32), uid: u32, (executable, name): (&str, &str)) {
        let root = &self.folder.0;
        let process = root.join(pid.to_string());
        if pid != tid {
            // The first thread has ended before the others.
            write_thread(root, pid, &[pid], uid, 7);
            let stat = process.join(format!("task/{pid}/stat"));
            let said = fs::read_to_string(&stat).unwrap();
            fs::write(stat, said.replace(" S ", " Z ")).unwrap();
        }
        write_thread(root, pid, &[tid], uid, 7);
        let exe = process.join("exe");
        let _ = fs::remove_file(&exe);
        symlink(executable, exe).unwrap();
        fs::write(process.join("cgroup"), "0::/user.slice/films\n").unwrap();
        fs::write(
            process.join(format!("task/{tid}/comm")),
            format!("{name}\n"),
        )
        .unwrap();
    }

    pub fn end_process(&self, pid: i32) {
        fs::remove_dir_all(self.folder.0.join(pid.to_string())).unwrap();
    }

    pub fn apply(
        &mut self,
        asker: i32,
        name: &str,
        text: &str,
    ) -> Result<Vec<String>, (Errno, String)> {
        let peer = self.peer(asker);
        let applied = self.service.apply_file(&peer, name, text, false);
        applied.map_err(|refusal| (refusal.errno, refusal.text))
    }

    pub fn delete(&mut self, asker: i32, name: &str) -> Result<Vec<String>, Errno> {
        let peer = self.peer(asker);
        let deleted = self.service.delete_file(&peer, name, None);
        deleted.map_err(|refusal| refusal.errno)
    }

    /// Lets the daemon look around for a while.
    pub fn tick(&mut self) {
        for _ in 0..4 {
            self.service.tick(Instant::now() + Duration::from_secs(1));
        }
    }

    /// What the scheduler was told: by the names of the members, since its numbers mean nothing.
    pub fn told(&self) -> Vec<Told> {
        let record = self.host.record();
        let mut told: Vec<Told> = record
            .groups
            .values()
            .map(|group| {
                let members = group.group.members.iter();
                let rate = group.reservation.map(|id| record.reservations[&id].rate);
                Told {
                    members: members.map(|member| member.name.clone()).collect(),
                    rate: rate.map(millionths),
                    threads: group
                        .threads
                        .iter()
                        .map(|(tid, bind)| (*tid, bind.role))
                        .collect(),
                }
            })
            .collect();
        told.sort_by(|one, other| one.members.cmp(&other.members));
        told
    }

    /// Rates that are in force in the scheduler, in millionths.
    pub fn in_force(&self) -> Vec<u64> {
        let record = self.host.record();
        let rates = record.reservations.values();
        let mut rates: Vec<u64> = rates.map(|promise| millionths(promise.rate)).collect();
        rates.sort_unstable();
        rates
    }

    /// The same as the ledger has admitted them.
    pub fn admitted(&self) -> Vec<u64> {
        let held: Vec<ReservationStatus> =
            ReservationPage::of(&self.service, None, None).reservations;
        let mut rates: Vec<u64> = held
            .iter()
            .map(|held| (held.asked * 1e6).round() as u64)
            .collect();
        rates.sort_unstable();
        rates
    }

    /// All that is in force, for comparisons.
    pub fn state(&self) -> (Vec<Told>, Vec<u64>) {
        assert_eq!(self.in_force(), self.admitted());
        (self.told(), self.in_force())
    }

    pub fn rows(&self, uid: Option<u32>) -> Vec<What> {
        let page = GroupPage::of(&self.service, uid, None);
        assert!(!page.more);
        page.rows.into_iter().map(|row| row.what).collect()
    }

    /// Threads that are bound to the member of a name.
    pub fn bound(&self, name: &str) -> Vec<i32> {
        let mut member = String::new();
        let mut bound = Vec::new();
        for row in self.rows(None) {
            match row {
                What::Member(row) => member = row.name,
                What::Thread(row) if row.bound && member == name => bound.push(row.tid),
                _ => {}
            }
        }
        bound.sort_unstable();
        bound
    }

    pub fn store(&self) -> PathBuf {
        self.folder.0.join("consort.groups")
    }
}

/// Of one CPU; the scheduler's parts are finer.
fn millionths(weight: u32) -> u64 {
    (f64::from(weight) * 1e6 / f64::from(consort_kernel::RATE_ONE)).ceil() as u64
}
