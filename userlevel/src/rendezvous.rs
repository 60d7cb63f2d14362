// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the members of a domain find each other: a file by the domain's name says which memory is theirs.
//!
//! Problem  The first member creates, the last removes, any may die in between, and two may come at once.
//! Rule     The file is one line, made elsewhere and put in its place at once: never half of one. Whoever finds a file whose
//!          memory is gone or is not a domain's puts another one in its place. Members look now and then whether the file
//!          still names their memory: if it names another, they move there; if there is none, they put it back.
//! Bound    Members that were parted by such a race are together again after one look of each.
//! Limits   A last member that was killed leaves its file behind: a line, which the next member replaces.

use crate::segment::{Access, Segment};
use crate::table::{Table, Terms};
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Names the directory, where another one is wanted than the user's own: one that several users may write to, say.
pub const DIRECTORY_VARIABLE: &str = "CONSORT_RUNTIME_DIR";
const SUFFIX: &str = ".domain";
const LINE_MAX: u64 = 128;
/// Others may replace what we have just put in place.
const ATTEMPTS: u32 = 8;

/// A domain's memory, and where it says so.
pub struct Meeting {
    segment: Segment,
    path: PathBuf,
    token: u64,
    creator: u32,
}

/// What a file says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    pub segment: i32,
    pub token: u64,
    pub creator: u32,
}

/// Where the domains of this user are.
pub fn directory() -> PathBuf {
    // SAFETY: plain look-ups.
    let (user, is_privileged) = unsafe { (libc::geteuid(), libc::getauxval(libc::AT_SECURE) != 0) };
    let variable = |name| {
        std::env::var_os(name).filter(|value: &OsString| !value.is_empty() && !is_privileged)
    };
    if let Some(chosen) = variable(DIRECTORY_VARIABLE) {
        return chosen.into();
    }
    let runtime = variable("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.unwrap_or_else(|| format!("/run/user/{user}").into());
    match runtime.is_absolute() && runtime.is_dir() {
        true => runtime.join("consort"),
        false => format!("/tmp/consort-{user}").into(),
    }
}

impl Meeting {
    /// The domain of that name, which is made if it is not there. `name` has no '/'.
    ///
    /// # Errors
    /// The directory is not ours, or cannot be made; there is no shared memory.
    pub fn attend(directory: &Path, name: &str, terms: Terms) -> io::Result<Meeting> {
        let access = prepare(directory)?;
        let path = directory.join(format!("{name}{SUFFIX}"));
        for _ in 0..ATTEMPTS {
            let found = read_line(&path, access);
            if let Some(meeting) = found.and_then(|line| join(&path, line)) {
                return Ok(meeting);
            }
            if let Some(meeting) = found_new(&path, terms, access, found.is_none())? {
                return Ok(meeting);
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    pub fn table(&self) -> Table {
        self.segment.table()
    }

    pub fn token(&self) -> u64 {
        self.token
    }

    /// Whether newcomers still come here. Puts the file back if it is missing.
    pub fn is_current(&self) -> bool {
        let Some(access) = self.path.parent().and_then(|parent| look_at(parent).ok()) else {
            return false;
        };
        match read_line(&self.path, access) {
            Some(line) => line.token == self.token,
            None => put(&self.path, self.line(), access, true).unwrap_or(false),
        }
    }

    fn line(&self) -> Line {
        Line {
            segment: self.segment.id(),
            token: self.token,
            creator: self.creator,
        }
    }

    /// The last member goes.
    pub fn adjourn(self) {
        let access = self.path.parent().and_then(|parent| look_at(parent).ok());
        let current = access.and_then(|access| read_line(&self.path, access));
        if current.is_some_and(|line| line.token == self.token) {
            // Somebody who comes just now puts it back.
            let _ = fs::remove_file(&self.path);
        }
    }

    /// In a forked child, which does not have the memory.
    pub fn forget(self) {
        self.segment.forget();
    }
}

fn join(path: &Path, line: Line) -> Option<Meeting> {
    let segment = Segment::open(line.segment, line.creator).ok()?;
    let is_sound = segment.table().is_sound(line.token);
    is_sound.then(|| Meeting {
        segment,
        path: path.to_owned(),
        token: line.token,
        creator: line.creator,
    })
}

/// Makes a domain, and says so; none: somebody else was faster.
fn found_new(
    path: &Path,
    terms: Terms,
    access: Access,
    is_missing: bool,
) -> io::Result<Option<Meeting>> {
    let segment = Segment::create(access)?;
    let token = random();
    segment.table().found(token, terms);
    let meeting = Meeting {
        segment,
        path: path.to_owned(),
        token,
        // SAFETY: plain look-up.
        creator: unsafe { libc::geteuid() },
    };
    let is_ours = put(path, meeting.line(), access, is_missing)?;
    Ok(is_ours.then_some(meeting))
}

/// Puts a file in place; true: it is there and says what was to be said.
fn put(path: &Path, line: Line, access: Access, is_missing: bool) -> io::Result<bool> {
    let beside = path.with_extension(format!("{:016x}", random()));
    let mut options = OpenOptions::new();
    options
        .write(true)
        .create_new(true)
        .mode(access.mode & 0o666);
    let mut file = options.open(&beside)?;
    let written = file
        .set_permissions(fs::Permissions::from_mode(access.mode & 0o666))
        .and_then(|()| writeln!(file, "consort 1 {} {:016x}", line.segment, line.token));
    let put = written.and_then(|()| match is_missing {
        // This one fails if somebody else was faster.
        true => fs::hard_link(&beside, path),
        false => fs::rename(&beside, path),
    });
    let _ = fs::remove_file(&beside);
    match put {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let there = read_line(path, access);
    Ok(there.is_some_and(|there| there.token == line.token))
}

/// Makes the directory if it is not there, and checks it.
fn prepare(directory: &Path) -> io::Result<Access> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    look_at(directory)
}

/// Who may use what is in the directory: its owner; its group, or everybody, where these may write to it.
fn look_at(directory: &Path) -> io::Result<Access> {
    let status = fs::symlink_metadata(directory)?;
    // SAFETY: plain look-up.
    let user = unsafe { libc::geteuid() };
    let shared = status.mode() & 0o022;
    let is_chosen = std::env::var_os(DIRECTORY_VARIABLE).is_some_and(|chosen| chosen == directory);
    let is_ours = status.uid() == user && shared == 0;
    if !status.is_dir() || !(is_ours || is_chosen) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let (for_group, for_all) = (shared & 0o020 != 0, shared & 0o002 != 0);
    let mode = 0o600 | if for_group { 0o060 } else { 0 } | if for_all { 0o006 } else { 0 };
    Ok(Access {
        mode,
        group: status.gid(),
    })
}

/// What the file says; none: there is none, or none of ours.
fn read_line(path: &Path, access: Access) -> Option<Line> {
    let mut options = OpenOptions::new();
    options.read(true);
    options.custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK);
    let file = options.open(path).ok();
    let Some(file) = file else {
        return unreadable(path);
    };
    parse(file, access).or_else(|| unreadable(path))
}

/// Something is there, and of no use: to be replaced.
fn unreadable(path: &Path) -> Option<Line> {
    fs::symlink_metadata(path).ok()?;
    Some(Line {
        segment: -1,
        token: 0,
        creator: u32::MAX,
    })
}

fn parse(file: File, access: Access) -> Option<Line> {
    let status = file.metadata().ok()?;
    // SAFETY: plain look-up.
    let is_ours = status.uid() == unsafe { libc::geteuid() };
    if !status.is_file() || !(is_ours || access.mode & 0o066 != 0) {
        return None;
    }
    let mut text = String::new();
    file.take(LINE_MAX).read_to_string(&mut text).ok()?;
    let mut words = text.trim_end().split(' ');
    let is_known = words.next() == Some("consort") && words.next() == Some("1");
    let segment = words.next()?.parse().ok()?;
    let token = u64::from_str_radix(words.next()?, 16).ok()?;
    (is_known && segment >= 0 && token != 0).then_some(Line {
        segment,
        token,
        creator: status.uid(),
    })
}

/// The names of the domains in a directory.
pub fn names_in(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let name = |entry: fs::DirEntry| {
        let file = entry.file_name().into_string().ok()?;
        let name = file.strip_suffix(SUFFIX)?;
        let is_name = (1..=consort_abi::CONSORT_NAME_MAX as usize).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_graphic());
        is_name.then(|| name.to_owned())
    };
    entries.flatten().filter_map(name).collect()
}

/// A domain's memory and who made it, for somebody who only looks; none if nobody is in it any more.
pub fn look(directory: &Path, name: &str) -> Option<(u32, Segment)> {
    let status = fs::symlink_metadata(directory).ok()?;
    // Whoever may read the directory may look at what is in it; the file's owner is to be the memory's.
    let access = Access {
        mode: 0o666,
        group: status.gid(),
    };
    let line = read_line(&directory.join(format!("{name}{SUFFIX}")), access)?;
    let segment = Segment::open(line.segment, line.creator).ok()?;
    segment
        .table()
        .is_sound(line.token)
        .then_some((line.creator, segment))
}

/// A number that nobody else has; never 0.
pub fn random() -> u64 {
    let mut bytes = [0u8; 8];
    // SAFETY: the buffer is as long as said.
    let got =
        unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), libc::GRND_NONBLOCK) };
    if got == bytes.len() as isize {
        return u64::from_ne_bytes(bytes).max(1);
    }
    // A machine that has just started: the clock and the thread's number differ for any two.
    // SAFETY: no arguments, never fails.
    let tid = unsafe { libc::gettid() } as u64;
    (crate::linux::now_ns() << 20 ^ tid).max(1)
}
