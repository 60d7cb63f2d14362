// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's functions as the scheduler's C calls them: they find the kernel that called it.

use super::arena::Arena;
use crate::ffi::{consort_df_record, cpumask, rq, sim_host, task_struct};
use crate::kernel::{Kernel, Life};
use crate::setup::Cpu;
use crate::trace::{TaskId, What};
use std::cell::Cell;
use std::ffi::{c_char, c_void, CStr};
use std::sync::OnceLock;

thread_local! {
    static KERNEL: Cell<*mut Kernel> = const { Cell::new(std::ptr::null_mut()) };
}

/// The scheduler is about to be called on behalf of `k`.
pub(super) fn enter(k: &mut Kernel) {
    KERNEL.set(k);
}

fn kernel() -> &'static mut Kernel {
    // SAFETY: only called by the scheduler, which is only called after `enter`, while the caller has lent us
    // the kernel.
    unsafe { &mut *KERNEL.get() }
}

fn id_of(p: *const task_struct) -> TaskId {
    // SAFETY: the scheduler passes tasks that it got from us.
    unsafe { (*p).sim_task }
}

struct Table(sim_host);
// SAFETY: addresses of functions, and of fields of a kernel that only its own thread follows.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

/// The table for a kernel; its address stays good for ever.
pub(super) fn table(k: &Kernel) -> *const sim_host {
    static TABLE: OnceLock<std::sync::Mutex<Box<Table>>> = OnceLock::new();
    let table = TABLE.get_or_init(|| std::sync::Mutex::new(Box::new(Table(sim_host::default()))));
    let mut table = table
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    table.0 = sim_host {
        now_ns: &k.now_ns,
        this_cpu: &k.this_cpu,
        current_task: Some(current_task),
        sync: Some(sync),
        spin: Some(spin),
        task_from_pid: Some(task_from_pid),
        task_release: Some(task_release),
        next_task: Some(next_task),
        dsq_insert: Some(dsq_insert),
        task_set_slice: Some(task_set_slice),
        kick_cpu: Some(kick_cpu),
        task_cpu: Some(task_cpu),
        task_running: Some(task_running),
        select_cpu_dfl: Some(select_cpu_dfl),
        pick_idle_cpu: Some(pick_idle_cpu),
        reenqueue_local: Some(reenqueue_local),
        run_queue: Some(run_queue),
        error: Some(error),
        dump: Some(dump),
        arena_alloc: Some(arena_alloc),
        arena_free: Some(arena_free),
        irq_save: Some(irq_save),
        irq_restore: Some(irq_restore),
        timer_start: Some(timer_start),
        update_fails: Some(update_fails),
        answer: Some(answer),
    };
    &table.0
}

unsafe extern "C" fn current_task() -> *mut task_struct {
    let k = kernel();
    match k.current(k.this_cpu) {
        Some(task) => &mut *k.tasks[task as usize].c,
        None => &mut *k.idle_task,
    }
}

unsafe extern "C" fn sync() {
    let k = kernel();
    k.sync();
    enter(k);
}

unsafe extern "C" fn spin() {
    let k = kernel();
    k.spin();
    enter(k);
}

unsafe extern "C" fn task_from_pid(pid: i32) -> *mut task_struct {
    let k = kernel();
    let number = pid
        .checked_sub(1)
        .map_or(usize::MAX, |index| index as usize);
    let Some(Some(task)) = k.numbers.get(number).copied() else {
        return std::ptr::null_mut();
    };
    let index = task as usize;
    let fault = k.faults.lookup;
    let gone = match k.tasks.get(index).map(|task| task.life) {
        None | Some(Life::Dead) => true,
        // Its number may have been given back already.
        Some(Life::Ending) => k.random.chance(fault.max(0.3)),
        Some(_) => false,
    };
    if gone {
        return std::ptr::null_mut();
    }
    &mut *k.tasks[index].c
}

unsafe extern "C" fn next_task(from: u32) -> *mut task_struct {
    let mut tasks = kernel().tasks.iter_mut().skip(from as usize);
    tasks
        .find(|task| task.life != Life::Dead)
        .map_or(std::ptr::null_mut(), |task| &mut *task.c)
}

unsafe extern "C" fn task_release(_: *mut task_struct) {}

unsafe extern "C" fn dsq_insert(p: *mut task_struct, dsq: u64, slice: u64, flags: u64) {
    kernel().insert(id_of(p), dsq, slice, flags);
}

unsafe extern "C" fn task_set_slice(p: *mut task_struct, slice: u64) {
    kernel().set_slice(id_of(p), slice);
}

unsafe extern "C" fn kick_cpu(cpu: i32, flags: u64) {
    kernel().kick(cpu as Cpu, flags);
}

unsafe extern "C" fn task_cpu(p: *const task_struct) -> i32 {
    kernel().cpu_of(id_of(p)) as i32
}

/// task_running in ext.c is task_on_cpu: the task is the current one of its queue.
unsafe extern "C" fn task_running(p: *const task_struct) -> bool {
    let k = kernel();
    let task = id_of(p);
    k.current(k.cpu_of(task)) == Some(task)
}

unsafe extern "C" fn select_cpu_dfl(
    p: *mut task_struct,
    prev_cpu: i32,
    wake_flags: u64,
    is_idle: *mut bool,
) -> i32 {
    let (cpu, idle) = kernel().select_cpu_dfl(id_of(p), prev_cpu as Cpu, wake_flags);
    // SAFETY: the scheduler's own variable.
    unsafe { *is_idle = idle };
    cpu as i32
}

unsafe extern "C" fn pick_idle_cpu(allowed: *const cpumask, _: u64) -> i32 {
    // SAFETY: a mask of the kernel's.
    let allowed = unsafe { &*allowed };
    kernel()
        .pick_idle_cpu(allowed)
        .map_or(-16, |cpu| cpu as i32)
}

unsafe extern "C" fn reenqueue_local() -> u32 {
    let k = kernel();
    let count = k.reenqueue_local();
    enter(k);
    count
}

unsafe extern "C" fn run_queue(cpu: u32) -> *const rq {
    match kernel().cpus.get(cpu as usize) {
        Some(state) => &*state.rq,
        None => std::ptr::null(),
    }
}

unsafe extern "C" fn error(text: *const c_char) {
    // SAFETY: a string that lives until we return.
    let text = unsafe { CStr::from_ptr(text) };
    kernel().eject(text.to_string_lossy().into_owned());
}

unsafe extern "C" fn dump(line: *const c_char) {
    // SAFETY: as above.
    let line = unsafe { CStr::from_ptr(line) };
    let line = format!("    {}", line.to_string_lossy());
    kernel().dump.push(line);
}

unsafe extern "C" fn arena_alloc(pages: u32) -> *mut c_void {
    let k = kernel();
    let probability = k.faults.allocation;
    if k.random.chance(probability) {
        k.memory_failed = true;
        k.emit(What::Fault("allocation"));
        return std::ptr::null_mut();
    }
    Arena::allocate(pages).map_or(std::ptr::null_mut(), |at| at as *mut c_void)
}

unsafe extern "C" fn arena_free(at: *mut c_void, pages: u32) {
    if !Arena::free(at as usize, pages) {
        kernel().violate("double-free", format!("{pages} pages are given back twice"));
    }
}

unsafe extern "C" fn irq_save() {}

unsafe extern "C" fn irq_restore() {}

unsafe extern "C" fn timer_start(number: u32, at_ns: u64, _pinned: bool) -> bool {
    let k = kernel();
    let probability = k.faults.timer_fails;
    if k.random.chance(probability) {
        k.emit(What::Fault("timer_start"));
        return false;
    }
    k.start_timer(number, at_ns);
    true
}

unsafe extern "C" fn update_fails() -> bool {
    let k = kernel();
    let probability = k.faults.allocation;
    let fails = k.random.chance(probability);
    k.memory_failed |= fails;
    fails
}

unsafe extern "C" fn answer(user: u32, group: u64, record: *mut consort_df_record) {
    let k = kernel();
    // SAFETY: the scheduler's own map, of which each CPU has an entry.
    let record = unsafe { &mut *record };
    super::user::answer(k, user, group, record);
}
