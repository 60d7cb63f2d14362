// SPDX-License-Identifier: GPL-2.0-only
//! How near the scheduler is to what the kernel's verifier takes.

use std::{
    mem::size_of,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
};

use libbpf_rs::Object;
use libbpf_sys::{bpf_obj_get_info_by_fd, bpf_prog_info};

/// The most steps that the verifier has taken for one of the programs, of a million (`BPF_COMPLEXITY_LIMIT_INSNS`); None: the
/// kernel says nothing of that.
pub(crate) fn steps_most(object: &Object) -> Option<u32> {
    object.progs().filter_map(|it| steps(it.as_fd())).max()
}

fn steps(program: BorrowedFd<'_>) -> Option<u32> {
    let mut info = bpf_prog_info::default();
    let mut length = size_of::<bpf_prog_info>() as u32;
    // SAFETY: the kernel writes no more than the length says.
    let failed = unsafe {
        let info = std::ptr::from_mut(&mut info).cast();
        bpf_obj_get_info_by_fd(program.as_raw_fd(), info, &mut length)
    };
    (failed == 0).then_some(info.verified_insns)
}
