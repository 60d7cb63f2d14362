// SPDX-License-Identifier: GPL-2.0-only
//! What the running kernel can do, and in whose hands it is.

use std::{ffi::CStr, fs, mem::MaybeUninit};

use libbpf_rs::btf::{types::Struct, Btf};

use crate::{Error, ExitReport};

/// The oldest kernel that the scheduler is built and tested for.
pub const KERNEL_NEEDED: &str = "6.18";
const KERNEL_NEEDED_PARTS: (u32, u32) = (6, 18);

/// The release of the running kernel, such as `6.18.15+deb13-amd64`.
pub fn kernel_release() -> String {
    let mut name = MaybeUninit::<libc::utsname>::uninit();
    // SAFETY: uname() fills the struct, whose strings end in 0, or fails.
    unsafe {
        if libc::uname(name.as_mut_ptr()) != 0 {
            return "(unknown)".to_owned();
        }
        let release = name.assume_init_ref().release.as_ptr();
        CStr::from_ptr(release).to_string_lossy().into_owned()
    }
}

/// The name of the scheduler that is attached; `None` when there is none.
pub fn attached_scheduler() -> Option<String> {
    let state = fs::read_to_string("/sys/kernel/sched_ext/state").ok()?;
    if state.trim() == "disabled" {
        return None;
    }
    let name = fs::read_to_string("/sys/kernel/sched_ext/root/ops").unwrap_or_default();
    Some(match name.trim() {
        "" => "unnamed".to_owned(),
        name => name.to_owned(),
    })
}

/// True on kernels with PREEMPT_RT, which refuse BPF timers.
pub(crate) fn is_realtime() -> bool {
    fs::read_to_string("/sys/kernel/realtime").is_ok_and(|text| text.trim() == "1")
}

/// Whether a hypervisor runs this kernel, as far as the CPU tells: those of other kinds than x86 do not.
pub(crate) fn is_virtual() -> bool {
    let flags = |line: &str| line.split_once(':').map(|(_, flags)| flags.to_owned());
    fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| {
            text.lines()
                .find(|line| line.starts_with("flags"))
                .and_then(flags)
        })
        .is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// Checks what must hold before a load can succeed, so that the error names the cause.
pub(crate) fn check() -> Result<(), Error> {
    let has_sched_ext = Btf::from_vmlinux()
        .is_ok_and(|btf| btf.type_by_name::<Struct<'_>>("sched_ext_ops").is_some());
    if !has_sched_ext {
        return Err(Error::NoSchedExt {
            release: kernel_release(),
            needed: KERNEL_NEEDED,
        });
    }
    Ok(())
}

/// Checks that no scheduler is attached.
pub(crate) fn check_free() -> Result<(), Error> {
    match attached_scheduler() {
        Some(name) => Err(Error::Busy { name }),
        None => Ok(()),
    }
}

/// Why the kernel refused to load the scheduler, as far as can be told.
pub(crate) fn explain_load(error: &libbpf_rs::Error, log: &str) -> Error {
    if error.kind() == libbpf_rs::ErrorKind::PermissionDenied && !is_privileged() {
        return Error::NotPermitted;
    }
    let release = kernel_release();
    let detail = match log.trim_end() {
        "" => format!("{error:#}"),
        log => format!("{error:#}\n{log}"),
    };
    if parse_release(&release).is_some_and(|parts| parts < KERNEL_NEEDED_PARTS) {
        return Error::TooOld {
            release,
            missing: format!("something that the scheduler needs ({detail})"),
            needed: KERNEL_NEEDED,
        };
    }
    Error::Load {
        doing: "load the scheduler",
        detail,
    }
}

/// Why the kernel refused to put a loaded scheduler in charge.
pub(crate) fn explain_attach(error: &libbpf_rs::Error, exited: Option<ExitReport>) -> Error {
    // Somebody may have been faster between the check and now.
    if let Some(name) = attached_scheduler() {
        return Error::Busy { name };
    }
    if error.kind() == libbpf_rs::ErrorKind::PermissionDenied && !is_privileged() {
        return Error::NotPermitted;
    }
    let why = exited.map(|report| format!(": {report}"));
    Error::Load {
        doing: "attach the scheduler",
        detail: format!("{error:#}{} (dmesg says more)", why.unwrap_or_default()),
    }
}

/// Whether this process has the capabilities that loading takes; root inside a container often has not.
pub(crate) fn is_privileged() -> bool {
    const CAP_SYS_ADMIN: u64 = 1 << 21;
    const CAP_PERFMON: u64 = 1 << 38;
    const CAP_BPF: u64 = 1 << 39;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    effective & CAP_SYS_ADMIN != 0 || effective & (CAP_BPF | CAP_PERFMON) == CAP_BPF | CAP_PERFMON
}

/// Major and minor version of a release.
fn parse_release(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Now, of the clock that the scheduler reads.
pub(crate) fn monotonic_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the clock exists on every Linux, and the struct is valid.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_compare_as_numbers() {
        assert_eq!(parse_release("6.18.15+deb13-amd64"), Some((6, 18)));
        assert!(parse_release("6.9.1").unwrap() < KERNEL_NEEDED_PARTS);
        assert!(parse_release("7.2").unwrap() > KERNEL_NEEDED_PARTS);
        assert_eq!(parse_release("linux"), None);
    }

    #[test]
    fn the_needed_version_is_written_once_in_each_form() {
        assert_eq!(parse_release(KERNEL_NEEDED), Some(KERNEL_NEEDED_PARTS));
    }
}
