// SPDX-License-Identifier: GPL-2.0-only
//! Calls the scheduler's syscall programs: a struct goes in, and comes back with the answer.

use std::mem::size_of_val;

use libbpf_rs::{ErrorExt, ProgramInput, ProgramMut};

use crate::{
    skeleton::interface::{
        consort_classes_args, consort_domain_args, consort_init_args, consort_join_args,
        consort_leave_args, consort_plan_args, consort_reservation_args, consort_role_args,
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
    consort_plan_args,
    consort_role_args,
    consort_classes_args,
    consort_reservation_args
);

/// Runs `program` on `args`.
///
/// # Errors
/// [`Error::Refused`] when the program leaves an errno, [`Error::Load`] when it cannot be run.
pub(crate) fn call<A: Args>(
    program: &ProgramMut<'_>,
    args: &mut A,
    doing: &'static str,
) -> Result<(), Error> {
    // SAFETY: `Args` promises that every byte of the type is an initialised part of an integer, and that
    // any bytes are a value; the slice lives no longer than the borrow of `args`.
    let bytes =
        unsafe { std::slice::from_raw_parts_mut((args as *mut A).cast::<u8>(), size_of_val(args)) };
    let input = ProgramInput {
        context_in: Some(bytes),
        ..ProgramInput::default()
    };
    program
        .test_run(input)
        .context("BPF_PROG_TEST_RUN")
        .map_err(|error| Error::Load {
            doing,
            detail: format!("{error:#}"),
        })?;
    match args.errno() {
        0 => Ok(()),
        errno => Err(Error::Refused {
            doing,
            errno: errno as i32,
        }),
    }
}
