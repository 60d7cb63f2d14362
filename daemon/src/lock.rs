// SPDX-License-Identifier: MIT OR Apache-2.0
//! One daemon a machine: a lock file beside the socket, which the kernel releases when its holder dies.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};

/// Held for as long as this lives.
#[derive(Debug)]
pub struct Lock {
    _file: Flock<fs::File>,
}

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error(
        "another consort daemon is running (process {holder}): `consort status` describes it, \
         `kill {holder}` ends it"
    )]
    Held { holder: String },

    #[error("cannot use {}: {source}. Run it as root, or name another place in CONSORT_SOCKET", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl Lock {
    /// Takes the lock of the daemon that listens at `socket`, and makes the socket's folder if need be.
    ///
    /// # Errors
    /// [`LockError::Held`] when another daemon has it.
    pub fn take(socket: &Path) -> Result<Self, LockError> {
        let path = socket.with_extension("lock");
        let failed = |source| LockError::File {
            path: path.clone(),
            source,
        };
        if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
            make_folder(folder).map_err(failed)?;
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o644)
            .open(&path)
            .map_err(failed)?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(mut file) => {
                write_pid(&mut file).map_err(failed)?;
                Ok(Lock { _file: file })
            }
            Err((mut file, Errno::EWOULDBLOCK)) => {
                let mut holder = String::new();
                // Without its number the message is still true.
                let _ = file.read_to_string(&mut holder);
                Err(LockError::Held {
                    holder: holder.trim().to_owned(),
                })
            }
            Err((_, errno)) => Err(failed(errno.into())),
        }
    }
}

/// Makes the socket's folder, in which everybody must be able to find it, whatever the umask.
fn make_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))
}

fn write_pid(file: &mut fs::File) -> io::Result<()> {
    file.set_len(0)?;
    writeln!(file, "{}", std::process::id())
}
