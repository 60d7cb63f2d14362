// SPDX-License-Identifier: GPL-2.0-only
//! The scheduler's counters by name.

use crate::{globals::Globals, skeleton::interface::consort_counters, Counters};

/// Lists the fields once: a counter that the C struct gains, and this list lacks, does not compile.
macro_rules! by_name {
    ($counters:expr; $($field:ident),* $(,)?) => {{
        let consort_counters { $($field),* } = $counters;
        [$((stringify!($field), *$field)),*]
    }};
}

fn by_name(counters: &consort_counters) -> impl IntoIterator<Item = (&'static str, u64)> {
    by_name!(
        counters;
        switches, kept, wakeups, preemptions, polls, sleeps, due_choices, overruns, blocks, restorations,
        timers, timer_failures, refused_due, steals, lost, ends, shared_cgroups, held,
    )
}

/// Members that ended without leaving.
pub(crate) fn ends(cpus: &Globals<consort_counters>) -> u64 {
    // SAFETY: so many are mapped, and the kernel writes them; volatile, so that each call looks.
    let ends_on =
        |cpu| unsafe { std::ptr::read_volatile(&raw const (*cpus.as_ptr().add(cpu)).ends) };
    (0..cpus.count()).map(ends_on).sum()
}

/// Adds the CPUs' counters up. Each is read once while its CPU goes on counting.
pub(crate) fn sum(cpus: &Globals<consort_counters>) -> Counters {
    let mut sums = Counters::new();
    for cpu in 0..cpus.count() {
        // SAFETY: so many are mapped, and the kernel writes them; volatile, so that each call looks.
        let cpu = unsafe { std::ptr::read_volatile(cpus.as_ptr().add(cpu)) };
        for (name, value) in by_name(&cpu) {
            *sums.entry(name).or_default() += value;
        }
    }
    sums
}
