// SPDX-License-Identifier: MIT OR Apache-2.0
//! The store: group files in force, and the names that processes were started with, so that a daemon that was killed has
//! them again. A folder beside the socket, which a reboot empties. Each thing is a file that is there as a whole or not.

mod left;
mod trouble;

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Instant,
};

use nix::unistd::geteuid;
use tracing::warn;

pub use self::left::{take_groups, Announced, Launched, Left};
use self::{
    left::{read_announced, read_file, read_function, read_name, read_plan},
    trouble::Trouble,
};
use super::{plan::Plan, FileKey};

#[derive(Debug)]
pub struct Store {
    pub(super) folder: PathBuf,
    /// Notes for the next daemon cannot be made.
    unnoted: Trouble,
    /// Names of files may not survive the machine.
    unsynced: Trouble,
    /// Names of ended processes stay.
    unremoved: Trouble,
}

const FILE_END: &str = ".toml";
const ASIDE_END: &str = ".unrestored";
const NAME_END: &str = ".name";
const ANNOUNCED_END: &str = ".announced";
const GROUP_END: &str = ".group";
const PLAN_END: &str = ".plan";
const FUNCTION_END: &str = ".function";
/// What was not finished; nobody was told that it holds.
const UNFINISHED: &str = "unfinished";

impl Store {
    /// Reads what an earlier daemon left. What cannot be read is left alone, and said.
    ///
    /// # Errors
    /// When the folder cannot be made or read.
    pub fn open(folder: &Path) -> io::Result<(Store, Left)> {
        match fs::DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => check_owner(folder)?,
        }
        let mut left = Left::default();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                continue;
            };
            if name == UNFINISHED {
                continue;
            }
            if name.ends_with(GROUP_END) {
                // Of a scheduler that is no more.
                let _ = fs::remove_file(&path);
                continue;
            }
            let was_read = if let Some(key) = name.strip_suffix(FILE_END) {
                read_file(key, &path).map(|file| left.files.push(file))
            } else if let Some(key) = name.strip_suffix(ASIDE_END) {
                read_file(key, &path).map(|file| left.aside.push(file))
            } else if let Some(pid) = name.strip_suffix(NAME_END) {
                read_name(pid, &path).map(|one| left.launched.push(one))
            } else if let Some(tid) = name.strip_suffix(ANNOUNCED_END) {
                read_announced(tid, &path).map(|one| left.announced.push(one))
            } else if let Some(key) = name.strip_suffix(PLAN_END) {
                read_plan(key, &path).map(|plan| left.plans.push(plan))
            } else if let Some(key) = name.strip_suffix(FUNCTION_END) {
                read_function(key, &path).map(|one| left.functions.push(one))
            } else {
                None
            };
            if was_read.is_none() {
                warn!(file = %path.display(), "a file of the store cannot be read");
            }
        }
        left.files.sort();
        left.aside.sort();
        let folder = folder.to_owned();
        let store = Store {
            folder,
            unnoted: Trouble::default(),
            unsynced: Trouble::default(),
            unremoved: Trouble::default(),
        };
        Ok((store, left))
    }

    /// Keeps a group file in place of the one before, and returns when it will survive.
    ///
    /// # Errors
    /// When it cannot be written; the one before then holds.
    pub fn keep_file(&self, key: &FileKey, text: &str) -> io::Result<()> {
        self.put(&self.path_of(key), text)?;
        // Should it stay, the one that was kept comes first.
        let _ = fs::remove_file(self.aside(key));
        Ok(())
    }

    /// # Errors
    /// When it cannot be removed.
    pub fn drop_file(&self, key: &FileKey) -> io::Result<()> {
        self.take_away(&self.aside(key))?;
        self.take_away(&self.path_of(key))
    }

    /// A file is not in force, and comes after all others when another daemon opens the store.
    ///
    /// # Errors
    /// When it cannot be renamed.
    pub fn set_aside(&self, key: &FileKey) -> io::Result<()> {
        fs::rename(self.path_of(key), self.aside(key))
    }

    /// One that was set aside is in force again.
    ///
    /// # Errors
    /// When it cannot be renamed.
    pub fn bring_back(&self, key: &FileKey) -> io::Result<()> {
        fs::rename(self.aside(key), self.path_of(key))
    }

    /// # Errors
    /// When it cannot be written.
    pub fn keep_name(&self, launched: &Launched) -> io::Result<()> {
        let Launched {
            pid,
            start,
            uid,
            name,
        } = launched;
        let path = self.folder.join(format!("{pid}{NAME_END}"));
        self.put(&path, &format!("{start} {uid} {name}\n"))
    }

    /// What cannot be removed is found out when it is read: its process has ended.
    pub fn drop_name(&self, pid: i32) {
        let path = self.folder.join(format!("{pid}{NAME_END}"));
        let Err(error) = self.take_away(&path) else {
            return;
        };
        self.unremoved.happened(Instant::now(), |left_out| {
            warn!(%error, file = %path.display(), left_out, "names of ended processes cannot be removed from the store");
        });
    }

    /// # Errors
    /// When it cannot be written; the one before then holds.
    pub fn keep_plan(&self, uid: u32, member: &str, plan: &Plan) -> io::Result<()> {
        let mut text = format!("{}\n", plan.repeat_ns);
        for one in &plan.intervals {
            text += &format!("{} {}\n", one.start_ns, one.end_ns);
        }
        self.put(
            &self.folder.join(format!("{uid}.{member}{PLAN_END}")),
            &text,
        )
    }

    /// # Errors
    /// When it cannot be removed.
    pub fn drop_plan(&self, uid: u32, member: &str) -> io::Result<()> {
        self.take_away(&self.folder.join(format!("{uid}.{member}{PLAN_END}")))
    }

    /// Makes room for a function that `keep_function` keeps, should the scheduler take it.
    ///
    /// # Errors
    /// When it cannot be written; the one before then holds.
    pub fn write_function(&self, number: u32, hex: &str) -> io::Result<()> {
        self.write(&format!("{number} {hex}\n"))?.sync_data()
    }

    /// Keeps the function that was written last in place of the one before.
    ///
    /// # Errors
    /// When its file cannot be renamed; the one before then holds.
    pub fn keep_function(&self, uid: u32, name: &str) -> io::Result<()> {
        self.put_written(&File::open(&self.folder)?, &self.function(uid, name))
    }

    /// # Errors
    /// When it cannot be removed.
    pub fn drop_function(&self, uid: u32, name: &str) -> io::Result<()> {
        self.take_away(&self.function(uid, name))
    }

    /// Notes a name that was announced. Without the note it ends with the daemon.
    pub fn note_announced(&self, one: &Announced) {
        let Announced {
            tid,
            start,
            pid,
            uid,
            client,
            slot,
            named,
            order,
            name,
        } = one;
        let text = format!("{start} {pid} {uid} {client} {slot} {named} {order} {name}\n");
        self.note(&self.announced(*tid), &text);
    }

    /// What cannot be removed is found out when it is read: the thread has ended, or has another name.
    pub fn drop_announced(&self, tid: i32) {
        let _ = fs::remove_file(self.announced(tid));
    }

    /// Without the note its plans stand still when another daemon takes over.
    pub fn note_group(&self, id: u32, uid: u32, file: &str, group: &str) {
        let path = self.folder.join(format!("{id}{GROUP_END}"));
        self.note(&path, &format!("{uid} {file} {group}\n"));
    }

    pub fn forget_group(&self, id: u32) {
        let _ = fs::remove_file(self.folder.join(format!("{id}{GROUP_END}")));
    }

    fn function(&self, uid: u32, name: &str) -> PathBuf {
        self.folder.join(format!("{uid}.{name}{FUNCTION_END}"))
    }

    fn announced(&self, tid: i32) -> PathBuf {
        self.folder.join(format!("{tid}{ANNOUNCED_END}"))
    }

    fn path_of(&self, key: &FileKey) -> PathBuf {
        self.path_with(key, FILE_END)
    }

    fn aside(&self, key: &FileKey) -> PathBuf {
        self.path_with(key, ASIDE_END)
    }

    fn path_with(&self, key: &FileKey, end: &str) -> PathBuf {
        // Names of files have no dots and slashes: the reader has seen to that.
        self.folder.join(format!("{}.{}{end}", key.uid, key.name))
    }

    fn put(&self, path: &Path, text: &str) -> io::Result<()> {
        let folder = File::open(&self.folder)?;
        self.write(text)?.sync_data()?;
        self.put_written(&folder, path)
    }

    fn put_written(&self, folder: &File, path: &Path) -> io::Result<()> {
        fs::rename(self.folder.join(UNFINISHED), path)?;
        self.sync(folder, path);
        Ok(())
    }

    /// Writes what outlives the daemon, but not the machine.
    fn note(&self, path: &Path, text: &str) {
        let written = self.write(text);
        let noted = written.and_then(|_| fs::rename(self.folder.join(UNFINISHED), path));
        let Err(error) = noted else { return };
        self.unnoted.happened(Instant::now(), |left_out| {
            warn!(
                %error,
                file = %path.display(),
                left_out,
                "groups and names cannot be noted for the next daemon: plans will stand still, and names be announced anew"
            );
        });
    }

    fn write(&self, text: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.create(true).write(true).truncate(true).mode(0o600);
        let mut file = options.open(self.folder.join(UNFINISHED))?;
        file.write_all(text.as_bytes())?;
        Ok(file)
    }

    fn take_away(&self, path: &Path) -> io::Result<()> {
        let folder = File::open(&self.folder)?;
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => self.sync(&folder, path),
        }
        Ok(())
    }

    /// From here on the store is as it was asked to be: to say that it is not would be wrong, and the next daemon would have
    /// what was refused. The folder was opened before, for which there may be no descriptor.
    fn sync(&self, folder: &File, path: &Path) {
        let Err(error) = folder.sync_all() else {
            return;
        };
        self.unsynced.happened(Instant::now(), |left_out| {
            warn!(
                %error,
                file = %path.display(),
                left_out,
                "what was kept or removed may not be so when the machine has been reset"
            );
        });
    }
}

/// What is in the store is taken for what users have said, root among them: whoever is neither root nor the daemon's user
/// has made it only where that one also owns the folder that it is in, as after an update of the unit.
fn check_owner(folder: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(folder)?;
    let above = match folder.parent() {
        Some(above) if above != Path::new("") => fs::metadata(above)?,
        _ => fs::metadata(".")?,
    };
    let trusted = [0, geteuid().as_raw(), above.uid()];
    if found.is_dir() && trusted.contains(&found.uid()) && found.mode() & 0o022 == 0 {
        return Ok(());
    }
    let text = "others can write what is in it: expected a folder of root's or the daemon's own; remove it";
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{chown, symlink, PermissionsExt};

    use consort_groups::{frames::Interval, FILE_BYTES_MAX};

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("consort-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn key(uid: u32, name: &str) -> FileKey {
        let name = name.to_owned();
        FileKey { uid, name }
    }

    #[test]
    fn what_was_kept_is_there_again() {
        let folder = Folder::new("store");
        let (store, left) = Store::open(&folder.0).unwrap();
        assert!(left.files.is_empty() && left.launched.is_empty());
        let launched = Launched {
            pid: 70,
            start: 12345,
            uid: 1000,
            name: "show".to_owned(),
        };
        store.keep_file(&key(0, "a"), "old").unwrap();
        store.keep_file(&key(1000, "b-c"), "text").unwrap();
        store.keep_file(&key(0, "a"), "new").unwrap();
        store.keep_name(&launched).unwrap();
        let plan = Plan {
            intervals: vec![Interval {
                start_ns: 5,
                end_ns: 500_000,
            }],
            repeat_ns: 600_000,
        };
        store.keep_plan(7, "show", &plan).unwrap();
        let (store, left) = Store::open(&folder.0).unwrap();
        let files = [
            (key(0, "a"), "new".to_owned()),
            (key(1000, "b-c"), "text".to_owned()),
        ];
        assert_eq!(left.files, files);
        assert_eq!(left.launched, [launched]);
        assert_eq!(left.plans, [(7, "show".to_owned(), plan)]);
        store.drop_plan(7, "show").unwrap();
        store.drop_file(&key(0, "a")).unwrap();
        store.drop_file(&key(0, "none")).unwrap();
        store.drop_name(70);
        let (_, left) = Store::open(&folder.0).unwrap();
        assert_eq!(left.files, files[1..]);
        assert!(left.launched.is_empty());
    }

    #[test]
    fn what_was_not_finished_or_is_damaged_counts_for_nothing() {
        let folder = Folder::new("damaged-store");
        let (store, _) = Store::open(&folder.0).unwrap();
        store.keep_file(&key(7, "a"), "text").unwrap();
        for (name, text) in [
            (UNFINISHED, "half".as_bytes()),
            ("x.b.toml", b"whose"),
            ("8.c.toml", b"\xff\xfe"),
            ("9.name", b"1 2"),
            ("10.name", b"12 7 cut off"),
            ("other", b""),
            ("7.a.plan", b"0\n5 6\n"),
            ("7.b.plan", b"0\n5 500000"),
            ("7.c.plan", b""),
        ] {
            fs::write(folder.0.join(name), text).unwrap();
        }
        fs::write(folder.0.join("7.long.toml"), vec![b'#'; FILE_BYTES_MAX + 1]).unwrap();
        let (store, left) = Store::open(&folder.0).unwrap();
        assert_eq!(left.files, [(key(7, "a"), "text".to_owned())]);
        assert!(left.launched.is_empty() && left.plans.is_empty());
        store.keep_file(&key(7, "d"), "more").unwrap();
    }

    /// Where others may write beside the socket they could put files of root's there.
    #[test]
    fn a_store_that_others_can_write_is_none() {
        let folder = Folder::new("strangers-store");
        let refused = |folder: &Path| Store::open(folder).unwrap_err().kind();
        fs::create_dir(&folder.0).unwrap();
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(refused(&folder.0), io::ErrorKind::PermissionDenied);
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o700)).unwrap();
        assert!(Store::open(&folder.0).is_ok());
        let link = Folder::new("linked-store");
        symlink(&folder.0, &link.0).unwrap();
        assert_eq!(refused(&link.0), io::ErrorKind::PermissionDenied);
        fs::remove_file(&link.0).unwrap();
        if chown(&folder.0, Some(65_533), None).is_ok() {
            assert_eq!(refused(&folder.0), io::ErrorKind::PermissionDenied);
        }
    }
}
