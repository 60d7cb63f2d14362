// SPDX-License-Identifier: GPL-2.0-only
//! Functions of users' own: the kernel verifies them, and the scheduler calls them.
//!
//! The kernel may take long to verify a program, and may be made to: that is done in a process of its own, of low priority,
//! whose CPU time is limited, and which is waited for without blocking.

use std::{
    io::{self, IoSliceMut, Read},
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    os::unix::net::UnixStream,
    time::Duration,
};

use libbpf_rs::{MapCore, MapFlags};

use crate::{
    skeleton::interface::{
        consort_user_args, CONSORT_CALL_USER, CONSORT_USER_FUNCTIONS, CONSORT_USER_SET,
        CONSORT_USER_STATUS,
    },
    struct_ops, Error, Scheduler,
};

/// Functions that are loaded at a time.
pub const USER_FUNCTIONS: u32 = CONSORT_USER_FUNCTIONS;

/// Steps that one answer may take: what the kernel counts as it verifies the function, for all members of a group.
pub const USER_STEPS_MAX: u32 = 65_536;

/// CPU time that verifying one may take, in seconds.
const CPU_SECONDS: u64 = 2;

/// The last of what the verifier says.
const LOG_BYTES: usize = 1 << 20;
const TOLD_BYTES: usize = 1500;

const PROGRAM_LOAD: libc::c_long = 5;
const STRUCT_OPS: u32 = 27;

/// What `BPF_PROG_LOAD` takes; a C struct of the kernel's, of which later ones are longer.
#[repr(C)]
#[derive(Default)]
struct LoadArgs {
    program_type: u32,
    instructions: u32,
    code: u64,
    licence: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
    btf: u32,
    func_info_bytes: u32,
    func_info: u64,
    func_infos: u32,
    line_info_bytes: u32,
    line_info: u64,
    line_infos: u32,
    attach_btf_id: u32,
    attach_program: u32,
    relocations: u32,
    descriptors: u64,
    relocation: u64,
    relocation_bytes: u32,
    log_true_bytes: u32,
}

/// What the process says that loads: an errno, and then the end of the log.
const REPORT: usize = size_of::<i32>();

/// A function that the kernel is looking at.
#[derive(Debug)]
pub struct Verifying {
    child: libc::pid_t,
    from: UnixStream,
}

/// One that it has accepted.
#[derive(Debug)]
pub struct UserProgram {
    pub descriptor: OwnedFd,
    /// That one answer takes at most.
    pub steps: u32,
    /// CPU time that it took to verify it.
    pub took: Duration,
}

/// What has become of it.
#[derive(Debug)]
pub enum Verified {
    NotYet(Verifying),
    Done(UserProgram),
    /// With what the kernel says, and the CPU time that it took.
    Refused(String, Duration),
}

/// How a function does in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct UserStatus {
    pub asked: u64,
    /// Answers of which something was wrong.
    pub corrected: u64,
    /// It was asked, and nothing answered.
    pub missing: u64,
    pub slow: u64,
    pub took_max_ns: u64,
    /// It was slow too often: it is not asked any more.
    pub off: bool,
}

impl Scheduler {
    /// The descriptor of the records that functions see.
    pub fn df_records(&self) -> BorrowedFd<'_> {
        self.maps.df_records.as_fd()
    }

    /// Has the kernel look at a program for `struct_ops/dispatch`, which may name no map but that of the records.
    ///
    /// # Errors
    /// No process can be made, or this kernel's types are not known.
    pub fn verify_user(&self, code: &[u8]) -> Result<Verifying, Error> {
        let (attach_btf_id, attach_type) = struct_ops::dispatch()?;
        let records = self.df_records().as_raw_fd();
        Verifying::begin(code, records, attach_btf_id, attach_type)
    }

    /// Puts a program at a number, in the place of what was there, which answers until then.
    ///
    /// # Errors
    /// Those of the map.
    pub fn put_user(&mut self, number: u32, program: BorrowedFd<'_>) -> Result<(), Error> {
        let value = program.as_raw_fd() as u32;
        let put = self.maps.df_programs.update(
            &number.to_ne_bytes(),
            &value.to_ne_bytes(),
            MapFlags::ANY,
        );
        put.map_err(|error| Error::Load {
            doing: "take a decision function",
            detail: format!("{error:#}"),
        })
    }

    /// Takes the program at a number away; groups that have it go on without.
    pub fn drop_user(&mut self, number: u32) {
        // There may be none.
        let _ = self.maps.df_programs.delete(&number.to_ne_bytes());
    }

    /// Gives a group the function of this number, or lets the one that it has begin anew.
    ///
    /// # Errors
    /// ENOENT when there is no such group with a function of a user's own.
    pub fn set_user(&mut self, group: u32, number: u32) -> Result<(), Error> {
        self.user(group, CONSORT_USER_SET, number).map(drop)
    }

    /// How a group's function does.
    ///
    /// # Errors
    /// ENOENT when there is no such group with a function of a user's own.
    pub fn user_status(&self, group: u32) -> Result<UserStatus, Error> {
        let told = self.user(group, CONSORT_USER_STATUS, 0)?;
        Ok(UserStatus {
            asked: told.asked,
            corrected: told.corrected,
            missing: told.missing,
            slow: told.slow,
            took_max_ns: told.took_max_ns,
            off: told.is_off != 0,
        })
    }

    fn user(&self, domain: u32, operation: u32, user: u32) -> Result<consort_user_args, Error> {
        let mut args = consort_user_args {
            operation,
            domain,
            user,
            ..Default::default()
        };
        self.call(CONSORT_CALL_USER, &mut args, "look at a group's function")?;
        Ok(args)
    }
}

impl Verifying {
    fn begin(
        code: &[u8],
        records: RawFd,
        attach_btf_id: u32,
        attach_type: u32,
    ) -> Result<Self, Error> {
        let failed = |error| Error::system("cannot have a decision function verified", error);
        let (from, to) = UnixStream::pair().map_err(failed)?;
        from.set_nonblocking(true).map_err(failed)?;
        let mut log = vec![0u8; LOG_BYTES];
        let mut args = LoadArgs {
            program_type: STRUCT_OPS,
            instructions: (code.len() / 8) as u32,
            code: code.as_ptr() as u64,
            licence: c"GPL".as_ptr() as u64,
            name: *b"consort_df\0\0\0\0\0\0",
            attach_btf_id,
            attach_type,
            ..Default::default()
        };
        // SAFETY: what the child calls is safe after a fork, and allocates nothing.
        match unsafe { libc::fork() } {
            -1 => Err(failed(io::Error::last_os_error())),
            0 => load(&mut args, &mut log, to.as_raw_fd(), records),
            child => Ok(Verifying { child, from }),
        }
    }

    /// Looks whether it is done, and does not wait.
    pub fn look(mut self) -> Verified {
        let mut report = [0u8; REPORT];
        match receive(&self.from, &mut report) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Verified::NotYet(self),
            Ok((REPORT, Some(descriptor))) => {
                let took = self.end();
                let steps = steps(descriptor.as_fd());
                match steps {
                    Ok(steps) if steps <= USER_STEPS_MAX => Verified::Done(UserProgram {
                        descriptor,
                        steps,
                        took,
                    }),
                    Ok(steps) => {
                        let text = format!(
                            "it takes up to {steps} steps: expected at most {USER_STEPS_MAX}"
                        );
                        Verified::Refused(text, took)
                    }
                    Err(error) => Verified::Refused(error.to_string(), took),
                }
            }
            Ok((REPORT, None)) => {
                let mut log = Vec::new();
                // The child has written all of it, and ends.
                let _ = self.from.set_nonblocking(false);
                let _ = self.from.read_to_end(&mut log);
                let error = io::Error::from_raw_os_error(i32::from_ne_bytes(report));
                let took = self.end();
                Verified::Refused(explain(&error, &String::from_utf8_lossy(&log)), took)
            }
            _ => {
                let took = self.end();
                let text = format!("verifying it took more than {CPU_SECONDS} s: expected fewer branches and loops");
                Verified::Refused(text, took)
            }
        }
    }

    /// Ends the process, if it has not ended, and tells the CPU time that it has had.
    fn end(&mut self) -> Duration {
        // SAFETY: all bytes 0 are a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        let child = std::mem::take(&mut self.child);
        if child == 0 {
            return Duration::ZERO;
        }
        // SAFETY: our own child, which has not been waited for.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::wait4(child, std::ptr::null_mut(), 0, &mut usage);
        }
        let time =
            |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
        time(usage.ru_utime) + time(usage.ru_stime)
    }
}

impl Drop for Verifying {
    fn drop(&mut self) {
        self.end();
    }
}

/// In the child: loads, reports, ends. After a fork: no allocation. It competes as any program does, for time that its user
/// pays for: with a lower weight, beside two busy programs, it would be ten seconds late.
fn load(args: &mut LoadArgs, log: &mut [u8], to: RawFd, records: RawFd) -> ! {
    let limit = libc::rlimit {
        rlim_cur: CPU_SECONDS,
        rlim_max: CPU_SECONDS,
    };
    // SAFETY: system calls on memory of our own.
    unsafe {
        close_others([to, records]);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::setrlimit(libc::RLIMIT_CPU, &limit);
        let mut program = libc::syscall(
            libc::SYS_bpf,
            PROGRAM_LOAD,
            &raw mut *args,
            size_of::<LoadArgs>(),
        );
        let mut error = *libc::__errno_location();
        if program < 0 && error != libc::EPERM {
            args.log_level = 1;
            args.log_bytes = log.len() as u32;
            args.log = log.as_mut_ptr() as u64;
            program = libc::syscall(
                libc::SYS_bpf,
                PROGRAM_LOAD,
                &raw mut *args,
                size_of::<LoadArgs>(),
            );
            error = *libc::__errno_location();
        }
        if program >= 0 {
            send(to, &0i32.to_ne_bytes(), Some(program as RawFd));
        } else {
            send(to, &error.to_ne_bytes(), None);
            let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
            let told = &log[end.saturating_sub(TOLD_BYTES)..end];
            libc::write(to, told.as_ptr().cast(), told.len());
        }
        libc::_exit(0)
    }
}

/// Programs whose connections the daemon closes are to see that, and the next daemon is to have its lock.
fn close_others(kept: [RawFd; 2]) {
    let [one, other] = kept.map(|descriptor| descriptor as libc::c_uint);
    let (low, high) = (one.min(other), one.max(other));
    for (first, last) in [
        (3, low.saturating_sub(1)),
        (low + 1, high.saturating_sub(1)),
        (high + 1, libc::c_uint::MAX),
    ] {
        if first <= last {
            // SAFETY: the child uses none of these.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
    }
}

/// Room for one descriptor beside a message.
#[repr(C, align(8))]
struct Ancillary([u8; 64]);

fn message(part: &mut libc::iovec, ancillary: &mut Ancillary) -> libc::msghdr {
    // SAFETY: all bytes 0 are a value.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = part;
    header.msg_iovlen = 1;
    header.msg_control = ancillary.0.as_mut_ptr().cast();
    // SAFETY: plain arithmetic.
    header.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<RawFd>() as u32) } as _;
    header
}

fn send(to: RawFd, bytes: &[u8], descriptor: Option<RawFd>) {
    let mut part = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let mut ancillary = Ancillary([0; 64]);
    let mut header = message(&mut part, &mut ancillary);
    // SAFETY: the header describes memory that is here until the call returns.
    unsafe {
        match descriptor {
            Some(descriptor) => {
                let first = libc::CMSG_FIRSTHDR(&header);
                (*first).cmsg_level = libc::SOL_SOCKET;
                (*first).cmsg_type = libc::SCM_RIGHTS;
                (*first).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as _;
                libc::CMSG_DATA(first)
                    .cast::<RawFd>()
                    .write_unaligned(descriptor);
            }
            None => header.msg_controllen = 0,
        }
        libc::sendmsg(to, &header, libc::MSG_NOSIGNAL);
    }
}

fn receive(from: &UnixStream, bytes: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut slice = IoSliceMut::new(bytes);
    let mut part = libc::iovec {
        iov_base: slice.as_mut_ptr().cast(),
        iov_len: slice.len(),
    };
    let mut ancillary = Ancillary([0; 64]);
    let mut header = message(&mut part, &mut ancillary);
    // SAFETY: the header describes memory that is here until the call returns.
    let length = unsafe { libc::recvmsg(from.as_raw_fd(), &mut header, libc::MSG_CMSG_CLOEXEC) };
    if length < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has filled in what the header says; a descriptor that it gives is ours.
    let descriptor = unsafe {
        let first = libc::CMSG_FIRSTHDR(&header);
        let is_descriptor = !first.is_null()
            && (*first).cmsg_level == libc::SOL_SOCKET
            && (*first).cmsg_type == libc::SCM_RIGHTS;
        is_descriptor
            .then(|| OwnedFd::from_raw_fd(libc::CMSG_DATA(first).cast::<RawFd>().read_unaligned()))
    };
    Ok((length as usize, descriptor))
}

/// What the verifier says last that is a reason: no numbers of what it has done, states, or instructions.
fn explain(error: &io::Error, log: &str) -> String {
    const NO_REASONS: [&str; 5] = [
        "processed ",
        "verification time",
        "cur state",
        "old state",
        "from ",
    ];
    let is_reason = |line: &&str| {
        let is_other = NO_REASONS.iter().any(|start| line.starts_with(start));
        let is_code = line
            .split_once(':')
            .is_some_and(|(at, _)| at.parse::<u32>().is_ok());
        !line.is_empty() && !is_other && !is_code
    };
    match log.lines().rfind(is_reason) {
        Some(reason) if reason.contains("infinite loop") => {
            "it has a loop without an end: expected loops over at most a number that stands in the source".to_owned()
        }
        Some(reason) => format!("the kernel refuses it: {reason}"),
        None => format!("the kernel refuses it: {error}"),
    }
}

/// How many steps the kernel counted when it verified a program.
fn steps(program: BorrowedFd<'_>) -> Result<u32, Error> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut bytes = size_of_val(&info) as u32;
    let descriptor = program.as_raw_fd();
    // SAFETY: a struct of numbers of that size, for the kernel to fill in.
    let done = unsafe { libbpf_sys::bpf_prog_get_info_by_fd(descriptor, &mut info, &mut bytes) };
    match done {
        0 => Ok(info.verified_insns),
        _ => Err(Error::system(
            "cannot look at a decision function",
            io::Error::last_os_error(),
        )),
    }
}

const _: () = assert!(size_of::<LoadArgs>() == 144);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_found_in_what_the_verifier_says() {
        let error = io::Error::from_raw_os_error(libc::EINVAL);
        let endless = "41: (05) goto pc-9\ninfinite loop detected at insn 33\ncur state: R0=0\nold state: R0=0\nprocessed 60 insns\n";
        assert!(explain(&error, endless).contains("loop without an end"));
        let large = "7: (b7) r1 = 1\nBPF program is too large. Processed 1000001 insn\nprocessed 1000001 insns (limit 1000000)\n";
        assert!(explain(&error, large).ends_with("Processed 1000001 insn"));
        assert!(explain(&error, "").contains("Invalid argument"));
    }

    /// Whatever this kernel thinks of it, and of us: the child has nothing of ours open but what it needs, and reports.
    #[test]
    fn what_cannot_be_loaded_is_reported() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let records = std::fs::File::open("/dev/null").unwrap();
        let mut verifying = Verifying::begin(&[0; 8], records.as_raw_fd(), 0, 0).unwrap();
        drop(theirs);
        let text = loop {
            match verifying.look() {
                Verified::NotYet(again) => verifying = again,
                Verified::Refused(text, _) => break text,
                Verified::Done(program) => panic!("{program:?}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        assert!(text.contains("the kernel refuses it"), "{text}");
        ours.set_nonblocking(true).unwrap();
        assert_eq!((&ours).read(&mut [0]).unwrap(), 0);
    }
}
