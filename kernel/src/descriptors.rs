// SPDX-License-Identifier: GPL-2.0-only
//! The descriptors that keep a scheduler in the kernel and lets a daemon talk to it, by name: a process that has them all can take
//! it over, from a daemon that runs, or from one that has ended.

use std::{
    collections::BTreeMap,
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

use libbpf_rs::{MapHandle, MapInfo};

use crate::{skeleton::ConsortSkel, Error};

const LINK: &str = "link-";
const PROGRAM: &str = "program-";
const MAP: &str = "map-";

/// A scheduler without a daemon.
#[derive(Debug)]
pub struct Kept {
    /// Of the build and the options with which it was loaded.
    pub(crate) identity: String,
    pub(crate) link: OwnedFd,
    programs: BTreeMap<String, OwnedFd>,
    maps: BTreeMap<String, OwnedFd>,
}

impl Kept {
    /// Takes the descriptors of a scheduler out of `named`; `None` when there is none.
    pub fn take(named: &mut BTreeMap<String, OwnedFd>) -> Option<Self> {
        let mut of_kind = |kind: &str| {
            let is_of = |name: &String| name.starts_with(kind);
            let names: Vec<String> = named.keys().filter(|name| is_of(name)).cloned().collect();
            let take = |name: String| Some((name[kind.len()..].to_owned(), named.remove(&name)?));
            names
                .into_iter()
                .filter_map(take)
                .collect::<BTreeMap<_, _>>()
        };
        let (programs, maps) = (of_kind(PROGRAM), of_kind(MAP));
        let (identity, link) = of_kind(LINK).pop_first()?;
        Some(Kept {
            identity,
            link: above(&link, maps.values().map(AsFd::as_fd)).unwrap_or(link),
            programs,
            maps,
        })
    }

    /// The names of all its descriptors, as [`crate::Scheduler::descriptors`] has them.
    pub fn names(&self) -> Vec<String> {
        let programs = self.programs.keys().map(|name| format!("{PROGRAM}{name}"));
        let maps = self.maps.keys().map(|name| format!("{MAP}{name}"));
        let link = std::iter::once(link_name(&self.identity));
        programs.chain(maps).chain(link).collect()
    }

    /// Whether it is what this build would load with the same options.
    pub fn is(&self, identity: &str) -> bool {
        self.identity == identity
    }

    pub(crate) fn program(&self, name: &str) -> Result<BorrowedFd<'_>, Error> {
        let program = self.programs.get(name).ok_or_else(|| missing(name))?;
        Ok(program.as_fd())
    }

    /// Another handle of a map.
    pub(crate) fn map(&self, name: &str) -> Result<MapHandle, Error> {
        map_at(self.maps.get(name).ok_or_else(|| missing(name))?)
    }
}

fn map_at(descriptor: &OwnedFd) -> Result<MapHandle, Error> {
    MapInfo::new(descriptor.as_fd())
        .and_then(|info| MapHandle::from_map_id(info.info.id))
        .map_err(|error| Error::Load {
            doing: "open a map of the scheduler that runs",
            detail: format!("{error:#}"),
        })
}

fn missing(name: &str) -> Error {
    let text = format!("it has handed on no descriptor named {name}");
    let error = io::Error::new(io::ErrorKind::NotFound, text);
    Error::system("cannot take over the scheduler that runs", error)
}

/// The name of the descriptor that keeps a scheduler in charge: it tells which scheduler that is.
pub(crate) fn link_name(identity: &str) -> String {
    format!("{LINK}{identity}")
}

/// A struct of descriptors, each with the name that it has in the BPF program.
macro_rules! named {
    ($struct:ident, $part:ident, $kind:ident, $type:ty, $of:expr, $take:expr; $($field:ident = $name:ident),* $(,)?) => {
        pub(crate) struct $struct {
            $(pub $field: $type,)*
        }

        impl $struct {
            pub fn of(skeleton: &ConsortSkel<'_>) -> Result<Self, Error> {
                Ok($struct { $($field: $of(&skeleton.$part.$name)?,)* })
            }

            pub fn take(kept: &Kept) -> Result<Self, Error> {
                Ok($struct { $($field: $take(kept, stringify!($name))?,)* })
            }

            pub fn named(&self) -> Vec<(String, BorrowedFd<'_>)> {
                vec![$((format!("{}{}", $kind, stringify!($name)), self.$field.as_fd()),)*]
            }
        }
    };
}

named! {
    Programs, progs, PROGRAM, OwnedFd, duplicate,
    |kept: &Kept, name| duplicate(&kept.program(name)?);
    call = consort_call,
    member_tell = consort_member_tell,
    keep_pages = consort_keep_pages,
}

named! {
    Maps, maps, MAP, MapHandle, handle, |kept: &Kept, name| kept.map(name);
    clients = clients,
    records = records,
    // Programs are in it for as long as somebody has it open.
    df_programs = df_programs,
    df_records = df_records,
    // Timers run for as long as somebody has their map open.
    timers = timers,
    limit_timers = limit_timers,
    domain_sets = domain_sets,
    domain_labels = domain_labels,
    reservations = reservations,
    reservation_labels = reservation_labels,
    counters = bss_counters,
    bss = bss,
    data = data,
    rodata = rodata,
}

pub(crate) fn duplicate(descriptor: &impl AsFd) -> Result<OwnedFd, Error> {
    let copy = descriptor.as_fd().try_clone_to_owned();
    copy.map_err(|error| Error::system("cannot duplicate a descriptor of the scheduler", error))
}

/// The link again, with a number above those of these maps. Of a process that is killed the kernel closes the highest number
/// first, and the scheduler must be out of the kernel before the map of its timers is let go: Linux 6.18 frees each timer
/// under a lock and wakes a worker meanwhile, and a scheduler that is still in charge starts the timer as it enqueues that
/// worker. It would wait for ever for a lock that its own CPU holds.
pub(crate) fn above<'a>(
    link: &OwnedFd,
    maps: impl Iterator<Item = BorrowedFd<'a>>,
) -> Result<OwnedFd, Error> {
    let above_all = maps.map(|map| map.as_raw_fd() + 1).max().unwrap_or(0);
    // SAFETY: plain duplication of an open descriptor.
    let copy = unsafe { libc::fcntl(link.as_raw_fd(), libc::F_DUPFD_CLOEXEC, above_all) };
    if copy < 0 {
        let error = io::Error::last_os_error();
        return Err(Error::system(
            "cannot give the scheduler's link a number above its maps'",
            error,
        ));
    }
    // SAFETY: just made, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

fn handle(map: &libbpf_rs::MapMut<'_>) -> Result<MapHandle, Error> {
    MapHandle::try_from(map).map_err(|error| Error::Load {
        doing: "open a map",
        detail: format!("{error:#}"),
    })
}
