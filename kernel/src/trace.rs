// SPDX-License-Identifier: GPL-2.0-only
//! Records what a scheduler does: the same program as [`late`](crate::late) looks on, and hands on each switch.

use std::cell::RefCell;

use consort_trace::Kinds;
use libbpf_rs::{RingBuffer, RingBufferBuilder};

use crate::{
    kernel::monotonic_ns,
    late::{attach, Seen},
    late_skeleton::ConsortLateSkel,
    Error,
};

/// Bytes of a record, as `abi/consort_trace.h` has it.
pub const RECORD_BYTES: usize = consort_abi::CONSORT_TRACE_RECORD_BYTES as usize;

type Buffered = RefCell<Vec<[u8; RECORD_BYTES]>>;

/// Recording; dropping it ends that.
pub struct Recording {
    // Before what it reads from, and what it writes to.
    ring: RingBuffer<'static>,
    skeleton: ConsortLateSkel<'static>,
    buffered: &'static Buffered,
}

impl Recording {
    /// Begins to record those of `kinds` that are the scheduler's.
    ///
    /// # Errors
    /// See [`Error`]: not root, a kernel without BTF.
    pub fn start(kinds: Kinds) -> Result<Recording, Error> {
        let skeleton = attach(|rodata| {
            rodata.trace_kinds = kinds.of_scheduler();
            rodata.trace_from_ns = monotonic_ns();
        })?;
        // Lives as long as the process, as what looks on does: there is one of each.
        let buffered: &'static Buffered = Box::leak(Box::default());
        let mut builder = RingBufferBuilder::new();
        let take = |bytes: &[u8]| {
            if let Ok(record) = bytes.try_into() {
                buffered.borrow_mut().push(record);
            }
            0
        };
        builder.add(&skeleton.maps.records, take).map_err(failed)?;
        let ring = builder.build().map_err(failed)?;
        Ok(Recording {
            ring,
            skeleton,
            buffered,
        })
    }

    /// Hands what was recorded since the last time to `take`, as the kernel has it. It is on the caller to come in time:
    /// records wake nobody.
    ///
    /// # Errors
    /// The kernel's ring cannot be read.
    pub fn drain(&self, mut take: impl FnMut(&[u8; RECORD_BYTES])) -> Result<(), Error> {
        self.ring.consume().map_err(failed)?;
        for record in self.buffered.borrow_mut().drain(..) {
            take(&record);
        }
        Ok(())
    }

    /// What was seen so far, and could not be recorded.
    pub fn seen(&self) -> Seen {
        Seen::of(&self.skeleton)
    }
}

fn failed(error: libbpf_rs::Error) -> Error {
    Error::Load {
        doing: "read what was recorded",
        detail: format!("{error:#}"),
    }
}
