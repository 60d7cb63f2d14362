// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a parallel compile asks of a scheduler: short processes, so many at a time, that fork, touch memory, read and
//! write files, work, and end.

use consort_bench_player::clock::{now_ns, sleep_until_ns, NS_PER_MS};
use consort_bench_player::error::Error;
use consort_bench_player::fleet::Schedule;
use consort_bench_player::processes::spawn;
use consort_bench_player::work::burn_ns;
use std::path::PathBuf;

const SOURCE_BYTES: usize = 256 << 10;
const MEMORY_BYTES: usize = 4 << 20;
const PAGE_BYTES: usize = 4096;
/// CPU time of the shortest and the longest process.
const WORK_MIN_NS: u64 = 10 * NS_PER_MS;
const WORK_MAX_NS: u64 = 100 * NS_PER_MS;

/// One job slot: one process after the other, until the end.
pub fn make(schedule: Schedule, slot: usize) -> Result<(), Error> {
    sleep_until_ns(schedule.begin_ns);
    compile_while(slot as u64, || now_ns() < schedule.stop_at_ns())
}

/// One process after the other, while `more` says so; `seed` chooses their lengths.
pub fn compile_while(seed: u64, mut more: impl FnMut() -> bool) -> Result<(), Error> {
    let object = std::env::temp_dir().join(format!("bench-object-{seed}"));
    let mut number = seed;
    while more() {
        // A cheap permutation: lengths vary, and repeat from run to run.
        number = (number * 1103 + 12345) % 65536;
        let work_ns = WORK_MIN_NS + (WORK_MAX_NS - WORK_MIN_NS) * number / 65536;
        let object = object.clone();
        spawn(move || compile(&object, work_ns))?.wait()?;
    }
    // What stays behind is small, and in the folder for such things.
    let _ = std::fs::remove_file(object);
    Ok(())
}

fn compile(object: &PathBuf, work_ns: u64) -> Result<(), Error> {
    let mut memory = vec![0u8; MEMORY_BYTES];
    for page in memory.chunks_mut(PAGE_BYTES) {
        page[0] = 1;
    }
    burn_ns(work_ns);
    let text = |what: &str| format!("{what} {}", object.display());
    std::fs::write(object, &memory[..SOURCE_BYTES])
        .map_err(|source| Error::io(text("write"), source))?;
    std::fs::read(object).map_err(|source| Error::io(text("read"), source))?;
    Ok(())
}
