// SPDX-License-Identifier: GPL-2.0-only
//! The scheduler of safe mode: fair shares in one queue, and nothing that can be asked of it.

use std::{mem::MaybeUninit, ptr};

use libbpf_rs::{
    skel::{OpenSkel, SkelBuilder},
    Link, OpenObject,
};
use tracing::info;

use crate::{
    exit,
    kernel::{self, explain_attach},
    log,
    prepared::SWITCH_PARTIAL,
    safe_skeleton::{ConsortSafeSkel, ConsortSafeSkelBuilder},
    Error, ExitReport, Options, Topology,
};

/// The loaded scheduler of safe mode. Dropping it gives every task back to the stock scheduler.
pub struct SafeScheduler {
    // Dropped first: the scheduler leaves the kernel before its maps go.
    link: Option<Link>,
    skeleton: ConsortSafeSkel<'static>,
    cpus: u32,
    partial: bool,
}

impl SafeScheduler {
    /// Loads the scheduler and puts it in charge of all tasks, or with `partial` of those that opt in. It has no tunables.
    ///
    /// # Errors
    /// As [`crate::Scheduler::load`].
    pub fn load(options: Options) -> Result<Self, Error> {
        kernel::check()?;
        kernel::check_free()?;
        log::capture();
        // The skeleton borrows this for as long as the process lives.
        let object: &'static mut MaybeUninit<OpenObject> =
            Box::leak(Box::new(MaybeUninit::uninit()));
        let explain = |error| kernel::explain_load(&error, &log::take());
        let mut open = ConsortSafeSkelBuilder::default()
            .open(object)
            .map_err(explain)?;
        let ops = open.struct_ops.safe_ops_mut();
        ops.timeout_ms = options.watchdog_ms;
        if options.partial {
            ops.flags |= SWITCH_PARTIAL;
        }
        let mut scheduler = SafeScheduler {
            link: None,
            skeleton: open.load().map_err(explain)?,
            cpus: Topology::read()?.present,
            partial: options.partial,
        };
        let attached = scheduler.skeleton.maps.safe_ops.attach_struct_ops();
        scheduler.link =
            Some(attached.map_err(|error| explain_attach(&error, scheduler.exited()))?);
        info!(partial = options.partial, "scheduler of safe mode attached");
        Ok(scheduler)
    }

    pub fn cpus(&self) -> u32 {
        self.cpus
    }

    pub fn partial(&self) -> bool {
        self.partial
    }

    /// Why the scheduler is no longer in charge; `None` while it is.
    pub fn exited(&self) -> Option<ExitReport> {
        let info = &self.skeleton.maps.bss_data.as_deref()?.exit_info;
        // SAFETY: the same C struct, mapped for as long as the skeleton lives.
        unsafe { exit::report(ptr::from_ref(info).cast()) }
    }
}
