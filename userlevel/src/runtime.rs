// SPDX-License-Identifier: MIT OR Apache-2.0
//! The directory in which the domains of a user are, and who may use what is in it.

use crate::segment::Access;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Names the directory, where another one is wanted than the user's own: one that several users may write to, say.
pub const DIRECTORY_VARIABLE: &str = "CONSORT_RUNTIME_DIR";

/// A directory, and whether it is used whoever it belongs to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Runtime {
    path: PathBuf,
    is_chosen: bool,
}

impl Runtime {
    /// The calling process'.
    pub fn of_user() -> Runtime {
        // SAFETY: plain look-ups.
        let (user, is_privileged) =
            unsafe { (libc::geteuid(), libc::getauxval(libc::AT_SECURE) != 0) };
        let variable = |name| {
            std::env::var_os(name).filter(|value: &OsString| !value.is_empty() && !is_privileged)
        };
        if let Some(chosen) = variable(DIRECTORY_VARIABLE) {
            return Runtime::chosen(Path::new(&chosen));
        }
        let runtime = variable("XDG_RUNTIME_DIR").map(PathBuf::from);
        let runtime = runtime.unwrap_or_else(|| format!("/run/user/{user}").into());
        match runtime.is_absolute() && runtime.is_dir() {
            true => Runtime::at(&runtime.join("consort")),
            false => Runtime::at(Path::new(&format!("/tmp/consort-{user}"))),
        }
    }

    /// This one, if nobody else may write to it.
    pub fn at(path: &Path) -> Runtime {
        Runtime {
            path: path.to_owned(),
            is_chosen: false,
        }
    }

    /// This one, whichever users may write to it: somebody has said so.
    pub fn chosen(path: &Path) -> Runtime {
        Runtime {
            path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
            is_chosen: true,
        }
    }

    /// Where to join again. What was chosen stays, whatever the program does to its environment and its working directory;
    /// where a user's own is depends on who that is by now.
    pub fn again(&self) -> Runtime {
        match self.is_chosen {
            true => self.clone(),
            false => Runtime::of_user(),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the directory if it is not there, and checks it.
    ///
    /// # Errors
    /// As [`Runtime::look`]; it cannot be made.
    pub(crate) fn prepare(&self) -> io::Result<Access> {
        match DirBuilder::new().mode(0o700).create(&self.path) {
            // Whatever the process' file mode mask is.
            Ok(()) => fs::set_permissions(&self.path, fs::Permissions::from_mode(0o700))?,
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Err(_) => {}
        }
        self.look()
    }

    /// Who may use what is in the directory: its owner; its group, or everybody, where these may write to it.
    ///
    /// # Errors
    /// It is not there, or no directory, or others' than it should be.
    pub(crate) fn look(&self) -> io::Result<Access> {
        let status = fs::symlink_metadata(&self.path)?;
        // SAFETY: plain look-up.
        let user = unsafe { libc::geteuid() };
        let shared = status.mode() & 0o022;
        let is_ours = status.uid() == user && shared == 0;
        if !status.is_dir() || !(is_ours || self.is_chosen) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let (for_group, for_all) = (shared & 0o020 != 0, shared & 0o002 != 0);
        let mode = 0o600 | if for_group { 0o060 } else { 0 } | if for_all { 0o006 } else { 0 };
        Ok(Access {
            mode,
            group: status.gid(),
        })
    }
}
