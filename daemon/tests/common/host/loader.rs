// SPDX-License-Identifier: MIT OR Apache-2.0
//! Puts fake schedulers in charge.

use std::{
    collections::BTreeSet,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::OnceLock,
};

use consort_daemon::{ejection::Mode, Heir, Host, Loader};
use consort_kernel::{Error, Kept};
use nix::sys::memfd::{memfd_create, MFdFlags};

use super::super::unloaded;
use super::FakeHost;

/// Puts a fake scheduler in charge, or takes it over as it is.
pub struct FakeLoader(pub FakeHost);

impl Loader for FakeLoader {
    fn load(&mut self, mode: Mode) -> Result<Box<dyn Host>, Error> {
        self.0.load(mode)
    }

    fn succeed(&mut self, kept: &Kept, heir: Heir) -> Result<Box<dyn Host>, Error> {
        assert!(kept.is(IDENTITY));
        FakeHost::refused(&self.0.record(), "succeed")?;
        let mut record = self.0.record();
        if let Err(error) = FakeHost::refused(&record, "follow") {
            // The other scheduler has been detached by then.
            record.exit = Some(unloaded());
            return Err(error);
        }
        assert!(heir.clients.is_subset(&record.pages));
        let threads: BTreeSet<i32> = heir.threads.iter().map(|thread| thread.tid).collect();
        assert!(record.members.keys().all(|tid| threads.contains(tid)));
        drop(record);
        Ok(Box::new(self.0.clone()))
    }
}

pub(super) const IDENTITY: &str = "fake";

/// What the fake scheduler hands on.
pub(super) fn link() -> BorrowedFd<'static> {
    static LINK: OnceLock<OwnedFd> = OnceLock::new();
    LINK.get_or_init(|| memfd_create("link", MFdFlags::MFD_CLOEXEC).unwrap())
        .as_fd()
}
