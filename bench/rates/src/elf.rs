// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where in a shared library's file a function begins: what the kernel wants to know for a probe.

use consort_bench_player::error::Error;
use std::path::Path;

const SHT_DYNSYM: u32 = 11;
const PT_LOAD: u32 = 1;
const SYMBOL_BYTES: usize = 24;

/// The offset of function `name` in the 64-bit little-endian library `path`.
///
/// # Errors
/// The file cannot be read, is no such library, or has no such function.
pub fn offset_of(path: &Path, name: &str) -> Result<u64, Error> {
    let bytes = std::fs::read(path)
        .map_err(|source| Error::io(format!("read {}", path.display()), source))?;
    find(&bytes, name).ok_or_else(|| {
        let path = path.display();
        Error::Usage(format!(
            "{path}: expected a 64-bit library with the function {name}"
        ))
    })
}

/// A little-endian number of `N` bytes at `at`.
fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let mut all = [0; 8];
    all[..N].copy_from_slice(bytes.get(at..at + N)?);
    Some(u64::from_le_bytes(all))
}

fn find(bytes: &[u8], name: &str) -> Option<u64> {
    let header = |at| number::<8>(bytes, at).map(|it| it as usize);
    let half = |at| number::<2>(bytes, at).map(|it| it as usize);
    let (sections, section_bytes) = (header(40)?, half(58)?);
    let section = |index: usize| sections + index * section_bytes;
    let symbols = (0..half(60)?)
        .map(section)
        .find(|at| number::<4>(bytes, at + 4) == Some(u64::from(SHT_DYNSYM)))?;
    let names = header(section(number::<4>(bytes, symbols + 40)? as usize) + 24)?;
    let (begin, length) = (header(symbols + 24)?, header(symbols + 32)?);
    let address = (begin..begin + length)
        .step_by(SYMBOL_BYTES)
        .find(|at| {
            let Some(at) = number::<4>(bytes, *at).map(|it| names + it as usize) else {
                return false;
            };
            let text = bytes.get(at..at + name.len() + 1);
            text.is_some_and(|text| text.strip_prefix(name.as_bytes()) == Some(b"\0"))
        })
        .and_then(|at| number::<8>(bytes, at + 8))?;
    segment_offset(bytes, address)
}

/// Where the file has what is loaded at `address`.
fn segment_offset(bytes: &[u8], address: u64) -> Option<u64> {
    let (segments, segment_bytes) = (number::<8>(bytes, 32)?, number::<2>(bytes, 54)?);
    (0..number::<2>(bytes, 56)?).find_map(|index| {
        let at = (segments + index * segment_bytes) as usize;
        let (offset, begin) = (number::<8>(bytes, at + 8)?, number::<8>(bytes, at + 16)?);
        let is_there = number::<4>(bytes, at)? == u64::from(PT_LOAD)
            && (begin..begin + number::<8>(bytes, at + 32)?).contains(&address);
        is_there.then(|| address - begin + offset)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_library_has_no_function() {
        assert_eq!(find(b"#!/bin/sh\n", "main"), None);
        assert_eq!(find(&[0; 4096], "main"), None);
    }

    /// The library that this test is linked to, or is a part of.
    #[test]
    fn a_function_of_the_c_library_is_found() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let Some(line) = maps.lines().find(|line| line.ends_with("/libc.so.6")) else {
            return;
        };
        let path = Path::new(&line[line.find('/').unwrap()..]);
        assert!(offset_of(path, "getpid").unwrap() > 0);
        assert!(offset_of(path, "get").is_err());
    }
}
