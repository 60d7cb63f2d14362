// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cgroups of given cpu.weight.

use crate::error::Error;
use std::path::{Path, PathBuf};

/// A cgroup that is removed when dropped.
pub struct Cgroup(PathBuf);

impl Cgroup {
    /// Makes cgroup `name` below the cgroup `parent`.
    ///
    /// # Errors
    /// When it cannot be made, or has no cpu controller.
    pub fn new(parent: &Path, name: &str, weight: u64) -> Result<Self, Error> {
        write(&parent.join("cgroup.subtree_control"), "+cpu")?;
        let path = parent.join(name);
        std::fs::create_dir_all(&path)
            .map_err(|source| Error::io(format!("make cgroup {}", path.display()), source))?;
        let cgroup = Self(path);
        cgroup.set_weight(weight)?;
        Ok(cgroup)
    }

    /// Changes its cpu.weight, 1 to 10000.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_weight(&self, weight: u64) -> Result<(), Error> {
        write(&self.0.join("cpu.weight"), &weight.to_string())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Moves the calling process into it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn enter(&self) -> Result<(), Error> {
        write(&self.0.join("cgroup.procs"), "0")
    }
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text)
        .map_err(|source| Error::io(format!("write {}", path.display()), source))
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Its processes have ended by now; a cgroup that stays behind does no harm.
        let _ = std::fs::remove_dir(&self.0);
    }
}
