// SPDX-License-Identifier: MIT OR Apache-2.0
//! Before the first task: what the loader sets, and the arena.

use super::arena::Arena;
use super::inspect::bounds_of;
use super::Consort;
use crate::error::Error;
use crate::ffi;
use crate::kernel::Kernel;
use crate::random::Random;
use crate::setup::Tunables;

/// Virtual time that a nice 0 task gains in a fifth of a second: 2^10 a nanosecond.
const WRAP_WITHIN: u64 = 200_000_000 << 10;

impl Consort {
    pub(super) fn set_up(&mut self, k: &Kernel) {
        let machine = &k.machine;
        let s = self.scheduler;
        // SAFETY: the scheduler's variables, which nobody else uses during our turn.
        unsafe {
            let topology = &mut *s.topology;
            topology.nr_cpus = machine.cpus();
            topology.nr_possible = machine.cpus();
            topology.nr_present = machine.cpus();
            topology.cpu_mask = machine.cpus().next_power_of_two() - 1;
            topology.nr_shards = machine.llc_of.iter().max().map_or(1, |llc| llc + 1);
            for (shard, llc) in topology.shard_of.iter_mut().zip(&machine.llc_of) {
                *shard = *llc;
            }
            *s.one_cpu = machine.cpus() == 1;
            *s.is_virtual = machine.is_virtual;
            *s.use_timers = true;
        }
        self.nr_cpus = machine.cpus();
        self.bounds = bounds_of(&k.setup);
        self.write_tunables(k.setup.tunables);
    }

    pub(super) fn write_tunables(&mut self, new: Tunables) {
        // SAFETY: as above; the scheduler expects them to change at any time.
        let tunables = unsafe { &mut *self.scheduler.tunables };
        if let Some(ns) = new.granularity_ns {
            tunables.granularity_ns = ns;
        }
        if let Some(ns) = new.min_slice_ns {
            tunables.min_slice_ns = ns;
        }
        if let Some(ns) = new.window_ns {
            tunables.window_ns = ns;
        }
        tunables.changes += 1;
    }

    /// Virtual time begins anywhere, by the seed: half of the runs see it wrap.
    fn begin_vtime(&mut self, k: &Kernel) {
        let mut random = Random::derived(k.setup.seed, 2);
        let begin = match random.chance(0.5) {
            true => u64::MAX - random.between(0, WRAP_WITHIN),
            false => 0,
        };
        if let Some(begin_vtime) = self.scheduler.begin_vtime {
            // SAFETY: after the arena was made, before any task.
            unsafe { begin_vtime(begin) };
        }
    }

    pub(super) fn start_arena(&mut self, k: &mut Kernel) -> Result<(), Error> {
        let mut args = ffi::consort_init_args::default();
        self.enter_free(k);
        if let Some(init) = self.scheduler.init_arena {
            // SAFETY: the argument is the program's own struct.
            unsafe { init(&mut args) };
        }
        match args.error {
            0 => {
                self.begin_vtime(k);
                Arena::mark_start();
                Ok(())
            }
            errno => Err(Error::Refused {
                doing: "start the scheduler",
                errno,
            }),
        }
    }
}
