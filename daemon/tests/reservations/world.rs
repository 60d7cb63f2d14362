// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes on paper, and a service that serves them.

use std::{collections::BTreeMap, path::PathBuf};

use consort_daemon::{
    classes::{Class, Order, Overbooking},
    config::Division,
    division::{CreditStatus, DivisionStatus, ReservationPage, ReservationStatus},
    lending::Back,
    limits::Limits,
    peer::{Peer, Processes},
    reservations::{Ask, AskedRate},
    service::Service,
    targets::{Named, Scope},
};
use nix::errno::Errno;

use crate::common::{self, write_thread, FakeHost, Folder};

pub const ROOT: i32 = 3000;
pub const USER: i32 = 3001;
pub const UID: u32 = 70_001;
pub const PERIOD_NS: u64 = 30_000_000;

/// Processes on paper: one of root, ten of a user.
pub struct World {
    pub folder: Folder,
    pub host: FakeHost,
    pub service: Service,
}

impl World {
    pub fn new() -> World {
        let folder = Folder::new();
        write_thread(&folder.0, ROOT, &[ROOT], 0, 5);
        for pid in USER..USER + 10 {
            write_thread(&folder.0, pid, &[pid], UID, 5);
        }
        World::beside(folder)
    }

    /// A daemon that starts where another one may have been.
    pub fn beside(folder: Folder) -> World {
        World::beside_with(folder, |_| {})
    }

    /// The same where the operator's file says more.
    pub fn beside_with(folder: Folder, file: impl FnOnce(&mut Division)) -> World {
        World::with(FakeHost::default(), folder, file)
    }

    /// The next daemon, where the scheduler has outlived the one before.
    pub fn taken_over(self) -> World {
        self.host.outlive();
        World::with(self.host, self.folder, |_| {})
    }

    /// The next daemon, with a scheduler of its own.
    pub fn beside_host(host: FakeHost, folder: Folder) -> World {
        World::with(host, folder, |_| {})
    }

    fn with(host: FakeHost, folder: Folder, file: impl FnOnce(&mut Division)) -> World {
        let mut world = World {
            service: Service::new(
                Box::new(host.clone()),
                Processes::at(&folder.0).with_cgroups_at(folder.0.join("cgroups")),
                Limits::default(),
            ),
            host,
            folder,
        };
        let mut division = Division::by_default(1);
        file(&mut division);
        world
            .service
            .open_reservations(division, &world.journal())
            .unwrap();
        world
    }

    pub fn journal(&self) -> PathBuf {
        self.folder.0.join("consort.journal")
    }

    /// What is left when the daemon is killed.
    pub fn killed(self) -> Folder {
        self.folder
    }

    pub fn peer(&self, pid: i32) -> Peer {
        let uid = if pid == ROOT { 0 } else { UID };
        Processes::at(&self.folder.0).peer(pid, uid).unwrap()
    }

    pub fn reserve(
        &mut self,
        asker: i32,
        number: i32,
        class: &str,
        rate: f64,
    ) -> Result<u32, (Errno, String)> {
        let ask = Ask {
            named: Named::Number {
                number,
                scope: Scope::Any,
            },
            class: class.to_owned(),
            rate: AskedRate::Fixed(rate),
            period_ns: PERIOD_NS,
        };
        let peer = self.peer(asker);
        let reserved = self.service.reserve(&peer, &ask);
        reserved.map_err(|refusal| (refusal.errno, refusal.text))
    }

    /// Makes a cgroup, of root's as tests are, and returns its folder.
    pub fn cgroup(&self, path: &str) -> PathBuf {
        let folder = self.folder.0.join("cgroups").join(path);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    pub fn reserve_cgroup(&mut self, asker: i32, path: &str, rate: f64) -> Result<u32, Errno> {
        let ask = Ask {
            named: Named::Cgroup(path.to_owned()),
            class: "guaranteed".to_owned(),
            rate: AskedRate::Fixed(rate),
            period_ns: PERIOD_NS,
        };
        let peer = self.peer(asker);
        let reserved = self.service.reserve(&peer, &ask);
        reserved.map_err(|refusal| refusal.errno)
    }

    pub fn release(&mut self, number: i32) -> Result<u32, Errno> {
        let peer = self.peer(ROOT);
        let released = self.service.release(
            &peer,
            &Named::Number {
                number,
                scope: Scope::Any,
            },
        );
        released.map_err(|refusal| refusal.errno)
    }

    pub fn lend(&mut self, from: i32, to: i32, rate: f64) -> Result<(), Errno> {
        let peer = self.peer(ROOT);
        let lent = self.service.lend(&peer, from, to, rate);
        lent.map_err(|refusal| refusal.errno)
    }

    pub fn take_back(&mut self, from: i32, to: i32, rate: Option<f64>) -> Result<(), Errno> {
        let peer = self.peer(ROOT);
        let back = Back { from, to, rate };
        let taken = self.service.take_back(&peer, back);
        taken.map_err(|refusal| refusal.errno)
    }

    pub fn set_guaranteed(&mut self, capacity: u64) -> Result<(), (Errno, String)> {
        let class = Class {
            name: "guaranteed".to_owned(),
            capacity,
            overbooking: Overbooking::Part(0),
            order: Order::default(),
        };
        let set = self.service.set_class(class);
        set.map_err(|refusal| (refusal.errno, refusal.text))
    }

    /// By process: class and the nominal rate that it may use, credits counted, in millionths.
    pub fn admitted(&self) -> BTreeMap<i32, (String, u64)> {
        let mut all = Vec::new();
        loop {
            let after = all.last().map(|held: &ReservationStatus| held.reservation);
            let page = ReservationPage::of(&self.service, None, after);
            all.extend(page.reservations);
            if !page.more {
                break;
            }
        }
        let held = all.into_iter();
        held.map(|held| {
            let sum =
                |credits: &[CreditStatus]| credits.iter().map(|credit| credit.rate).sum::<f64>();
            let usable = held.asked + sum(&held.held) - sum(&held.lent);
            let rate = (usable * 1e6).round() as u64;
            (held.number, (held.class, rate))
        })
        .collect()
    }

    /// The same as the scheduler was told.
    pub fn in_force(&self) -> BTreeMap<i32, (String, u64)> {
        let names: Vec<String> = DivisionStatus::of(&self.service)
            .classes
            .into_iter()
            .map(|class| class.name)
            .collect();
        let record = self.host.record();
        let one = |promise: &common::Promise| {
            let rate = (f64::from(promise.rate) * 1e6 / f64::from(consort_kernel::RATE_ONE)).ceil();
            // As for others, a cgroup's number is 0.
            let first = promise.threads.first().copied().unwrap_or_default();
            (first, (names[promise.class as usize].clone(), rate as u64))
        };
        record.reservations.values().map(one).collect()
    }

    pub fn capacity(&self, class: usize) -> f64 {
        DivisionStatus::of(&self.service).classes[class].capacity
    }
}
