// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where in a shared library's file a function begins: what the kernel wants to know for a probe.

use consort_bench_player::error::Error;
use object::{File, Object, ObjectSegment, ObjectSymbol};
use std::path::Path;

/// The offset, in bytes, of function `name` in the file of the ELF library `path`.
///
/// # Errors
/// The file cannot be read, is no such library, or has no such function.
pub fn offset_of(path: &Path, name: &str) -> Result<u64, Error> {
    let bytes = std::fs::read(path)
        .map_err(|source| Error::io(format!("read {}", path.display()), source))?;
    let usage = |text: String| Error::Usage(format!("{}: {text}", path.display()));
    let library =
        File::parse(&*bytes).map_err(|error| usage(format!("expected an ELF library: {error}")))?;
    find(&library, name)
        .ok_or_else(|| usage(format!("expected a library with the function {name}")))
}

fn find(library: &File, name: &str) -> Option<u64> {
    let function = library
        .dynamic_symbols()
        .find(|symbol| symbol.is_definition() && symbol.name() == Ok(name))?;
    offset_at(library, function.address())
}

/// Where the file has what is loaded at `address`.
fn offset_at(library: &File, address: u64) -> Option<u64> {
    library.segments().find_map(|segment| {
        let (offset, length) = segment.file_range();
        let within = address.checked_sub(segment.address());
        offset.checked_add(within.filter(|within| *within < length)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{ops::Range, path::PathBuf};

    /// A part of a file that is in this process's memory.
    struct Mapping {
        addresses: Range<u64>,
        offset: u64,
        path: PathBuf,
    }

    impl Mapping {
        /// Of a line such as `7f00-7fff r-xp 00026000 08:01 1234 /lib/libc.so.6`.
        fn of(line: &str) -> Option<Mapping> {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            let number = |digits| u64::from_str_radix(digits, 16).unwrap();
            let (begin, end) = fields[0].split_once('-').unwrap();
            Some(Mapping {
                addresses: number(begin)..number(end),
                offset: number(fields[2]),
                path: PathBuf::from(fields.get(5)?),
            })
        }

        fn all() -> Vec<Mapping> {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            maps.lines().filter_map(Mapping::of).collect()
        }
    }

    /// The file that has what is mapped at `address`, and where in it.
    fn mapped(address: u64) -> (PathBuf, u64) {
        let all = Mapping::all();
        let found = all.iter().find(|it| it.addresses.contains(&address));
        let found = found.unwrap();
        let offset = address - found.addresses.start + found.offset;
        (found.path.clone(), offset)
    }

    #[test]
    fn what_is_no_library_has_no_function() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/elf.rs");
        let error = offset_of(&source, "find").unwrap_err().to_string();
        assert!(error.contains("elf.rs: expected an ELF library"), "{error}");
    }

    #[cfg(not(target_feature = "crt-static"))]
    #[test]
    fn a_function_of_the_c_library_is_found() {
        let (library, offset) = mapped(libc::getpid as *const () as u64);
        assert_eq!(offset_of(&library, "getpid").unwrap(), offset);
        let error = offset_of(&library, "getpi").unwrap_err().to_string();
        assert!(error.contains("the function getpi"), "{error}");
    }

    /// Of this executable: the C library's addresses may be its offsets, those of what Rust links are not.
    #[test]
    fn what_is_loaded_elsewhere_than_it_is_in_the_file_is_found() {
        let address = offset_of as *const () as u64;
        let (path, offset) = mapped(address);
        let all = Mapping::all();
        let first = all.iter().find(|it| it.path == path && it.offset == 0);
        let loaded_at = first.unwrap().addresses.start;
        let bytes = std::fs::read(&path).unwrap();
        let executable = File::parse(&*bytes).unwrap();
        assert_eq!(offset_at(&executable, address - loaded_at), Some(offset));
        assert_eq!(offset_at(&executable, u64::MAX), None);
    }
}
