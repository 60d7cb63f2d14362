// SPDX-License-Identifier: GPL-2.0-only
//! Calls the scheduler's syscall programs: a struct goes in, and comes back with the answer.

use std::{
    io,
    mem::size_of_val,
    os::fd::{AsFd, AsRawFd},
};

use crate::{
    skeleton::interface::{
        consort_bill_args, consort_classes_args, consort_domain_args, consort_init_args,
        consort_join_args, consort_leave_args, consort_plan_args, consort_reservation_args,
        consort_role_args, consort_user_args,
    },
    Error,
};

/// Arguments of a syscall program, with the errno that it leaves in them.
///
/// # Safety
/// The type must consist of integers only, without padding: its bytes are read and written by the program.
pub(crate) unsafe trait Args {
    fn errno(&self) -> u32;
}

macro_rules! args {
    ($($type:ty),*) => {$(
        // SAFETY: a C struct of integers whose order leaves no padding.
        unsafe impl Args for $type {
            fn errno(&self) -> u32 {
                self.error
            }
        }
    )*};
}

args!(
    consort_init_args,
    consort_domain_args,
    consort_join_args,
    consort_leave_args,
    consort_bill_args,
    consort_plan_args,
    consort_role_args,
    consort_user_args,
    consort_classes_args,
    consort_reservation_args
);

/// Runs `program` on `args`. A program of an earlier build may know the first of its fields only.
///
/// # Errors
/// [`Error::Refused`] when the program leaves an errno, [`Error::Load`] when it cannot be run.
pub(crate) fn call<A: Args>(
    program: &impl AsFd,
    args: &mut A,
    doing: &'static str,
) -> Result<(), Error> {
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t,
        ctx_in: std::ptr::from_mut(args).cast(),
        ctx_size_in: size_of_val(args) as u32,
        ..Default::default()
    };
    let program = program.as_fd().as_raw_fd();
    // SAFETY: the options are valid; `Args` promises that all bytes of the arguments are integers, which the program may
    // read and write.
    let errno = unsafe { libbpf_sys::bpf_prog_test_run_opts(program, &mut options) };
    if errno != 0 {
        let error = io::Error::from_raw_os_error(-errno);
        return Err(Error::Load {
            doing,
            detail: format!("BPF_PROG_TEST_RUN: {error}"),
        });
    }
    match args.errno() {
        0 => Ok(()),
        errno => Err(Error::Refused {
            doing,
            errno: errno as i32,
        }),
    }
}
