// SPDX-License-Identifier: MIT OR Apache-2.0
//! Dividing the machine into classes while it runs: all of a change or nothing, and never what breaks a promise.

use tracing::{info, warn};

use crate::{
    classes::{Class, Classes},
    journal::Entry,
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
