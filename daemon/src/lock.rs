// SPDX-License-Identifier: MIT OR Apache-2.0
//! One daemon a machine: a lock file beside the socket, which the kernel releases when its holder dies.

use std::{
    fs::{self, OpenOptions, TryLockError},
    io::{self, Seek, Write},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    sys::{
        socket::{
            connect, getsockopt, setsockopt, socket, sockopt, AddressFamily, SockFlag, SockType,
            UnixAddr,
        },
        time::{TimeVal, TimeValLike},
    },
};
use tracing::debug;

/// Held until the last descriptor of the open file is closed, be it in another process.
#[derive(Debug)]
pub struct Lock {
    file: fs::File,
}

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error(
        "another consort daemon is running (process {holder}): `consort status` describes it, \
         `kill {holder}` ends it"
    )]
    Held { holder: i32 },

    #[error(
        "a consort daemon is starting or ending: it holds {} and does not listen yet, or not any more; try again",
        path.display()
    )]
    Busy { path: PathBuf },

    #[error("cannot use {}: {source}. Run it as root, or name another place in CONSORT_SOCKET", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl Lock {
    /// Holds the lock of the daemon before, which has handed it over.
    ///
    /// # Errors
    /// It is no lock file, or somebody else holds it.
    pub fn inherit(file: OwnedFd, socket: &Path) -> Result<Self, LockError> {
        let path = socket.with_extension("lock");
        let failed = |source| LockError::File {
            path: path.clone(),
            source,
        };
        let file = fs::File::from(file);
        // Through the same open file it is held already.
        file.try_lock().map_err(|error| failed(error.into()))?;
        Ok(Lock { file })
    }

    /// Says in its file who holds it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn sign(&self) -> io::Result<()> {
        write_pid(&self.file)
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Takes the lock of the daemon that listens at `socket`, and makes the socket's folder if need be.
    ///
    /// # Errors
    /// [`LockError::Held`] when another daemon serves, [`LockError::Busy`] when one is about to.
    pub fn take(socket: &Path) -> Result<Self, LockError> {
        Self::take_unless(socket, listener_of)
    }

    /// The same for a daemon that has been given the socket: nobody else answers there.
    ///
    /// # Errors
    /// [`LockError::Busy`] when another daemon has the lock.
    pub fn take_with_listener(socket: &Path) -> Result<Self, LockError> {
        Self::take_unless(socket, |_| Err(Errno::ENOENT))
    }

    fn take_unless(
        socket: &Path,
        listener_of: impl Fn(&Path) -> Result<i32, Errno>,
    ) -> Result<Self, LockError> {
        let path = socket.with_extension("lock");
        let failed = |source| LockError::File {
            path: path.clone(),
            source,
        };
        if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
            make_folder(folder).map_err(failed)?;
        }
        loop {
            let file = open(&path).map_err(failed)?;
            match file.try_lock() {
                Ok(()) => {
                    if !is_at(&file, &path).map_err(failed)? {
                        continue;
                    }
                    // Earlier versions let everybody read it: whoever has opened it then can hold it later.
                    let is_old = is_anybodys(&file).map_err(failed)?;
                    if is_old && fs::remove_file(&path).is_ok() {
                        continue;
                    }
                    // One that cannot be replaced is made ours alone from now on. What it says is for people to read.
                    let signed = file
                        .set_permissions(fs::Permissions::from_mode(MODE))
                        .and_then(|()| write_pid(&file));
                    if let Err(error) = signed {
                        debug!(%error, "the lock file is another user's");
                    }
                    return Ok(Lock { file });
                }
                Err(TryLockError::WouldBlock) => {
                    match listener_of(socket) {
                        Ok(holder) => return Err(LockError::Held { holder }),
                        Err(Errno::ENOENT | Errno::ECONNREFUSED) => {}
                        Err(_) => return Err(LockError::Busy { path }),
                    }
                    if !is_anybodys(&file).map_err(failed)? {
                        return Err(LockError::Busy { path });
                    }
                    // Nobody serves, and whoever holds it need not be a daemon: the next one is ours alone.
                    fs::remove_file(&path).map_err(failed)?;
                }
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
        }
    }
}

/// Only who may open it can hold it.
const MODE: u32 = 0o600;

/// Another user's, such as root's who has started a daemon by hand, can be held by whoever may read it.
fn open(path: &Path) -> io::Result<fs::File> {
    let mut options = OpenOptions::new();
    options.mode(MODE).custom_flags(libc::O_NOFOLLOW);
    let mut for_writing = options.clone();
    match for_writing.write(true).create(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            options.read(true).open(path)
        }
        opened => opened,
    }
}

/// Whether it is still the one that others find there.
fn is_at(file: &fs::File, path: &Path) -> io::Result<bool> {
    let own = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (own.dev(), own.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_anybodys(file: &fs::File) -> io::Result<bool> {
    Ok(file.metadata()?.mode() & 0o077 != 0)
}

/// The process that listens at `path`, as the kernel says; waits a while where many are about to connect.
fn listener_of(path: &Path) -> Result<i32, Errno> {
    let kind = SockType::SeqPacket;
    let socket = socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&socket, sockopt::SendTimeout, &TimeVal::seconds(2))?;
    connect(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    getsockopt(&socket, sockopt::PeerCredentials).map(|credentials| credentials.pid())
}

/// Makes the socket's folder, in which everybody must be able to find it, whatever the umask.
fn make_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))
}

fn write_pid(mut file: &fs::File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}
