// SPDX-License-Identifier: MIT OR Apache-2.0
//! Dividing the machine into classes while it runs: all of a change or nothing, and never what breaks a promise.

use std::path::PathBuf;

use consort_kernel::TunablesChange;
use tracing::{error, info, warn};

use crate::{
    audit,
    classes::{Class, Classes},
    config::Division,
    ejection::Mode,
    journal::Entry,
    notify::notify,
    service::Service,
    Refusal,
};

impl Service {
    /// Makes a class, or changes it.
    ///
    /// # Errors
    /// EBUSY when the class has promised more than it would have, ENOSPC when the machine has not that much.
    pub fn set_class(&mut self, class: Class) -> Result<(), Refusal> {
        let changed = self.reservations.ledger.classes().with(class)?;
        self.divide_by_hand(changed)
    }

    /// Removes a class.
    ///
    /// # Errors
    /// ENOENT; EBUSY while it has reservations.
    pub fn remove_class(&mut self, name: &str) -> Result<(), Refusal> {
        let classes = self.reservations.ledger.classes();
        let changed = classes.without(classes.find(name)?);
        self.divide_by_hand(changed)
    }

    /// The operator's file, which [`Service::reload`] reads.
    pub fn set_file(&mut self, file: Option<PathBuf>) {
        self.file = file;
    }

    /// Reads the operator's file again, as the process `asker` of a user wants. What it says holds from now on, all of it, or
    /// nothing if something is wrong.
    pub fn reload(&mut self, asker: (u32, i32)) {
        notify("RELOADING=1");
        let cpus = self.host.cpus();
        let read = Division::read(self.file.as_deref(), cpus).map_err(|error| error.to_string());
        let applied = read.and_then(|division| {
            let waits = self.waits_for_a_start(division.tunables);
            let applied = self.apply(division);
            applied.map_err(|refusal| refusal.text)?;
            Ok(match waits {
                true => "applied, but for [scheduler], which counts from the next start; `consort set` changes it now",
                false => "applied",
            })
        });
        audit::reloaded(asker, &applied);
        match applied {
            Ok(_) => info!("the file of classes and limits was read again"),
            Err(text) => error!(text, "nothing was changed: the file cannot be applied"),
        }
        notify("READY=1");
    }

    /// Whether the file says of the scheduler what does not hold now.
    fn waits_for_a_start(&self, said: TunablesChange) -> bool {
        let held = self.host.tunables();
        said.granularity_ns
            .is_some_and(|ns| ns != held.granularity_ns)
            || said.min_slice_ns.is_some_and(|ns| ns != held.min_slice_ns)
    }

    fn apply(&mut self, division: Division) -> Result<(), Refusal> {
        if division.classes != self.reservations.file {
            let file = division.classes.clone();
            if self.host.mode() == Mode::Full {
                // Reservations stay in the classes of these names, whatever else the file has.
                let changed = file.numbered_as(self.reservations.ledger.classes());
                self.divide(changed, &file)?;
            }
            self.reservations.file = file;
        }
        self.limit_users(&division);
        let accounts = division.accounts;
        self.reservations
            .ledger
            .set_limits(division.limits, accounts);
        self.reservations.group_limits = division.group_limits;
        self.reservations.roots_part = division.roots_part;
        Ok(())
    }

    pub(crate) fn limit_users(&mut self, division: &Division) {
        self.users.set_limits(division.holdings);
        self.users.set_accounts(division.accounts.clone());
    }

    fn divide_by_hand(&mut self, changed: Classes) -> Result<(), Refusal> {
        let file = self.reservations.file.clone();
        self.divide(changed, &file)
    }

    /// `file`: what the operator's file says, which this holds until it says something else.
    fn divide(&mut self, changed: Classes, file: &Classes) -> Result<(), Refusal> {
        self.reservations.ledger.check_classes(&changed)?;
        let before = self.reservations.ledger.classes().clone();
        self.host.set_classes(&changed.table())?;
        let entry = Entry::Classes {
            file: file.clone(),
            now: changed.clone(),
        };
        if let Err(refusal) = self.reservations.write(&entry) {
            if let Err(error) = self.host.set_classes(&before.table()) {
                warn!(%error, "a change that could not be kept cannot be undone");
            }
            return Err(refusal);
        }
        info!(flexible = %changed.flexible(), "classes changed");
        self.reservations.ledger.set_classes(changed);
        Ok(())
    }
}
