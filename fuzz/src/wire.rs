// SPDX-License-Identifier: MIT OR Apache-2.0
//! A conversation: messages of three programs, each answered, and nothing left when they have gone.
//!
//! The bytes are a list of messages, each after two bytes: whose it is (the lowest two bits), and its length in units of
//! four bytes. A message of four bytes or more gets the magic, unless the highest bit of the first byte is set: else a
//! fuzzer would need to find that before anything.

use std::{
    cell::RefCell,
    time::{Duration, Instant},
};

use consort_abi::CONSORT_ABI_MAGIC;
use consort_daemon::{
    config::Division, limits::Limits, peer::Processes, requests::Next, service::Service,
};

use crate::common::{write_thread, FakeHost, Folder};

/// Root, a user with two threads, and another one.
const PROGRAMS: [(i32, u32); 3] = [(3000, 0), (3001, 70_001), (3002, 70_002)];

struct World {
    folder: Folder,
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

fn with_processes<T>(run: impl FnOnce(&Processes) -> T) -> T {
    WORLD.with_borrow_mut(|world| {
        let world = world.get_or_insert_with(|| {
            let folder = Folder::new();
            for (pid, uid) in PROGRAMS {
                write_thread(&folder.0, pid, &[pid], uid, 5);
                write_thread(&folder.0, pid, &[pid + 100], uid, 5);
            }
            World { folder }
        });
        let cgroups = world.folder.0.join("cgroups");
        run(&Processes::at(&world.folder.0).with_cgroups_at(cgroups))
    })
}

pub fn run(bytes: &[u8]) {
    with_processes(|processes| converse(processes, bytes));
}

fn converse(processes: &Processes, mut bytes: &[u8]) {
    let host = FakeHost::default();
    let mut now = Instant::now();
    let mut service = Service::new(Box::new(host.clone()), processes.clone(), Limits::default());
    // Without a journal: nothing is to be found on disk.
    service
        .open_reservations(
            Division::by_default(1),
            std::path::Path::new("/dev/null/none"),
        )
        .expect("a division that is the default");
    let mut open = [false; PROGRAMS.len()];
    while let [whose, length, rest @ ..] = bytes {
        let program = usize::from(whose & 3) % PROGRAMS.len();
        let length = (usize::from(*length) * 4).min(rest.len());
        let (message, rest) = rest.split_at(length);
        bytes = rest;
        now += Duration::from_millis(20);
        if !open[program] {
            let (pid, uid) = PROGRAMS[program];
            let peer = processes.peer(pid, uid).expect("a process on paper");
            open[program] = service.connect(program as u64, peer, now).is_ok();
        }
        let mut message = message.to_vec();
        if whose & 0x80 == 0 && message.len() >= 4 {
            message[..4].copy_from_slice(&CONSORT_ABI_MAGIC.to_ne_bytes());
        }
        let (reply, next) = service.handle(program as u64, &message, message.len(), now);
        assert_eq!(reply.error == 0, reply.text.is_empty(), "{reply:?}");
        assert!(reply.text.len() < 4096 && reply.to_bytes().len() <= 66_000);
        if next == Next::Close {
            service.disconnect(program as u64, now);
            open[program] = false;
        }
    }
    for program in 0..PROGRAMS.len() {
        service.disconnect(program as u64, now);
    }
    service.tick(now);
    let record = host.record();
    assert!(record.members.is_empty(), "members of nobody");
    assert!(record.domains.is_empty(), "domains of nobody");
    assert!(record.pages.is_empty(), "pages of nobody");
    drop(record);
    check_books(&service, &host);
}

/// What is told is what the scheduler was told.
pub(crate) fn check_books(service: &Service, host: &FakeHost) {
    let (mut after, mut told) = (None, 0);
    loop {
        let page = consort_daemon::division::ReservationPage::of(service, None, after);
        told += page.reservations.len();
        after = page.reservations.last().map(|held| held.reservation);
        if !page.more {
            break;
        }
    }
    assert_eq!(told, host.record().reservations.len());
}
