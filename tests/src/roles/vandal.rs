// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that lie in their slots, or do to their page what nobody should.

use std::{num::NonZeroUsize, os::fd::BorrowedFd, ptr::NonNull};

use consort::{now_ns, Next};
use consort_abi::{
    consort_request, CONSORT_MAPPING_BYTES, CONSORT_ORDER_PROGRAM, CONSORT_ORDER_SERVICE,
    CONSORT_PAGE_BYTES, CONSORT_SLOT_BYTES, CONSORT_VARIABLES_BYTES,
};
use nix::sys::mman::{mmap, munmap, MapFlags, ProtFlags};

use super::{argument, join, show, work_ns};
use crate::suite::{
    board::{Board, Field},
    client::{gettid, join_request, Client},
    process::set_realtime,
};

const MS: u64 = 1_000_000;
const PAGE: usize = CONSORT_PAGE_BYTES as usize;
/// The page, and the variables behind it.
const MAPPING: usize = CONSORT_MAPPING_BYTES as usize;
/// In words: the first slot, and the variables of its thread.
const SLOT: usize = CONSORT_SLOT_BYTES as usize / 8;
const VARIABLES: usize = CONSORT_VARIABLES_BYTES as usize / 8;

/// What a liar claims: that its event has been due for ever; with `all`, also that its best-effort event is the most
/// important one.
fn lie(what: &str) -> Next {
    Next {
        due_ns: 1,
        best_effort: (what == "all").then_some((0, 0)),
    }
}

/// `polite-liar DOMAIN due|all`: polls every millisecond, and lies each time.
pub fn polite_liar(board: &Board, arguments: &[&str]) -> Result<(), String> {
    let member = join(&argument::<String>(arguments, 0)?)?;
    let lie = lie(&argument::<String>(arguments, 1)?);
    loop {
        work_ns(MS);
        show(board, &member.poll(lie).map_err(|error| error.to_string())?);
        board.set(Field::Ready, 1);
    }
}

/// `mute-liar DOMAIN due|all`: lies once, and never polls again.
pub fn mute_liar(board: &Board, arguments: &[&str]) -> Result<(), String> {
    let member = join(&argument::<String>(arguments, 0)?)?;
    let lie = lie(&argument::<String>(arguments, 1)?);
    show(board, &member.poll(lie).map_err(|error| error.to_string())?);
    board.set(Field::Ready, 1);
    loop {
        work_ns(MS);
        board.add(Field::Work, 1);
    }
}

/// A small generator: the same seed vandalises in the same way.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn joined_client(domain: &str) -> Result<Client, String> {
    let client = Client::hello()?;
    let (name, order) = match domain.strip_suffix(":service") {
        Some(name) => (name, CONSORT_ORDER_SERVICE),
        None => (domain, CONSORT_ORDER_PROGRAM),
    };
    let reply = client.ask(&consort_request {
        order,
        ..join_request(gettid(), 0, name.as_bytes())
    })?;
    match reply.error {
        0 => Ok(client),
        _ => Err(format!("cannot join: {}", reply.text)),
    }
}

/// `scribbler DOMAIN ones|random`: fills its mapping with 0xff or with noise, while it runs, yields and sleeps.
pub fn scribbler(board: &Board, arguments: &[&str]) -> Result<(), String> {
    let client = joined_client(&argument::<String>(arguments, 0)?)?;
    let ones = argument::<String>(arguments, 1)? == "ones";
    let page = client.page().cast::<u64>();
    let mut random = Random(u64::from(std::process::id()) * 2 + 1);
    board.set(Field::Ready, 1);
    loop {
        let round = board.get(Field::Work);
        // All of it now and then, what is its own always.
        let words = match round % 16 {
            0 => [0..MAPPING / 8, 0..0],
            _ => [SLOT..2 * SLOT, PAGE / 8..PAGE / 8 + VARIABLES],
        };
        for word in words.into_iter().flatten() {
            let value = if ones {
                u64::MAX
            } else {
                plausible(&mut random)
            };
            // SAFETY: inside the mapping, which stays; others write it, too.
            unsafe { page.add(word).write_volatile(value) };
        }
        match random.next() % 4 {
            0 => std::thread::yield_now(),
            1 => std::thread::sleep(std::time::Duration::from_micros(random.next() % 3000)),
            _ => work_ns(random.next() % MS),
        }
        board.add(Field::Work, 1);
    }
}

/// Noise of the kinds that do most harm: anything, small numbers, times near now.
fn plausible(random: &mut Random) -> u64 {
    let noise = random.next();
    match random.next() % 4 {
        0 => noise,
        1 => noise % 4,
        2 => now_ns() + noise % (20 * MS) - 10 * MS,
        _ => ((noise % 4) << 32) | ((noise >> 8) % 4),
    }
}

/// `remapper DOMAIN`: maps, grows, protects, unmaps and truncates its mapping, and tries to use its descriptor otherwise.
/// Errors counts what succeeded and must not.
pub fn remapper(board: &Board, arguments: &[&str]) -> Result<(), String> {
    let client = joined_client(&argument::<String>(arguments, 0)?)?;
    let fd = client.page_fd().ok_or("no page")?;
    // SAFETY: the client keeps it open.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let mut random = Random(77);
    board.set(Field::Ready, 1);
    loop {
        remap_once(board, fd, &mut random);
        std::thread::yield_now();
        work_ns(random.next() % MS);
        board.add(Field::Work, 1);
    }
}

fn remap_once(board: &Board, fd: BorrowedFd, random: &mut Random) {
    let must_fail = |succeeded: bool| {
        if succeeded {
            board.add(Field::Errors, 1);
        }
    };
    let map = |bytes: usize, protection, offset| {
        let length = NonZeroUsize::new(bytes).unwrap_or(NonZeroUsize::MIN);
        // SAFETY: fresh mappings at addresses of the kernel's choice.
        unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, fd, offset) }.ok()
    };
    let writable = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    must_fail(map(MAPPING + PAGE, writable, 0).is_some());
    must_fail(map(PAGE, writable, MAPPING as i64).is_some());
    must_fail(nix::unistd::ftruncate(fd, 1 << 20).is_ok());
    let Some(at) = map(MAPPING, writable, 0) else {
        board.add(Field::Errors, 1);
        return;
    };
    // SAFETY: the mapping is this function's own; growing it may fail or give an address without memory behind.
    let grown = unsafe { libc::mremap(at.as_ptr(), MAPPING, MAPPING + PAGE, libc::MREMAP_MAYMOVE) };
    let (at, bytes) = match NonNull::new(grown) {
        Some(grown) if grown.as_ptr() != libc::MAP_FAILED => (grown, MAPPING + PAGE),
        _ => (at, MAPPING),
    };
    // SAFETY: only the mapping as it was has memory behind it.
    unsafe {
        at.cast::<u64>()
            .add(8 + random.next() as usize % 8)
            .write_volatile(random.next())
    };
    // SAFETY: the mapping is this function's own and not used after.
    let _ = unsafe { munmap(at, bytes) };
}

/// `fifo-hog SECONDS`: runs above everybody for so long.
pub fn fifo_hog(board: &Board, arguments: &[&str]) -> Result<(), String> {
    let seconds = argument::<u64>(arguments, 0)?;
    set_realtime(0, true)?;
    board.set(Field::Ready, 1);
    work_ns(seconds * 1000 * MS);
    board.set(Field::Served, 1);
    Ok(())
}
