// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the members of a domain find each other: a file by the domain's name says which memory is theirs.
//!
//! Problem  The first member creates, the last removes, any may die in between, and two may come at once.
//! Rule     The file is one line, made elsewhere and put in its place at once: never half of one. Whoever finds a file whose
//!          memory is gone or is not a domain's puts another one in its place. Members look now and then whether the file
//!          still names their memory: if it names another, they move there; if there is none, they put it back. Who cannot
//!          look, for want of a file descriptor, say, stays and replaces nothing.
//! Bound    Members that were parted by such a race are together again after one look of each.
//! Limits   A last member that was killed leaves its file behind: a line, which the next member replaces.

use crate::runtime::Runtime;
use crate::segment::{Access, Segment};
use crate::spaces::suffix;
use crate::table::{Table, Terms};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{fchown, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

const LINE_MAX: u64 = 128;
/// Others may replace what we have just put in place.
const ATTEMPTS: u32 = 8;

/// A domain's memory, and where it says so.
pub struct Meeting {
    segment: Segment,
    runtime: Runtime,
    path: PathBuf,
    token: u64,
    creator: u32,
}

/// What a file says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Line {
    segment: i32,
    token: u64,
    creator: u32,
}

/// What is where a domain's file is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    Nothing,
    /// Something that is none of ours: to be replaced.
    Useless,
    Line(Line),
}

/// Where the file of a domain of that name is, for the calling thread's namespaces.
#[doc(hidden)]
pub fn path_of(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}{}", suffix()))
}

impl Meeting {
    /// The domain of that name, which is made if it is not there. `name` has no '/'.
    ///
    /// # Errors
    /// The directory is not ours, or cannot be made; there is no shared memory.
    pub fn attend(runtime: &Runtime, name: &str, terms: Terms) -> io::Result<Meeting> {
        let access = runtime.prepare()?;
        let path = path_of(runtime.path(), name);
        for _ in 0..ATTEMPTS {
            let found = read_line(&path, access)?;
            if let Found::Line(line) = found {
                if let Some(meeting) = join(runtime, &path, line) {
                    return Ok(meeting);
                }
            }
            if let Some(meeting) = found_new(runtime, &path, terms, access, found)? {
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

    /// Whether newcomers still come here. Puts the file back if it is missing. Nobody moves for not being able to look; who
    /// may not any more, or has another root directory, is not where newcomers come.
    pub fn is_current(&self) -> bool {
        match self.look() {
            Ok(is_current) => is_current,
            Err(error) => !matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
            ),
        }
    }

    fn look(&self) -> io::Result<bool> {
        let access = self.runtime.look()?;
        match read_line(&self.path, access)? {
            Found::Line(line) => Ok(line.token == self.token),
            Found::Useless => Ok(false),
            Found::Nothing => put(&self.path, self.line(), access, Found::Nothing),
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
        let access = self.runtime.look();
        let found = access.and_then(|access| read_line(&self.path, access));
        if matches!(found, Ok(Found::Line(line)) if line.token == self.token) {
            // Somebody who comes just now puts it back.
            let _ = fs::remove_file(&self.path);
        }
    }

    /// In a forked child, which does not have the memory.
    pub fn forget(self) {
        self.segment.forget();
    }
}

fn join(runtime: &Runtime, path: &Path, line: Line) -> Option<Meeting> {
    let segment = Segment::open(line.segment, line.creator).ok()?;
    let is_sound = segment.table().is_sound(line.token);
    is_sound.then(|| Meeting {
        segment,
        runtime: runtime.clone(),
        path: path.to_owned(),
        token: line.token,
        creator: line.creator,
    })
}

/// Makes a domain, and says so; none: somebody else was faster.
fn found_new(
    runtime: &Runtime,
    path: &Path,
    terms: Terms,
    access: Access,
    found: Found,
) -> io::Result<Option<Meeting>> {
    let segment = Segment::create(access)?;
    let token = random();
    segment.table().found(token, terms);
    let meeting = Meeting {
        segment,
        runtime: runtime.clone(),
        path: path.to_owned(),
        token,
        // SAFETY: plain look-up.
        creator: unsafe { libc::geteuid() },
    };
    let is_ours = put(path, meeting.line(), access, found)?;
    Ok(is_ours.then_some(meeting))
}

/// Puts a file in the place of what was found there; true: it is there and says what was to be said.
fn put(path: &Path, line: Line, access: Access, found: Found) -> io::Result<bool> {
    check_file_size()?;
    let beside = beside(path);
    let mut options = OpenOptions::new();
    options
        .write(true)
        .create_new(true)
        .mode(access.mode & 0o666);
    let mut file = options.open(&beside)?;
    let written = share(&file, access)
        .and_then(|()| writeln!(file, "consort 1 {} {:016x}", line.segment, line.token));
    let put = written.and_then(|()| match found {
        // This one fails if somebody else was faster.
        Found::Nothing => fs::hard_link(&beside, path),
        _ => replace(&beside, path),
    });
    let _ = fs::remove_file(&beside);
    match put {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let there = read_line(path, access)?;
    Ok(matches!(there, Found::Line(there) if there.token == line.token))
}

/// A name beside the file's that nobody else uses.
fn beside(path: &Path) -> PathBuf {
    path.with_extension(format!("{:016x}", random()))
}

/// A process that may write no file of such a size would be killed by a signal for trying to.
fn check_file_size() -> io::Result<()> {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the pointer is valid; where the call fails, the limit is none.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    match limit.rlim_cur < LINE_MAX {
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => Ok(()),
    }
}

/// Lets those read a file who may write to the directory. A directory does not always give its group to what is made in it.
fn share(file: &File, access: Access) -> io::Result<()> {
    let (for_group, for_all) = (access.mode & 0o060 != 0, access.mode & 0o006 != 0);
    let given = match for_group {
        true => fchown(file, None, Some(access.group)),
        false => Ok(()),
    };
    if !for_all {
        given?;
    }
    file.set_permissions(fs::Permissions::from_mode(access.mode & 0o666))
}

fn replace(new: &Path, path: &Path) -> io::Result<()> {
    match fs::rename(new, path) {
        // A directory is put aside: it may hold somebody's files.
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
            fs::rename(path, beside(path))?;
            fs::rename(new, path)
        }
        other => other,
    }
}

/// What the file says.
fn read_line(path: &Path, access: Access) -> io::Result<Found> {
    let mut options = OpenOptions::new();
    options.read(true);
    options.custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK);
    match options.open(path) {
        Ok(file) => parse(file, access),
        // A link, a socket, a file of somebody else's: if one can see it.
        Err(error) if !is_shortage(&error) => match fs::symlink_metadata(path) {
            Ok(_) => Ok(Found::Useless),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Found::Nothing),
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// Whether an error is about the one who looks, and says nothing of the file.
fn is_shortage(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EINTR | libc::EIO)
    )
}

fn parse(file: File, access: Access) -> io::Result<Found> {
    let status = file.metadata()?;
    // SAFETY: plain look-up.
    let is_ours = status.uid() == unsafe { libc::geteuid() };
    if !status.is_file() || !(is_ours || access.mode & 0o066 != 0) {
        return Ok(Found::Useless);
    }
    let mut text = Vec::new();
    file.take(LINE_MAX).read_to_end(&mut text)?;
    let line = line_of(&text, status.uid());
    Ok(line.map_or(Found::Useless, Found::Line))
}

fn line_of(text: &[u8], creator: u32) -> Option<Line> {
    let mut words = std::str::from_utf8(text).ok()?.trim_end().split(' ');
    let is_known = words.next() == Some("consort") && words.next() == Some("1");
    let segment = words.next()?.parse().ok()?;
    let token = u64::from_str_radix(words.next()?, 16).ok()?;
    (is_known && segment >= 0 && token != 0).then_some(Line {
        segment,
        token,
        creator,
    })
}

/// The names of the domains in a directory, of those whose memory the calling thread can have.
pub fn names_in(directory: &Path) -> Vec<String> {
    let suffix = suffix();
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let name = |entry: fs::DirEntry| {
        let file = entry.file_name().into_string().ok()?;
        let name = file.strip_suffix(&suffix)?;
        let is_name = (1..=consort_abi::CONSORT_NAME_MAX as usize).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_graphic());
        is_name.then(|| name.to_owned())
    };
    entries.flatten().filter_map(name).collect()
}

/// A domain's memory and who made it, for somebody who only looks; none if nobody is in it any more.
pub fn look(directory: &Path, name: &str) -> Option<(u32, Segment)> {
    let status = fs::symlink_metadata(directory).ok()?;
    // A user who may read the directory may look at what is in it; the file's owner is to be the memory's.
    let access = Access {
        mode: 0o666,
        group: status.gid(),
    };
    let Ok(Found::Line(line)) = read_line(&path_of(directory, name), access) else {
        return None;
    };
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
