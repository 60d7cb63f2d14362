// SPDX-License-Identifier: MIT OR Apache-2.0
//! Heavy load, as 003 has it: two endless compiles, a greedy copy over the network to the same machine, and writes of files.
//! Guests have no disk and no ssh: files are in memory, and what enciphering costs is a loop over the data.

use crate::compile::compile_while;
use crate::promise::Prepared;
use consort_bench_player::error::Error;
use consort_bench_player::processes::{kill_all, spawn, Child};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

const COMPILES: u64 = 2;
const CHUNK_BYTES: usize = 64 << 10;
const FILE_CHUNKS: usize = 64;

/// The processes that are the load; killed when it goes out of scope.
pub struct Heavy(Vec<Child<()>>);

impl Heavy {
    /// All of them without a promise.
    ///
    /// # Errors
    /// When a process cannot be started, or this machine has no network to itself.
    pub fn start(prepared: &Prepared) -> Result<Heavy, Error> {
        let mut heavy = Heavy(Vec::new());
        for seed in 0..COMPILES {
            heavy.add(prepared, move || compile_while(seed, || true))?;
        }
        let listener =
            TcpListener::bind("127.0.0.1:0").map_err(|source| Error::io("listen", source))?;
        let address = listener
            .local_addr()
            .map_err(|source| Error::io("ask where it listens", source))?;
        heavy.add(prepared, move || {
            let (stream, _) = listener
                .accept()
                .map_err(|source| Error::io("accept", source))?;
            receive(stream)
        })?;
        heavy.add(prepared, move || {
            let stream =
                TcpStream::connect(address).map_err(|source| Error::io("connect", source))?;
            send(stream)
        })?;
        heavy.add(prepared, write_files)?;
        Ok(heavy)
    }

    fn add(
        &mut self,
        prepared: &Prepared,
        work: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.0.push(spawn(|| {
            prepared.take_none()?;
            work()
        })?);
        Ok(())
    }
}

impl Drop for Heavy {
    fn drop(&mut self) {
        kill_all(self.0.drain(..));
    }
}

fn encipher(chunk: &mut [u8], key: &mut u8) {
    for byte in chunk {
        *byte ^= *key;
        *key = key.wrapping_mul(5).wrapping_add(1);
    }
}

fn send(mut stream: TcpStream) -> Result<(), Error> {
    let (mut chunk, mut key) = (vec![0; CHUNK_BYTES], 1);
    loop {
        encipher(&mut chunk, &mut key);
        stream
            .write_all(&chunk)
            .map_err(|source| Error::io("send", source))?;
    }
}

fn receive(mut stream: TcpStream) -> Result<(), Error> {
    let (mut chunk, mut key) = (vec![0; CHUNK_BYTES], 1);
    loop {
        let bytes = stream
            .read(&mut chunk)
            .map_err(|source| Error::io("receive", source))?;
        encipher(&mut chunk[..bytes], &mut key);
    }
}

fn write_files() -> Result<(), Error> {
    let path = std::env::temp_dir().join("bench-written");
    let chunk = vec![1; CHUNK_BYTES];
    loop {
        let written = File::create(&path).and_then(|mut file| {
            for _ in 0..FILE_CHUNKS {
                file.write_all(&chunk)?;
            }
            file.sync_all()
        });
        written.map_err(|source| Error::io(format!("write {}", path.display()), source))?;
    }
}
