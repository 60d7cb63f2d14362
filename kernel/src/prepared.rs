// SPDX-License-Identifier: GPL-2.0-only
//! Loading: the kernel verifies the scheduler, which is then put in charge.

use std::mem::MaybeUninit;

use libbpf_rs::{
    skel::{OpenSkel, Skel, SkelBuilder},
    OpenObject,
};
use tracing::info;

use crate::{
    descriptors::{duplicate, Maps, Programs},
    exit,
    kernel::{self, explain_attach},
    log,
    pages::Pages,
    scheduler::{from_kernel, write_tunables},
    skeleton::{
        interface::{
            consort_counters, consort_init_args, consort_reasons, CONSORT_CALL_INIT_ARENA,
            CPUS_MAX, SHARDS_MAX,
        },
        types, ConsortSkel, ConsortSkelBuilder, OpenConsortSkel,
    },
    struct_ops, syscall, verifier, Error, Options, Scheduler, Topology,
};

/// `SCX_OPS_SWITCH_PARTIAL`: the same in every kernel that has sched_ext.
pub(crate) const SWITCH_PARTIAL: u64 = 1 << 3;

/// A scheduler that the kernel has verified, and that is not in charge yet.
pub struct Prepared {
    skeleton: ConsortSkel<'static>,
    options: Options,
    topology: Topology,
    verifier_steps: Option<u32>,
}

impl Prepared {
    /// Loads a scheduler beside the one that is in charge, if there is one.
    ///
    /// # Errors
    /// See [`Error`]: no sched_ext, too old, not root.
    pub fn load(options: Options) -> Result<Self, Error> {
        kernel::check()?;
        log::capture();
        let topology = Topology::read()?;
        let open = open(options, &topology)?;
        let skeleton = open
            .load()
            .map_err(|error| kernel::explain_load(&error, &log::take()))?;
        let mut init = consort_init_args::default();
        syscall::call(
            &skeleton.progs.consort_call,
            CONSORT_CALL_INIT_ARENA,
            &mut init,
            "start",
        )?;
        Ok(Prepared {
            verifier_steps: verifier::steps_most(skeleton.object()),
            skeleton,
            options,
            topology,
        })
    }

    pub(crate) fn maps(&self) -> Result<Maps, Error> {
        Maps::of(&self.skeleton)
    }

    /// Puts it in charge, with these pages for programs.
    pub(crate) fn attach(mut self, pages: Pages) -> Result<Scheduler, Error> {
        let attached = self.skeleton.maps.consort_ops.attach_struct_ops();
        let exited = || {
            let info = &self.skeleton.maps.bss_data.as_deref()?.exit_info;
            // SAFETY: the same C struct, mapped for as long as the skeleton lives.
            unsafe { exit::report(std::ptr::from_ref(info).cast()) }
        };
        let link = attached.map_err(|error| explain_attach(&error, exited()))?;
        if let Some(report) = exited() {
            return Err(Error::Load {
                doing: "keep the scheduler",
                detail: report.to_string(),
            });
        }
        // What the skeleton has is closed with it.
        let (link, maps) = (duplicate(&link)?, Maps::of(&self.skeleton)?);
        let programs = Programs::of(&self.skeleton)?;
        let scheduler = Scheduler::of(link, programs, maps, pages, &self.options)?;
        info!(
            cpus = self.topology.present,
            room = self.topology.shard_of_cpu.len(),
            shards = self.topology.shards,
            partial = self.options.partial,
            kernel = kernel::kernel_release(),
            verifier_steps = self.verifier_steps,
            "scheduler attached"
        );
        Ok(scheduler)
    }
}

/// Opens the program and sets what the verifier takes for constant.
fn open(options: Options, topology: &Topology) -> Result<OpenConsortSkel<'static>, Error> {
    // The skeleton borrows this for as long as the scheduler lives, which is as long as the process does.
    let object: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open = ConsortSkelBuilder::default()
        .open(object)
        .map_err(|error| kernel::explain_load(&error, &log::take()))?;
    let missing = || Error::Load {
        doing: "open the scheduler",
        detail: "its constants are missing: kernel/bpf and kernel/src do not fit together"
            .to_owned(),
    };
    let rodata = open.maps.rodata_data.as_deref_mut().ok_or_else(missing)?;
    set_topology(&mut rodata.topology, topology)?;
    rodata.one_cpu = topology.shard_of_cpu.len() == 1;
    rodata.is_virtual = kernel::is_virtual();
    rodata.use_timers = !kernel::is_realtime();
    size_by_cpus(&mut open, topology).map_err(|error| Error::Load {
        doing: "make room for each CPU",
        detail: format!("{error:#}"),
    })?;
    let data = open.maps.data_data.as_deref_mut().ok_or_else(missing)?;
    let tunables = options.tunables.apply(from_kernel(&data.tunables))?;
    write_tunables(&mut data.tunables, tunables);
    let ops = open.struct_ops.consort_ops_mut();
    ops.timeout_ms = options.watchdog_ms;
    // Linux 6.18 does not tell schedulers of cpu.idle, and refuses operations that it does not know.
    if !struct_ops::has(c"cgroup_set_idle") {
        ops.cgroup_set_idle = std::ptr::null_mut();
    }
    if options.partial {
        ops.flags |= SWITCH_PARTIAL;
    }
    if kernel::is_realtime() {
        info!("this kernel (PREEMPT_RT) refuses BPF timers: slices end with the tick, so at most every 1 to 10 ms");
    }
    Ok(open)
}

/// Memory is taken for the CPUs that there is room for alone.
fn size_by_cpus(
    open: &mut OpenConsortSkel<'static>,
    topology: &Topology,
) -> Result<(), libbpf_rs::Error> {
    let (cpus, entries) = (topology.shard_of_cpu.len() as u32, topology.cpu_mask() + 1);
    let maps = &mut open.maps;
    maps.timers.set_max_entries(cpus)?;
    maps.df_records.set_max_entries(cpus)?;
    maps.bss_counters
        .set_value_size(entries * size_of::<consort_counters>() as u32)?;
    maps.data_reasons
        .set_value_size(entries * size_of::<consort_reasons>() as u32)
}

fn set_topology(to: &mut types::consort_topology, from: &Topology) -> Result<(), Error> {
    let cpus = from.shard_of_cpu.len();
    if cpus > CPUS_MAX as usize {
        return Err(Error::TooManyCpus {
            cpus,
            cpus_max: CPUS_MAX,
        });
    }
    to.nr_cpus = cpus as u32;
    to.nr_possible = from.possible;
    to.nr_present = from.present;
    to.cpu_mask = from.cpu_mask();
    to.nr_shards = from.shards.min(SHARDS_MAX);
    for (place, shard) in to.shard_of.iter_mut().zip(&from.shard_of_cpu) {
        // More caches than shards: some shards hold several.
        *place = shard % SHARDS_MAX;
    }
    Ok(())
}
