// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles a function's source: the one part of this crate that talks to anybody, to clang.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::atomic::{AtomicU32, Ordering},
};

use crate::{HEADER, HEADER_NAME};

/// Why a source did not become an object.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error(
        "no clang to compile for the BPF machine with (tried: {tried}): install it (Debian: apt install clang), or name one in \
         CLANG"
    )]
    NoClang { tried: String },
    #[error("{}: {source}", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// With what the compiler says.
    #[error("{} does not compile:\n{said}", path.display())]
    Source { path: PathBuf, said: String },
}

/// What a function is compiled with. No instruction is newer than the oldest kernel; what the rules refuse is not made where
/// that can be helped.
const FLAGS: [&str; 9] = [
    "-target",
    "bpf",
    "-mcpu=v4",
    "-O2",
    "-std=gnu11",
    "-Wall",
    "-fno-builtin",
    "-fno-jump-tables",
    "-c",
];

/// A folder of our own that goes with this.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, BuildError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("consort-df-{}-{number}", std::process::id());
        let path = env::temp_dir().join(name);
        // Who has made it before us may be anybody.
        match fs::create_dir(&path) {
            Ok(()) => Ok(Folder(path)),
            Err(source) => Err(BuildError::File { path, source }),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Compiles a source to an object file's bytes.
///
/// # Errors
/// There is no clang, or it refuses the source.
pub fn build(source: &Path) -> Result<Vec<u8>, BuildError> {
    let folder = Folder::new()?;
    let file = |path: &Path| {
        let path = path.to_owned();
        |source| BuildError::File { path, source }
    };
    // Else the compiler says it, in its own words.
    fs::metadata(source).map_err(file(source))?;
    let header = folder.0.join(HEADER_NAME);
    fs::write(&header, HEADER).map_err(file(&header))?;
    let object = folder.0.join("object.o");
    let ended = compile(source, &folder.0, &object)?;
    if !ended.status.success() {
        return Err(BuildError::Source {
            path: source.to_owned(),
            said: String::from_utf8_lossy(&ended.stderr).trim_end().to_owned(),
        });
    }
    fs::read(&object).map_err(file(&object))
}

fn compile(source: &Path, headers: &Path, object: &Path) -> Result<Output, BuildError> {
    let candidates = match env::var_os("CLANG") {
        Some(chosen) => vec![chosen],
        None => vec!["clang-19".into(), "clang".into()],
    };
    for compiler in &candidates {
        let mut command = Command::new(compiler);
        command.args(FLAGS);
        command.arg("-isystem").arg(headers);
        command.arg("-o").arg(object).arg(source);
        match command.output() {
            Ok(output) => return Ok(output),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => {
                let path = PathBuf::from(compiler);
                return Err(BuildError::File { path, source });
            }
        }
    }
    let tried: Vec<_> = candidates
        .iter()
        .map(|name| name.to_string_lossy())
        .collect();
    Err(BuildError::NoClang {
        tried: tried.join(", "),
    })
}
