// SPDX-License-Identifier: MIT OR Apache-2.0
//! Consort's own scheduler: its BPF program, compiled for the host, behind the model's callbacks.

mod arena;
mod begin;
mod calls;
mod groups;
mod host;
mod inspect;
mod library;
mod members;
mod reservations;
pub(crate) mod user;

pub use library::Library;
pub(crate) use library::Turn;

use crate::error::Error;
use crate::ffi::{self, sched_ext_ops, sim_scheduler};
use crate::groups::{RoleTotal, Told};
use crate::kernel::Kernel;
use crate::rates::RateRequest;
use crate::scheduler::Scheduler;
use crate::setup::{Call, Cpu, Kernel as Version, Tunables};
use crate::trace::{TaskId, Violation, What};
use arena::Arena;
use groups::Groups;
use members::Members;
use reservations::Reservations;

const COUNTERS: [&str; 18] = [
    "switches",
    "kept",
    "wakeups",
    "preemptions",
    "polls",
    "sleeps",
    "due_choices",
    "overruns",
    "blocks",
    "restorations",
    "timers",
    "timer_failures",
    "refused_due",
    "steals",
    "lost",
    "ends",
    "shared_cgroups",
    "held",
];

/// One at a time in a process: the scheduler's variables are the program's.
pub struct Consort {
    scheduler: &'static sim_scheduler,
    members: Members,
    groups: Groups,
    /// Of daemons that have died.
    gone: Vec<(Members, Groups)>,
    /// The scheduler's numbers of the reservations that were made.
    reservations: Vec<u32>,
    /// None: nobody can reserve anything in this run.
    rates: Option<Reservations>,
    nr_cpus: u32,
    bounds: ffi::sim_bounds,
    /// Dropped last: a thread that waits for it finds everything put away.
    _turn: Turn,
}

/// The scheduler as it is in this repository.
pub fn consort() -> Box<dyn Scheduler> {
    Box::new(Consort::new(&Library::built_in()))
}

/// Calls an operation of the scheduler, if it has it; `$about` is the task that it is about, or none.
macro_rules! call {
    ($self:ident, $k:ident, $about:expr, $name:ident($($arg:expr),*)) => {{
        $self.enter($k, stringify!($name), $about);
        let ops = $self.ops();
        // SAFETY: the scheduler's own functions, with arguments of their types that live long enough.
        let result = ops.$name.map(|operation| unsafe { operation($($arg),*) });
        $self.leave_callback($k);
        result
    }};
}

impl Consort {
    /// Waits until no other run of this process uses the scheduler.
    pub fn new(library: &Library) -> Self {
        Self {
            _turn: Turn::take(),
            scheduler: library.scheduler(),
            members: Members::default(),
            groups: Groups::default(),
            gone: Vec::new(),
            reservations: Vec::new(),
            rates: None,
            nr_cpus: 0,
            bounds: ffi::sim_bounds::default(),
        }
    }

    fn ops(&self) -> &'static sched_ext_ops {
        // SAFETY: the library is never unloaded.
        unsafe { &*self.scheduler.ops }
    }

    /// Before a callback: it finds the kernel, and whoever runs on this CPU cannot be moved.
    fn enter(&mut self, k: &mut Kernel, name: &'static str, task: Option<TaskId>) {
        k.spend(k.costs.callback_ns);
        if k.observed {
            k.emit(What::Callback { name, task });
        }
        self.enter_free(k);
        if let Some(current) = k.current(k.this_cpu) {
            k.tasks[current as usize].c.migration_disabled += 1;
        }
    }

    fn leave_callback(&mut self, k: &mut Kernel) {
        if let Some(current) = k.current(k.this_cpu) {
            let c = &mut k.tasks[current as usize].c;
            c.migration_disabled = c.migration_disabled.saturating_sub(1);
        }
    }

    /// Without a cost, and outside of any task.
    fn enter_free(&mut self, k: &mut Kernel) {
        host::enter(k);
        let Some(begin) = self.scheduler.begin else {
            return;
        };
        // SAFETY: takes no arguments.
        if unsafe { begin() } {
            k.violate(
                "endless-loop",
                "a loop of the scheduler did not end by itself".to_owned(),
            );
        }
    }

    fn task(k: &mut Kernel, task: TaskId) -> *mut ffi::task_struct {
        &mut *k.tasks[task as usize].c
    }

    /// The last that the scheduler hears.
    fn exit(&mut self, k: &mut Kernel, reason: &std::ffi::CStr) {
        for cgroup in (0..k.cgroups.len()).rev() {
            if k.cgroups[cgroup].online {
                let c: *mut ffi::cgroup = &mut *k.cgroups[cgroup].c;
                call!(self, k, None, cgroup_exit(c));
                k.cgroups[cgroup].online = false;
            }
        }
        let mut info = ffi::scx_exit_info {
            reason: reason.as_ptr(),
            msg: c"".as_ptr(),
            dump: c"".as_ptr(),
            ..Default::default()
        };
        call!(self, k, None, exit(&mut info));
    }
}

impl Scheduler for Consort {
    fn name(&self) -> &'static str {
        "consort"
    }

    fn begin(&mut self, k: &mut Kernel) -> Result<(), Error> {
        let s = self.scheduler;
        let (cpus, llcs) = (
            k.machine.cpus(),
            k.machine.llc_of.iter().max().map_or(1, |llc| llc + 1),
        );
        if cpus > s.cpus_max || llcs > s.shards_max {
            return Err(Error::TooLarge {
                cpus,
                llcs,
                cpus_max: s.cpus_max,
                llcs_max: s.shards_max,
            });
        }
        Arena::reset()?;
        host::enter(k);
        if let Some(reset) = s.reset {
            // SAFETY: the table of functions lives for ever.
            unsafe {
                reset(
                    host::table(k),
                    k.machine.cpus() > 1,
                    k.version == Version::V7_2,
                )
            };
        }
        self.set_up(k);
        self.start_arena(k)?;
        k.begin_limits();
        for cgroup in 0..k.cgroups.len() {
            let (bw_period_us, bw_quota_us, bw_burst_us) = k.limit_us(cgroup);
            let mut args = ffi::scx_cgroup_init_args {
                weight: k.cgroups[cgroup].weight,
                bw_period_us,
                bw_quota_us,
                bw_burst_us,
                sched_idle: false,
            };
            let c: *mut ffi::cgroup = &mut *k.cgroups[cgroup].c;
            let error = call!(self, k, None, cgroup_init(c, &mut args));
            let ok = error.is_none_or(|error| error == 0);
            k.cgroups[cgroup].online = ok;
            if !ok && cgroup == 0 {
                return Err(Error::Refused {
                    doing: "make the root's group",
                    errno: 12,
                });
            }
        }
        self.create_domains(k);
        self.begin_rates(k);
        self.create_groups(k);
        Ok(())
    }

    fn select_cpu(&mut self, k: &mut Kernel, task: TaskId, prev_cpu: Cpu, wake_flags: u64) -> Cpu {
        let p = Self::task(k, task);
        let chosen = call!(
            self,
            k,
            Some(task),
            select_cpu(p, prev_cpu as i32, wake_flags)
        );
        chosen.map_or(prev_cpu, |cpu| cpu as Cpu)
    }

    fn enqueue(&mut self, k: &mut Kernel, task: TaskId, flags: u64) {
        let p = Self::task(k, task);
        call!(self, k, Some(task), enqueue(p, flags));
    }

    fn takes_ending(&self) -> bool {
        self.ops().flags & u64::from(ffi::SCX_OPS_ENQ_EXITING) != 0
    }

    fn dispatch(&mut self, k: &mut Kernel, cpu: Cpu, prev: Option<TaskId>) {
        let p = prev.map_or(std::ptr::null_mut(), |task| Self::task(k, task));
        call!(self, k, prev, dispatch(cpu as i32, p));
    }

    fn dequeue(&mut self, k: &mut Kernel, task: TaskId, flags: u64) {
        if self.ops().dequeue.is_some() && k.version == Version::V7_2 {
            let p = Self::task(k, task);
            call!(self, k, Some(task), dequeue(p, flags));
        }
    }

    fn quiescent(&mut self, k: &mut Kernel, task: TaskId, flags: u64) {
        let p = Self::task(k, task);
        call!(self, k, Some(task), quiescent(p, flags));
    }

    fn tick(&mut self, k: &mut Kernel, _: Cpu, task: TaskId) {
        if self.ops().tick.is_some() {
            let p = Self::task(k, task);
            call!(self, k, Some(task), tick(p));
        }
    }

    fn timer(&mut self, k: &mut Kernel, number: u32) {
        self.enter(k, "timer", None);
        if let Some(fire) = self.scheduler.timer_fire {
            // SAFETY: the number is one that the scheduler has started.
            unsafe { fire(number) };
        }
        self.leave_callback(k);
    }

    fn set_weight(&mut self, k: &mut Kernel, task: TaskId) {
        let p = Self::task(k, task);
        call!(self, k, Some(task), set_weight(p, 100));
    }

    fn cgroup_move(&mut self, k: &mut Kernel, task: TaskId, from: usize, to: usize) {
        let p = Self::task(k, task);
        let from: *mut ffi::cgroup = &mut *k.cgroups[from].c;
        let to: *mut ffi::cgroup = &mut *k.cgroups[to].c;
        call!(self, k, Some(task), cgroup_move(p, from, to));
    }

    fn cgroup_set_weight(&mut self, k: &mut Kernel, cgroup: usize, weight: u32) {
        let c: *mut ffi::cgroup = &mut *k.cgroups[cgroup].c;
        call!(self, k, None, cgroup_set_weight(c, weight));
    }

    fn cgroup_set_limit(&mut self, k: &mut Kernel, cgroup: usize) {
        let (period_us, quota_us, burst_us) = k.limit_us(cgroup);
        let c: *mut ffi::cgroup = &mut *k.cgroups[cgroup].c;
        call!(
            self,
            k,
            None,
            cgroup_set_bandwidth(c, period_us, quota_us, burst_us)
        );
    }

    fn takes_last(&self) -> bool {
        self.ops().flags & u64::from(ffi::SCX_OPS_ENQ_LAST) != 0
    }

    fn init_task(&mut self, k: &mut Kernel, task: TaskId) -> bool {
        let p = Self::task(k, task);
        let mut args = ffi::scx_init_task_args::default();
        let error = call!(self, k, Some(task), init_task(p, &mut args));
        error.is_none_or(|error| error == 0)
    }

    fn enable(&mut self, k: &mut Kernel, task: TaskId) {
        let p = Self::task(k, task);
        call!(self, k, Some(task), enable(p));
    }

    fn disable(&mut self, k: &mut Kernel, task: TaskId) {
        let p = Self::task(k, task);
        call!(self, k, Some(task), disable(p));
    }

    fn exit_task(&mut self, k: &mut Kernel, task: TaskId) {
        let p = Self::task(k, task);
        let mut args = ffi::scx_exit_task_args::default();
        call!(self, k, Some(task), exit_task(p, &mut args));
    }

    fn cpu_online(&mut self, k: &mut Kernel, cpu: Cpu) {
        call!(self, k, None, cpu_online(cpu as i32));
    }

    fn cpu_offline(&mut self, k: &mut Kernel, cpu: Cpu) {
        call!(self, k, None, cpu_offline(cpu as i32));
    }

    fn cpu_release(&mut self, k: &mut Kernel, cpu: Cpu) {
        let mut args = ffi::scx_cpu_release_args::default();
        call!(self, k, None, cpu_release(cpu as i32, &mut args));
    }

    fn join(&mut self, k: &mut Kernel, task: TaskId, domain: usize) -> bool {
        self.join_domain(k, task, domain)
    }

    fn leave(&mut self, k: &mut Kernel, task: TaskId) -> Option<usize> {
        self.leave_domain(k, task)
    }

    fn forget_client(&mut self, k: &mut Kernel, task: TaskId) {
        self.forget(k, task);
        self.end_unused(k);
    }

    fn begin_task(&mut self, k: &mut Kernel, task: TaskId) {
        self.reserve_first(k, task);
        self.bind_first(k, task);
    }

    fn ask_rate(
        &mut self,
        k: &mut Kernel,
        task: TaskId,
        request: RateRequest,
    ) -> Result<(), String> {
        self.ask(k, task, request).map_err(|refusal| refusal.text)
    }

    fn slot(&mut self, task: TaskId) -> Option<(*mut ffi::consort_slot, bool)> {
        self.members.slot(task)
    }

    fn words(&mut self, task: TaskId) -> Option<*mut ffi::consort_variables> {
        Consort::words(self, task)
    }

    fn role_totals(&mut self, k: &mut Kernel) -> Vec<RoleTotal> {
        Consort::role_totals(self, k)
    }

    fn call(&mut self, k: &mut Kernel, call: &Call) {
        self.make_call(k, call);
    }

    fn chosen(&self, cpu: Cpu) -> ffi::consort_chosen {
        // SAFETY: the library's, of as many CPUs as it was compiled for.
        unsafe { (*self.scheduler.reasons.add(cpu as usize)).chosen }
    }

    fn demoted(&self, cpu: Cpu) -> ffi::consort_demoted {
        // SAFETY: as above.
        unsafe { (*self.scheduler.reasons.add(cpu as usize)).demoted }
    }

    fn told(&self, cpu: Cpu, seen: u64) -> Told {
        // SAFETY: as above.
        self.intervals_told(
            unsafe { &(*self.scheduler.reasons.add(cpu as usize)).told },
            seen,
        )
    }

    fn set_tunables(&mut self, tunables: Tunables) {
        self.write_tunables(tunables);
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.count_over_cpus()
    }

    fn check(&mut self, k: &mut Kernel) -> Option<Violation> {
        self.broken_rule(k)
    }

    fn detach(&mut self, k: &mut Kernel) {
        self.exit(k, c"daemon has died");
        // Their pages are not looked at any more, and yet stay: programs have them.
        let members = std::mem::take(&mut self.members);
        let groups = std::mem::take(&mut self.groups);
        self.gone.push((members, groups));
        self.reservations.clear();
        self.rates = None;
    }

    fn end(&mut self, k: &mut Kernel) -> Option<Violation> {
        self.end_domains(k);
        self.end_groups(k);
        self.end_rates(k);
        self.end_reservations(k);
        self.exit(k, c"unregistered from user space");
        // SAFETY: takes no arguments.
        let left = self
            .scheduler
            .sets_left
            .map_or(0, |count| unsafe { count() });
        let detail = if left > 0 {
            format!("{left} groups or domains are left at the end")
        } else {
            Arena::leak(k.tasks.len())?
        };
        Some(Violation {
            at_ns: k.now_ns,
            rule: "leak",
            detail,
            state: Vec::new(),
        })
    }

    fn dump(&mut self, k: &mut Kernel) -> Vec<String> {
        self.describe(k)
    }
}
