// SPDX-License-Identifier: MIT OR Apache-2.0
//! `consort trace export`.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

use consort_trace::{read, write_csv, write_parquet, write_perfetto};

use super::args::ExportArgs;
use crate::failure::Failure;

pub fn export(args: &ExportArgs) -> Result<(), Failure> {
    let trace = read(&args.wanted.file)?;
    let filter = args.wanted.filter(&trace)?;
    let write = |to: Box<dyn Write + Send>| {
        let to = BufWriter::new(to);
        match args {
            ExportArgs { csv: true, .. } => write_csv(&trace, &filter, to),
            ExportArgs { parquet: true, .. } => write_parquet(&trace, &filter, to),
            _ => write_perfetto(&trace, &filter, to),
        }
    };
    if args.output == Path::new("-") {
        return match write(Box::new(io::stdout())) {
            // A reader that has seen enough is no failure.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Output(error)),
            _ => Ok(()),
        };
    }
    let written = File::create(&args.output).and_then(|file| write(Box::new(file)));
    written.map_err(|source| Failure::Write {
        path: args.output.clone(),
        source,
    })
}
