// SPDX-License-Identifier: MIT OR Apache-2.0
//! Dividing the machine into classes while it runs: all of a change or nothing, and never what breaks a promise.

use std::path::PathBuf;

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
        self.divide(changed)
    }

    /// Removes a class.
    ///
    /// # Errors
    /// ENOENT; EBUSY while it has reservations.
    pub fn remove_class(&mut self, name: &str) -> Result<(), Refusal> {
        let classes = self.reservations.ledger.classes();
        let changed = classes.without(classes.find(name)?);
        self.divide(changed)
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
            let applied = self.apply(division);
            applied.map_err(|refusal| refusal.text)
        });
        audit::reloaded(asker, &applied);
        match applied {
            Ok(()) => info!("the file of classes and limits was read again"),
            Err(text) => error!(text, "nothing was changed: the file cannot be applied"),
        }
        notify("READY=1");
    }

    fn apply(&mut self, division: Division) -> Result<(), Refusal> {
        if division.classes != self.reservations.file {
            if self.host.mode() == Mode::Full {
                self.divide(division.classes.clone())?;
            }
            self.reservations.file = division.classes.clone();
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

    fn divide(&mut self, changed: Classes) -> Result<(), Refusal> {
        self.reservations.ledger.check_classes(&changed)?;
        let before = self.reservations.ledger.classes().clone();
        self.host.set_classes(&changed.table())?;
        let file = self.reservations.file.clone();
        let entry = Entry::Classes {
            file,
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
