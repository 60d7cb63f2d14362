// SPDX-License-Identifier: GPL-2.0-only
//! The pages that programs map: one inner map of the map `clients` each.
//!
//! Every change of a map of maps waits until all CPUs have left the BPF programs that may still see the old
//! entry: tens of milliseconds. A program must not wait for that, nor make others wait, so pages are put into
//! the map by the batch, before anybody asks for them, by a thread of their own. A page that was given back is never given
//! out again, since its program may still have it mapped: a later batch replaces it.

use std::{
    collections::BTreeSet,
    mem::size_of,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    sync::{
        mpsc::{self, Receiver, Sender, SyncSender},
        Arc, Mutex,
    },
    thread,
    time::Duration,
};

use consort_abi::{
    consort_mapping, consort_slot, CONSORT_ABI_MAGIC, CONSORT_ABI_VERSION, CONSORT_MAPPING_BYTES,
    CONSORT_PRIORITY_NONE,
};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};

use crate::{skeleton::interface::CLIENTS_MAX, Error};

/// Pages made at a time.
const BATCH: usize = 64;
/// How long somebody waits who asks for a page when none is ready: some batches.
const WAIT: Duration = Duration::from_millis(200);

/// A program's number, and the descriptor of its page.
#[derive(Debug)]
pub struct ClientPage {
    pub client: u32,
    pub descriptor: OwnedFd,
}

pub(crate) struct Pages {
    /// Numbers whose entries are empty or stale; the longest unused first. Number 0 is nobody's, so that a
    /// zero in a trace is never a program.
    free: Sender<u32>,
    /// In the map already, and given to nobody.
    ready: Receiver<ClientPage>,
    /// Why the last batch could not be made.
    failure: Arc<Mutex<Option<Error>>>,
    /// Until it begins: the thread starts with what its maker may do then.
    maker: Option<Maker>,
    /// Pages that programs have.
    given: u32,
}

/// Makes pages ahead of those who ask.
struct Maker {
    clients: MapHandle,
    free: Receiver<u32>,
    ready: SyncSender<ClientPage>,
    failure: Arc<Mutex<Option<Error>>>,
    predecessor: Option<OwnedFd>,
}

impl Pages {
    /// Takes charge of the map `clients`, and makes the first batch.
    pub fn new(clients: MapHandle) -> Result<Self, Error> {
        let mut pages = Pages::beside(clients, &BTreeSet::new(), None);
        if let Some(maker) = &mut pages.maker {
            let first = maker.next_numbers();
            for page in maker.make(&first)? {
                let _ = maker.ready.send(page);
            }
        }
        Ok(pages)
    }

    /// Takes charge of the map `clients`, in which programs have pages with the numbers `taken` already. `predecessor`: a
    /// process that may be about to put pages into the map; none is made before it has ended.
    pub fn beside(clients: MapHandle, taken: &BTreeSet<u32>, predecessor: Option<OwnedFd>) -> Self {
        let (free, freed) = mpsc::channel();
        let (made, ready) = mpsc::sync_channel(2 * BATCH);
        for client in (1..CLIENTS_MAX).filter(|client| !taken.contains(client)) {
            // Its receiver is here.
            let _ = free.send(client);
        }
        let failure = Arc::new(Mutex::new(None));
        let maker = Maker {
            clients,
            free: freed,
            ready: made,
            failure: Arc::clone(&failure),
            predecessor,
        };
        Pages {
            free,
            ready,
            failure,
            maker: Some(maker),
            given: taken.len() as u32,
        }
    }

    /// Begins to make pages before somebody asks.
    pub fn begin(&mut self) -> Result<(), Error> {
        let Some(maker) = self.maker.take() else {
            return Ok(());
        };
        let thread = thread::Builder::new().name("consort-pages".to_owned());
        thread
            .spawn(move || maker.run())
            .map_err(|error| Error::system("cannot start a thread for pages", error))?;
        Ok(())
    }

    /// A fresh page.
    ///
    /// # Errors
    /// ENOSPC when every number is taken, EAGAIN when none is ready, or those of making maps.
    pub fn take(&mut self) -> Result<ClientPage, Error> {
        self.begin()?;
        if self.given >= CLIENTS_MAX - 1 {
            return Err(refused(
                "make one more page: wait until other programs have ended",
                libc::ENOSPC,
            ));
        }
        let Ok(page) = self.ready.recv_timeout(WAIT) else {
            let failure = self
                .failure
                .lock()
                .map_or(None, |mut failure| failure.take());
            let late = || refused("make one more page in time: try again", libc::EAGAIN);
            return Err(failure.unwrap_or_else(late));
        };
        self.given += 1;
        Ok(page)
    }

    pub fn give_back(&mut self, client: u32) {
        self.given -= 1;
        // Without its thread no page is made any more, and `take` says so.
        let _ = self.free.send(client);
    }
}

impl Maker {
    /// Until nobody takes pages any more.
    fn run(mut self) {
        if let Some(process) = self.predecessor.take() {
            await_end(&process);
        }
        loop {
            let numbers = self.next_numbers();
            if numbers.is_empty() {
                return;
            }
            for page in self.make_in_the_end(&numbers) {
                if self.ready.send(page).is_err() {
                    return;
                }
            }
        }
    }

    /// Tries again while the kernel has no memory, or no descriptor, for it.
    fn make_in_the_end(&self, numbers: &[u32]) -> Vec<ClientPage> {
        loop {
            match self.make(numbers) {
                Ok(pages) => return pages,
                Err(error) => {
                    if let Ok(mut failure) = self.failure.lock() {
                        *failure = Some(error);
                    }
                }
            }
            thread::sleep(WAIT);
        }
    }

    /// As many as a batch has, or as there are; waits for the first. None: the daemon gives up pages for good.
    fn next_numbers(&self) -> Vec<u32> {
        let first = self.free.recv().ok();
        let more = self.free.try_iter();
        first.into_iter().chain(more.take(BATCH - 1)).collect()
    }

    fn make(&self, numbers: &[u32]) -> Result<Vec<ClientPage>, Error> {
        let mut batch = Vec::with_capacity(numbers.len());
        for client in numbers {
            batch.push((*client, make_page()?));
        }
        put(&self.clients, &batch)?;
        let owned = batch.into_iter().map(|(client, page)| {
            let descriptor = page
                .as_fd()
                .try_clone_to_owned()
                .map_err(|error| Error::system("cannot duplicate a page's descriptor", error))?;
            Ok(ClientPage { client, descriptor })
        });
        owned.collect()
    }
}

/// Of a process, by its descriptor.
fn await_end(process: &OwnedFd) {
    let mut ready = libc::pollfd {
        fd: process.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one valid pollfd. It returns early for a signal at most, which this thread does not get.
    unsafe { libc::poll(&mut ready, 1, -1) };
}

/// Puts the pages that programs have at one scheduler into the map of the next one.
///
/// # Errors
/// Those of opening maps by their numbers, which takes CAP_SYS_ADMIN.
pub(crate) fn carry(
    from: &MapHandle,
    to: &MapHandle,
    clients: &BTreeSet<u32>,
) -> Result<(), Error> {
    let mut pages = Vec::with_capacity(clients.len());
    for client in clients {
        let found = from.lookup(&client.to_ne_bytes(), MapFlags::ANY);
        let number = found.map_err(load("find a program's page"))?;
        let number = number.and_then(|bytes| Some(u32::from_ne_bytes(bytes.try_into().ok()?)));
        let Some(number) = number else {
            return Err(refused("find a program's page", libc::ENOENT));
        };
        let page = MapHandle::from_map_id(number).map_err(load("open a program's page"))?;
        pages.push((*client, page));
    }
    if pages.is_empty() {
        return Ok(());
    }
    put(to, &pages)
}

fn put(clients: &MapHandle, pages: &[(u32, MapHandle)]) -> Result<(), Error> {
    let keys = pages.iter().flat_map(|(client, _)| client.to_ne_bytes());
    let maps = pages
        .iter()
        .flat_map(|(_, page)| page.as_fd().as_raw_fd().to_ne_bytes());
    let (keys, maps): (Vec<u8>, Vec<u8>) = (keys.collect(), maps.collect());
    let count = pages.len() as u32;
    clients
        .update_batch(&keys, &maps, count, MapFlags::ANY, MapFlags::ANY)
        .map_err(load("register pages"))
}

fn refused(doing: &'static str, errno: i32) -> Error {
    Error::Refused { doing, errno }
}

/// Makes a page on which nothing is published yet.
fn make_page() -> Result<MapHandle, Error> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        map_flags: libbpf_sys::BPF_F_MMAPABLE,
        ..Default::default()
    };
    let bytes = size_of::<consort_mapping>() as u32;
    let map = MapHandle::create(MapType::Array, Some("consort_page"), 4, bytes, 1, &options)
        .map_err(load("make a page"))?;
    map.update(&0u32.to_ne_bytes(), &page_bytes(), MapFlags::ANY)
        .map_err(load("initialise a page"))?;
    Ok(map)
}

fn page_bytes() -> [u8; size_of::<consort_mapping>()] {
    let slot = consort_slot {
        due_ns: u64::MAX,
        priority: CONSORT_PRIORITY_NONE,
        yield_by_ns: u64::MAX,
        other_due_ns: u64::MAX,
        other_priority: CONSORT_PRIORITY_NONE,
        ..consort_slot::default()
    };
    let mut mapping = consort_mapping {
        page: Default::default(),
        variables: [Default::default(); consort_abi::CONSORT_SLOTS as usize],
        reserved: Default::default(),
    };
    mapping.page.slots = [slot; consort_abi::CONSORT_SLOTS as usize];
    mapping.page.header.magic = CONSORT_ABI_MAGIC;
    mapping.page.header.version = CONSORT_ABI_VERSION;
    mapping.page.header.attached = 1;
    mapping.page.header.bytes = CONSORT_MAPPING_BYTES;
    // SAFETY: the layout is all integers without padding, as its size assertions in the header say.
    unsafe { std::mem::transmute::<consort_mapping, [u8; size_of::<consort_mapping>()]>(mapping) }
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
        assert_eq!(word(12) as usize, bytes.len());
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
