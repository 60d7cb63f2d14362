// SPDX-License-Identifier: GPL-2.0-only
//! Calls the scheduler: a struct goes in, and comes back with the answer.

use std::{
    io,
    mem::size_of_val,
    os::fd::{AsFd, AsRawFd},
};

use crate::{
    skeleton::interface::{
        consort_bill_args, consort_call, consort_call_args, consort_classes_args,
        consort_domain_args, consort_init_args, consort_join_args, consort_leave_args,
        consort_plan_args, consort_reservation_args, consort_role_args, consort_user_args,
        CONSORT_CALL_BYTES,
    },
    Error, Scheduler,
};

/// Arguments of what is called, with the errno that it leaves in them.
///
/// # Safety
/// The type must consist of integers only, without padding: its bytes are read and written by the program.
pub(crate) unsafe trait Args: Copy {
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

impl Scheduler {
    /// Calls what `number` stands for.
    ///
    /// # Errors
    /// See [`call`].
    pub(crate) fn call<A: Args>(
        &self,
        number: consort_call,
        args: &mut A,
        doing: &'static str,
    ) -> Result<(), Error> {
        call(&self.programs.call, number, args, doing)
    }
}

/// Calls what `number` stands for.
///
/// # Errors
/// [`Error::Refused`] when the scheduler leaves an errno, [`Error::Load`] when it cannot be called.
pub(crate) fn call<A: Args>(
    consort_call: &impl AsFd,
    number: consort_call,
    args: &mut A,
    doing: &'static str,
) -> Result<(), Error> {
    const {
        assert!(size_of::<A>() <= CONSORT_CALL_BYTES as usize);
        assert!(align_of::<A>() <= align_of::<consort_call_args>());
    }
    let mut all = consort_call_args {
        args: [0; CONSORT_CALL_BYTES as usize],
        call: number.into(),
    };
    let own: *mut A = all.args.as_mut_ptr().cast();
    // SAFETY: the struct begins with as many bytes, aligned as these have to be, and any bytes are integers.
    unsafe { own.write(*args) };
    let done = run(consort_call, &mut all, doing);
    // SAFETY: as above.
    *args = unsafe { own.read() };
    done?;
    answered(args, doing)
}

/// Runs a program of its own on `args`. One of an earlier build may know the first of its fields only.
///
/// # Errors
/// As for [`call`].
pub(crate) fn call_program<A: Args>(
    program: &impl AsFd,
    args: &mut A,
    doing: &'static str,
) -> Result<(), Error> {
    run(program, args, doing)?;
    answered(args, doing)
}

fn answered(args: &impl Args, doing: &'static str) -> Result<(), Error> {
    match args.errno() {
        0 => Ok(()),
        errno => Err(Error::Refused {
            doing,
            errno: errno as i32,
        }),
    }
}

/// `args` are a C struct of integers.
fn run<A>(program: &impl AsFd, args: &mut A, doing: &'static str) -> Result<(), Error> {
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t,
        ctx_in: std::ptr::from_mut(args).cast(),
        ctx_size_in: size_of_val(args) as u32,
        ..Default::default()
    };
    let program = program.as_fd().as_raw_fd();
    // SAFETY: the options are valid; all bytes of the arguments are integers, which the program may read and write.
    let failed = unsafe { libbpf_sys::bpf_prog_test_run_opts(program, &mut options) };
    // What a program returns is negative where it knows no such call.
    let errno = -failed.min(options.retval as i32);
    if errno > 0 {
        let error = io::Error::from_raw_os_error(errno);
        return Err(Error::Load {
            doing,
            detail: format!("BPF_PROG_TEST_RUN: {error}"),
        });
    }
    Ok(())
}
