// SPDX-License-Identifier: GPL-2.0-only
//! What a daemon finds out about a scheduler that it takes over, and how one scheduler follows another.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem::size_of,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    time::{Duration, Instant},
};

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use tracing::info;

use crate::{
    descriptors::{Kept, Maps},
    globals::{read, write, Globals},
    kernel,
    pages::{self, Pages},
    prepared::Prepared,
    skeleton::interface::{
        consort_domain_label, consort_init_args, consort_join_args, CLIENTS_MAX,
        CONSORT_CALL_LEAVE_OTHERS, DOMAINS_MAX, RESERVATIONS_MAX,
    },
    syscall, DomainOptions, Error, JoinArgs, Scheduler, Thread,
};

/// A thread's place in a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Membership {
    pub client: u32,
    pub slot: u32,
    pub domain: u32,
}

/// What a domain is called, and by whom, and what it was made with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainLabel {
    pub uid: u32,
    /// Empty: private. At most 63 bytes count.
    pub name: String,
    pub options: DomainOptions,
}

/// How long another scheduler may take to leave the kernel.
const LEAVING: Duration = Duration::from_secs(10);

impl Kept {
    /// Where a thread is a member; `None`: nowhere.
    ///
    /// # Errors
    /// The scheduler cannot be asked.
    pub fn member(&self, thread: Thread) -> Result<Option<Membership>, Error> {
        tell_member(&self.program("consort_member_tell")?, thread)
    }

    /// Takes the scheduler out of the kernel; programs are not told so, since the next one comes.
    fn detach(&self) -> Result<(), Error> {
        let mut args = consort_init_args::default();
        let keep_pages = self.program("consort_keep_pages")?;
        syscall::call_program(&keep_pages, &mut args, "keep programs' pages")?;
        // SAFETY: the descriptor is open.
        let errno = unsafe { libbpf_sys::bpf_link_detach(self.link.as_raw_fd()) };
        if errno != 0 {
            let error = std::io::Error::from_raw_os_error(-errno);
            return Err(Error::system("cannot detach the scheduler", error));
        }
        let until = Instant::now() + LEAVING;
        while kernel::attached_scheduler().is_some() {
            if Instant::now() > until {
                return kernel::check_free();
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }
}

impl Prepared {
    /// Follows a scheduler that is in charge, of whatever build: the domains, the members among `threads` and the pages of
    /// `clients` are its own from then on, reservations are not. Programs are with the stock scheduler in between.
    ///
    /// # Errors
    /// See [`Error`]. Nobody is in charge then, if the other one has been detached.
    pub fn follow(
        self,
        kept: &Kept,
        clients: &BTreeSet<u32>,
        threads: &[Thread],
        predecessor: Option<OwnedFd>,
    ) -> Result<Scheduler, Error> {
        let maps = self.maps()?;
        let domains = domains(&kept.map("domain_sets")?, &kept.map("domain_labels")?)?;
        let mut members = Vec::new();
        for thread in threads {
            members.extend(kept.member(*thread)?.map(|place| (*thread, place)));
        }
        pages::carry(&kept.map("clients")?, &maps.clients, clients)?;
        let pages = Pages::beside(maps.clients, clients, predecessor);
        let began = Instant::now();
        kept.detach()?;
        let mut scheduler = self.attach(pages)?;
        let (attached, members) = (began.elapsed(), scheduler.rejoin(domains, members)?);
        info!(
            gap_us = attached.as_micros() as u64,
            members_us = began.elapsed().as_micros() as u64,
            members,
            "one scheduler has followed another"
        );
        Ok(scheduler)
    }
}

impl Scheduler {
    /// Makes the same domains, and lets their members in. Returns how many those are.
    fn rejoin(
        &mut self,
        domains: Vec<(u32, Option<DomainLabel>)>,
        members: Vec<(Thread, Membership)>,
    ) -> Result<usize, Error> {
        let mut numbers = BTreeMap::new();
        for (number, label) in domains {
            if let Some(label) = label {
                numbers.insert(number, self.create_domain(&label)?);
            }
        }
        let mut joined = 0;
        for (thread, place) in members {
            let Some(domain) = numbers.get(&place.domain).copied() else {
                continue;
            };
            let Membership { client, slot, .. } = place;
            let args = JoinArgs {
                thread,
                client,
                slot,
                domain,
            };
            match self.join(args) {
                Ok(()) => joined += 1,
                // It has ended meanwhile.
                Err(Error::Refused { errno, .. }) if errno == libc::ESRCH => {}
                Err(error) => return Err(error),
            }
        }
        Ok(joined)
    }

    /// Where a thread is a member; `None`: nowhere.
    ///
    /// # Errors
    /// The scheduler cannot be asked.
    pub fn member(&self, thread: Thread) -> Result<Option<Membership>, Error> {
        tell_member(&self.programs.member_tell, thread)
    }

    /// Ends the memberships of threads whose clients are not among these.
    ///
    /// # Errors
    /// The scheduler cannot be asked.
    pub fn leave_others(&mut self, clients: &BTreeSet<u32>) -> Result<(), Error> {
        let mut connected = [0u64; CLIENTS_MAX as usize / 64];
        for client in clients.iter().filter(|client| **client < CLIENTS_MAX) {
            connected[*client as usize / 64] |= 1 << (client % 64);
        }
        write!(self.bss, connected, connected);
        let mut args = consort_init_args::default();
        self.call(
            CONSORT_CALL_LEAVE_OTHERS,
            &mut args,
            "let those leave who have gone",
        )
    }

    /// All domains, each with what the daemon that made it has noted; `None`: it came to an end before it could.
    ///
    /// # Errors
    /// The scheduler's maps cannot be read.
    pub fn domains(&self) -> Result<Vec<(u32, Option<DomainLabel>)>, Error> {
        domains(&self.maps.domain_sets, &self.maps.domain_labels)
    }

    /// All reservations, each with the number that [`Scheduler::label_reservation`] has given it.
    ///
    /// # Errors
    /// The scheduler's maps cannot be read.
    pub fn reservations(&self) -> Result<Vec<(u32, Option<u32>)>, Error> {
        let labels = &self.maps.reservation_labels;
        let label = |id: u32| -> Result<Option<u32>, Error> {
            let found = labels
                .lookup(&id.to_ne_bytes(), MapFlags::ANY)
                .map_err(failed("read a reservation's number"))?;
            Ok(found.and_then(|bytes| Some(u32::from_ne_bytes(bytes.try_into().ok()?))))
        };
        let ids = in_use::<{ RESERVATIONS_MAX as usize }>(&self.maps.reservations)?.into_iter();
        ids.map(|id| Ok((id, label(id)?))).collect()
    }

    /// Notes by which number the daemon knows a reservation; `None`: it does not any more.
    ///
    /// # Errors
    /// No memory.
    pub fn label_reservation(&mut self, id: u32, number: Option<u32>) -> Result<(), Error> {
        let labels = &self.maps.reservation_labels;
        let Some(number) = number else {
            let _ = labels.delete(&id.to_ne_bytes());
            return Ok(());
        };
        labels
            .update(&id.to_ne_bytes(), &number.to_ne_bytes(), MapFlags::ANY)
            .map_err(failed("note a reservation's number"))
    }

    /// Notes that a message of this client's is being answered; 0: nobody's is. The next daemon finds it if this one ends
    /// in between.
    pub fn set_answering(&mut self, client: u32) {
        write!(self.bss, client, answering);
    }

    pub fn answering(&self) -> u32 {
        read!(self.bss, answering)
    }
}

/// Notes what a domain is called, for the next daemon.
pub(crate) fn note_domain(maps: &Maps, domain: u32, label: &DomainLabel) -> Result<(), Error> {
    let mut raw = consort_domain_label {
        uid: label.uid,
        order: label.options.order,
        flags: label.options.flags,
        event_ns: label.options.event_ns,
        ..Default::default()
    };
    let end = raw.name.len() - 1;
    for (to, from) in raw.name[..end].iter_mut().zip(label.name.bytes()) {
        *to = from as std::ffi::c_char;
    }
    // SAFETY: integers only, without padding, as the size below says.
    let bytes: [u8; LABEL_BYTES] = unsafe { std::mem::transmute(raw) };
    maps.domain_labels
        .update(&domain.to_ne_bytes(), &bytes, MapFlags::ANY)
        .map_err(failed("note what a domain is called"))
}

/// Before the domain's number is another one's.
pub(crate) fn forget_domain(maps: &Maps, domain: u32) {
    let _ = maps.domain_labels.delete(&domain.to_ne_bytes());
}

fn tell_member(program: &impl AsFd, thread: Thread) -> Result<Option<Membership>, Error> {
    let mut args = consort_join_args {
        tid: thread.tid,
        start_ticks: thread.start,
        ..Default::default()
    };
    match syscall::call_program(program, &mut args, "tell where a thread is a member") {
        Ok(()) => Ok(Some(Membership {
            client: args.client,
            slot: args.slot,
            domain: args.domain,
        })),
        Err(Error::Refused { errno, .. }) if [libc::ENOENT, libc::ESRCH].contains(&errno) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

const LABEL_BYTES: usize = size_of::<consort_domain_label>();
const _: () = assert!(LABEL_BYTES == 4 * size_of::<u32>() + size_of::<u64>() + 64);

fn domains(sets: &MapHandle, labels: &MapHandle) -> Result<Vec<(u32, Option<DomainLabel>)>, Error> {
    let label = |domain: u32| -> Result<Option<DomainLabel>, Error> {
        let found = labels
            .lookup(&domain.to_ne_bytes(), MapFlags::ANY)
            .map_err(failed("read what a domain is called"))?;
        Ok(found.as_deref().and_then(read_label))
    };
    let numbers = in_use::<{ DOMAINS_MAX as usize }>(sets)?.into_iter();
    numbers.map(|domain| Ok((domain, label(domain)?))).collect()
}

fn read_label(bytes: &[u8]) -> Option<DomainLabel> {
    let bytes: [u8; LABEL_BYTES] = bytes.get(..LABEL_BYTES)?.try_into().ok()?;
    // SAFETY: integers only, for which any bytes are a value.
    let raw: consort_domain_label = unsafe { std::mem::transmute(bytes) };
    let name: Vec<u8> = raw.name.iter().map(|byte| *byte as u8).collect();
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    Some(DomainLabel {
        uid: raw.uid,
        name: String::from_utf8_lossy(name).into_owned(),
        options: DomainOptions {
            event_ns: raw.event_ns,
            order: raw.order,
            flags: raw.flags,
        },
    })
}

/// The numbers under which an array of `N` addresses has something.
fn in_use<const N: usize>(addresses: &MapHandle) -> Result<Vec<u32>, Error> {
    let mapped = Globals::<[u64; N]>::map(addresses, true)?;
    let is_used = |index: &usize| {
        // SAFETY: within the array, which is mapped; volatile, as the kernel writes it.
        unsafe { std::ptr::read_volatile(mapped.as_ptr().cast::<u64>().add(*index)) != 0 }
    };
    Ok((0..N).filter(is_used).map(|index| index as u32).collect())
}

fn failed(doing: &'static str) -> impl Fn(libbpf_rs::Error) -> Error {
    move |error| Error::Load {
        doing,
        detail: format!("{error:#}"),
    }
}
