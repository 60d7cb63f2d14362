// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the daemon may do once it serves: what it needs to look at processes and to load a scheduler again, and nothing
//! else, for good.

use caps::{CapSet, Capability, CapsHashSet};
use tracing::{debug, warn};

/// To load a scheduler anew after an ejection (BPF, PERFMON, SYS_RESOURCE for locked memory), to be scheduled in time
/// (SYS_NICE), and to look at the namespaces and groups of strangers' processes (SYS_PTRACE, DAC_READ_SEARCH).
const KEPT: [Capability; 6] = [
    Capability::CAP_BPF,
    Capability::CAP_PERFMON,
    Capability::CAP_SYS_RESOURCE,
    Capability::CAP_SYS_NICE,
    Capability::CAP_SYS_PTRACE,
    Capability::CAP_DAC_READ_SEARCH,
];

/// Gives up the rest, for this thread and those that it will start. Where that is refused the daemon serves all the same.
pub(crate) fn drop_most() {
    // SAFETY: plain system calls without memory.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        warn!(error = %std::io::Error::last_os_error(), "cannot rule out new privileges");
    }
    match reduce() {
        Ok(left) => debug!(?left, "capabilities reduced"),
        Err(error) => warn!(%error, "the daemon keeps more capabilities than it needs"),
    }
}

fn reduce() -> Result<CapsHashSet, caps::errors::CapsError> {
    let kept = CapsHashSet::from(KEPT);
    let bounding = caps::read(None, CapSet::Bounding)?;
    for capability in bounding.difference(&kept) {
        caps::drop(None, CapSet::Bounding, *capability)?;
    }
    let permitted = caps::read(None, CapSet::Permitted)?;
    let left: CapsHashSet = permitted.intersection(&kept).copied().collect();
    caps::clear(None, CapSet::Inheritable)?;
    caps::set(None, CapSet::Effective, &left)?;
    caps::set(None, CapSet::Permitted, &left)?;
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a thread of its own, since there is no way back.
    #[test]
    fn what_is_not_needed_is_gone_for_good() {
        let left = std::thread::spawn(|| {
            drop_most();
            let regained = caps::raise(None, CapSet::Effective, Capability::CAP_SYS_ADMIN);
            let sets = [CapSet::Effective, CapSet::Permitted];
            let left = sets.map(|set| caps::read(None, set).unwrap());
            (left, regained.is_err())
        });
        let (left, stays_gone) = left.join().unwrap();
        let kept = CapsHashSet::from(KEPT);
        assert!(left.iter().all(|set| set.is_subset(&kept)), "{left:?}");
        assert!(stays_gone);
        // Others' are as they were.
        if nix::unistd::getuid().is_root() {
            let own = caps::read(None, CapSet::Permitted).unwrap();
            assert!(own.len() > left[1].len());
        }
    }
}
