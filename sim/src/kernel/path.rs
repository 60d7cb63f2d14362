// SPDX-License-Identifier: MIT OR Apache-2.0
//! A CPU's way: from interrupt to interrupt through the kernel, and back into the program.
//!
//! With several CPUs each has a stack, a fibre. A path that lets time pass is left there, and gone on with when its time
//! has come; meanwhile other CPUs run. With one CPU nobody else can go first, and there are no fibres.

use super::{Happening, Irq, Kernel};
use crate::setup::Cpu;
use crate::trace::What;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, Yielder};

const STACK_BYTES: usize = 128 * 1024;
/// A program that takes so many steps without using the CPU in between makes way for what has become due meanwhile.
const STEPS_MAX: u32 = 64;

pub(crate) struct Fibre {
    coroutine: Coroutine<*mut Kernel, (), ()>,
    yielder: *const Yielder<*mut Kernel, ()>,
}

impl Fibre {
    pub fn new(cpu: Cpu) -> std::io::Result<Self> {
        let stack = DefaultStack::new(STACK_BYTES)?;
        let coroutine = Coroutine::with_stack(stack, move |yielder, kernel: *mut Kernel| {
            let mut kernel = kernel;
            loop {
                // SAFETY: `resume_fibre` gives the kernel's address each time, and waits.
                let k = unsafe { &mut *kernel };
                k.fibre_of(cpu).yielder = yielder;
                k.path(cpu);
                kernel = yielder.suspend(());
            }
        });
        Ok(Self {
            coroutine,
            yielder: std::ptr::null(),
        })
    }
}

impl Drop for Fibre {
    fn drop(&mut self) {
        // SAFETY: what is on the stack owns nothing that must be dropped: ids and copies. Unwinding
        // is not possible through the scheduler's C.
        unsafe { self.coroutine.force_reset() };
    }
}

impl Kernel {
    fn fibre_of(&mut self, cpu: Cpu) -> &mut Fibre {
        match &mut self.cpus[cpu as usize].fibre {
            Some(fibre) => fibre,
            None => unreachable!("each CPU of several has a fibre"),
        }
    }

    /// Leaves the path; it goes on when a planned `Resume` is reached.
    pub(crate) fn suspend(&mut self) {
        let cpu = self.this_cpu;
        let yielder = self.fibre_of(cpu).yielder;
        // SAFETY: the yielder lives on the stack that we are on.
        unsafe { (*yielder).suspend(()) };
    }

    fn resume_fibre(&mut self, cpu: Cpu) {
        self.this_cpu = cpu;
        let kernel: *mut Kernel = self;
        let coroutine: *mut Coroutine<_, _, _> = &mut self.fibre_of(cpu).coroutine;
        // SAFETY: the fibre stays where it is for as long as its CPU's path runs; nothing else resumes it.
        unsafe { (*coroutine).resume(kernel) };
    }

    /// What was planned happens.
    pub(crate) fn happen(&mut self, what: Happening) {
        match what {
            Happening::Resume(cpu) => self.resume_fibre(cpu),
            Happening::WorkDone { cpu, generation } => {
                if self.cpus[cpu as usize].generation == generation {
                    self.enter(cpu);
                }
            }
            Happening::Interrupt(cpu, irq) => {
                if self.is_void(irq) {
                    return;
                }
                if irq == Irq::Tick && !self.online.has(cpu) {
                    self.cpus[cpu as usize].tick_armed = false;
                    return;
                }
                let cpu = self.route(cpu);
                self.cpus[cpu as usize].pending.push_back(irq);
                self.enter(cpu);
            }
        }
    }

    /// A timer that was stopped, or started again, does not interrupt anybody.
    fn is_void(&self, irq: Irq) -> bool {
        match irq {
            Irq::Wake { task, generation } => {
                self.tasks[task as usize].sleep_generation != generation
            }
            Irq::BpfTimer { number, generation } => {
                self.timer_generations[number as usize] != generation
            }
            _ => false,
        }
    }

    /// Interrupts of a CPU that has gone offline go to another one.
    fn route(&self, cpu: Cpu) -> Cpu {
        if self.online.has(cpu) {
            cpu
        } else {
            self.online.first().unwrap_or(0)
        }
    }

    /// Into the kernel, unless the CPU is there already and will look at what is pending by itself.
    fn enter(&mut self, cpu: Cpu) {
        let now_ns = self.now_ns;
        let state = &mut self.cpus[cpu as usize];
        if state.in_kernel {
            return;
        }
        state.in_kernel = true;
        state.generation = state.generation.wrapping_add(1);
        if let Some(task) = state.current {
            let worked_ns = now_ns - state.working_since_ns;
            let task = &mut self.tasks[task as usize];
            task.work_left_ns = task.work_left_ns.saturating_sub(worked_ns);
        }
        if self.concurrent {
            self.resume_fibre(cpu);
        } else {
            self.this_cpu = cpu;
            self.path(cpu);
        }
    }

    /// From an interrupt, or the end of a piece of work, to the next piece or to idling.
    fn path(&mut self, cpu: Cpu) {
        let index = cpu as usize;
        let mut steps = 0;
        while self.violation.is_none() && !self.stopping {
            self.cpus[index].pauses += 1;
            if let Some(irq) = self.cpus[index].pending.pop_front() {
                self.interrupted(cpu, irq);
                continue;
            }
            if !self.cpus[index].kicks.is_empty() {
                self.kick_work(cpu);
                continue;
            }
            if self.cpus[index].need_resched {
                self.schedule(cpu, true);
                continue;
            }
            let Some(task) = self.cpus[index].current else {
                break;
            };
            let left_ns = self.tasks[task as usize].work_left_ns;
            if left_ns == 0 && steps < STEPS_MAX {
                steps += 1;
                self.program_step(cpu, task);
                continue;
            }
            let state = &mut self.cpus[index];
            state.working_since_ns = self.now_ns;
            let generation = state.generation;
            self.queue.plan(
                self.now_ns + left_ns,
                Happening::WorkDone { cpu, generation },
            );
            break;
        }
        self.cpus[index].in_kernel = false;
    }

    fn interrupted(&mut self, cpu: Cpu, irq: Irq) {
        match irq {
            Irq::Resched => self.spend(self.costs.interrupt_ns / 2),
            Irq::Wake { task, generation } => {
                self.spend(self.costs.interrupt_ns);
                if self.tasks[task as usize].sleep_generation == generation {
                    self.wake(task, crate::ffi::SCX_WAKE_TTWU as u64);
                }
            }
            Irq::BpfTimer { number, .. } => {
                self.spend(self.costs.interrupt_ns);
                // The scheduler may have gone in the meantime, and its timers with it.
                if self.is_void(irq) {
                    return;
                }
                self.emit(What::TimerFired);
                let scheduler = self.scheduler();
                // SAFETY: the scheduler lives as long as the kernel.
                unsafe { (*scheduler).timer(self, number) };
            }
            Irq::Tick => self.tick(cpu),
            Irq::Action(index) => self.act(index),
            Irq::Daemon(errand) => self.as_daemon(|k| k.run_errand(errand)),
            Irq::Start(index) => self.start(index, None),
            Irq::MoveAway(task) => self.move_away(cpu, task),
            Irq::DaemonReturns => self.with_cpus_locked(Self::daemon_returns),
        }
    }

    fn tick(&mut self, cpu: Cpu) {
        self.cpus[cpu as usize].tick_armed = false;
        let Some(task) = self.cpus[cpu as usize].current else {
            return;
        };
        self.arm_tick(cpu);
        self.spend(self.costs.tick_ns);
        self.rq_lock(cpu);
        if self.cpus[cpu as usize].current == Some(task) && !self.tasks[task as usize].is_realtime()
        {
            self.update_current(cpu);
            if self.tasks[task as usize].enabled {
                let scheduler = self.scheduler();
                // SAFETY: as above.
                unsafe { (*scheduler).tick(self, cpu, task) };
            }
            if self.tasks[task as usize].c.scx.slice == 0 {
                self.resched(cpu);
            }
        }
        self.rq_unlock(cpu);
    }

    /// Busy CPUs tick, idle ones do not.
    pub(crate) fn arm_tick(&mut self, cpu: Cpu) {
        let period_ns = self.costs.tick_period_ns;
        let state = &mut self.cpus[cpu as usize];
        if state.tick_armed || period_ns == 0 {
            return;
        }
        state.tick_armed = true;
        // Ticks of different CPUs are apart.
        let offset_ns = period_ns * u64::from(cpu) / self.machine.cpus() as u64;
        let at_ns = (self.now_ns + period_ns - offset_ns) / period_ns * period_ns + offset_ns;
        let at_ns = if at_ns <= self.now_ns {
            at_ns + period_ns
        } else {
            at_ns
        };
        self.interrupt_at(cpu, at_ns, Irq::Tick);
    }
}
