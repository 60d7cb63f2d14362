// SPDX-License-Identifier: MIT OR Apache-2.0
//! A journal as a disk, a later version or a fault may have left it: what can be read of it holds, and no more than the
//! machine has.

use std::fs;

use consort_daemon::{
    config::Division, division::DivisionStatus, limits::Limits, peer::Processes, service::Service,
};

use crate::{
    common::{write_thread, FakeHost, Folder},
    wire::check_books,
};

thread_local! {
    static FOLDER: Folder = {
        let folder = Folder::new();
        for pid in 3000..3008 {
            write_thread(&folder.0, pid, &[pid], 0, 5);
        }
        folder
    };
}

pub fn run(bytes: &[u8]) {
    FOLDER.with(|folder| {
        let journal = folder.0.join("consort.journal");
        fs::write(&journal, bytes).expect("a file of the test's own");
        let host = FakeHost::default();
        let processes = Processes::at(&folder.0);
        let mut service = Service::new(Box::new(host.clone()), processes, Limits::default());
        service
            .open_reservations(Division::by_default(1), &journal)
            .expect("a journal, be it a bad one, or none");
        check_books(&service, &host);
        for class in DivisionStatus::of(&service).classes {
            let fits = class
                .admits
                .is_none_or(|admits| class.asked <= admits + 1e-6);
            assert!(fits, "{class:?}");
        }
    });
}
