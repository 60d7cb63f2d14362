// SPDX-License-Identifier: GPL-2.0-only
//! The pages that programs map: one inner map of the map `clients` each.
//!
//! Every change of a map of maps waits until all CPUs have left the BPF programs that may still see the old
//! entry: tens of milliseconds. A program must not wait for that, nor make others wait, so pages are put into
//! the map by the batch, before anybody asks for them. A page that was given back is never given out
//! again, since its program may still have it mapped: the next batch replaces it.

use std::{
    collections::VecDeque,
    mem::size_of,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

use consort_abi::{
    consort_page, consort_slot, CONSORT_ABI_MAGIC, CONSORT_ABI_VERSION, CONSORT_PRIORITY_NONE,
};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapMut, MapType};

use crate::{skeleton::interface::CLIENTS_MAX, Error};

/// Pages made at a time.
const BATCH: usize = 32;

/// A program's number, and the descriptor of its page.
#[derive(Debug)]
pub struct ClientPage {
    pub client: u32,
    pub descriptor: OwnedFd,
}

pub(crate) struct Pages {
    clients: MapHandle,
    /// In the map already, and given to nobody.
    ready: VecDeque<ClientPage>,
    /// Numbers whose entries are empty or stale; the longest unused first. Number 0 is nobody's, so that a
    /// zero in a trace is never a program.
    free: VecDeque<u32>,
}

impl Pages {
    /// Takes charge of the map `clients`, and makes the first batch.
    pub fn new(clients: &MapMut<'_>) -> Result<Self, Error> {
        let clients = MapHandle::try_from(clients).map_err(load("open the map of clients"))?;
        let mut pages = Pages {
            clients,
            ready: VecDeque::new(),
            free: (1..CLIENTS_MAX).collect(),
        };
        pages.make_batch()?;
        Ok(pages)
    }

    /// A fresh page.
    ///
    /// # Errors
    /// ENOSPC when every number is taken.
    pub fn take(&mut self) -> Result<ClientPage, Error> {
        if self.ready.is_empty() {
            self.make_batch()?;
        }
        self.ready.pop_front().ok_or(Error::Refused {
            doing: "make one more page: wait until other programs have ended",
            errno: libc::ENOSPC,
        })
    }

    pub fn give_back(&mut self, client: u32) {
        self.free.push_back(client);
    }

    fn make_batch(&mut self) -> Result<(), Error> {
        let count = BATCH.min(self.free.len());
        let mut batch = Vec::with_capacity(count);
        for client in self.free.iter().take(count) {
            batch.push((*client, make_page()?));
        }
        if batch.is_empty() {
            return Ok(());
        }
        let keys: Vec<u8> = batch
            .iter()
            .flat_map(|(client, _)| client.to_ne_bytes())
            .collect();
        let maps: Vec<u8> = batch
            .iter()
            .flat_map(|(_, page)| page.as_fd().as_raw_fd().to_ne_bytes())
            .collect();
        self.clients
            .update_batch(&keys, &maps, count as u32, MapFlags::ANY, MapFlags::ANY)
            .map_err(load("register pages"))?;
        self.free.drain(..count);
        for (client, page) in batch {
            let descriptor = page
                .as_fd()
                .try_clone_to_owned()
                .map_err(|error| Error::system("cannot duplicate a page's descriptor", error))?;
            self.ready.push_back(ClientPage { client, descriptor });
        }
        Ok(())
    }
}

/// Makes a page on which nothing is published yet.
fn make_page() -> Result<MapHandle, Error> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        map_flags: libbpf_sys::BPF_F_MMAPABLE,
        ..Default::default()
    };
    let bytes = size_of::<consort_page>() as u32;
    let map = MapHandle::create(MapType::Array, Some("consort_page"), 4, bytes, 1, &options)
        .map_err(load("make a page"))?;
    map.update(&0u32.to_ne_bytes(), &page_bytes(), MapFlags::ANY)
        .map_err(load("initialise a page"))?;
    Ok(map)
}

fn page_bytes() -> [u8; size_of::<consort_page>()] {
    let slot = consort_slot {
        due_ns: u64::MAX,
        priority: CONSORT_PRIORITY_NONE,
        yield_by_ns: u64::MAX,
        other_due_ns: u64::MAX,
        other_priority: CONSORT_PRIORITY_NONE,
        ..consort_slot::default()
    };
    let mut page = consort_page {
        header: Default::default(),
        slots: [slot; consort_abi::CONSORT_SLOTS as usize],
    };
    page.header.magic = CONSORT_ABI_MAGIC;
    page.header.version = CONSORT_ABI_VERSION;
    page.header.attached = 1;
    // SAFETY: the layout is all integers without padding, as its size assertions in the header say.
    unsafe { std::mem::transmute::<consort_page, [u8; size_of::<consort_page>()]>(page) }
}

fn load(doing: &'static str) -> impl Fn(libbpf_rs::Error) -> Error {
    move |error| Error::Load {
        doing,
        detail: format!("{error:#}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_page_publishes_nothing_and_names_its_layout() {
        let bytes = page_bytes();
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!(word(0), CONSORT_ABI_MAGIC);
        assert_eq!(word(4), CONSORT_ABI_VERSION);
        assert_eq!(word(8), 1);
        for slot in 0..63 {
            let at = 64 + slot * 64;
            assert_eq!(bytes[at..at + 8], [0xff; 8], "due of slot {slot}");
            assert_eq!(
                word(at + 16),
                CONSORT_PRIORITY_NONE,
                "priority of slot {slot}"
            );
        }
    }
}
