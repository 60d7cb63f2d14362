// SPDX-License-Identifier: GPL-2.0-only
//! Looks on while whatever scheduler is in charge works: who waits for a CPU for long, and who has it meanwhile.

use std::{
    mem::{size_of, MaybeUninit},
    os::fd::AsFd,
    time::Duration,
};

use consort_trace::Reason;
use libbpf_rs::{
    query::{ProgInfoIter, ProgInfoQueryOptions},
    skel::{OpenSkel, Skel, SkelBuilder},
    Iter, Link, MapCore, MapFlags, MapHandle, OpenObject, RingBufferBuilder,
};

use crate::{
    kernel,
    late_skeleton::{
        shared::{late_counts, late_run, late_task, late_wait, LATE_FOUND, LATE_RUNS, LATE_WOKE},
        types::rodata,
        ConsortLateSkel, ConsortLateSkelBuilder, OpenConsortLateSkel,
    },
    log,
    skeleton::interface::{
        consort_reasons, CONSORT_REASON_BORROWED, CONSORT_REASON_DUE, CONSORT_REASON_RESERVED,
        CONSORT_REASON_SLICE, CPUS_MAX,
    },
    Error, Topology,
};

/// Somebody's time on a CPU.
#[derive(Debug, Clone)]
pub struct Run {
    pub from_ns: u64,
    pub to_ns: u64,
    /// Of that, what interrupts took.
    pub interrupted_ns: u64,
    /// Of the thread.
    pub tid: i32,
    pub pid: i32,
    pub command: String,
    pub reason: Reason,
}

/// How a wait began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Began {
    /// It lost the CPU.
    Lost,
    /// It had slept.
    Woke,
    /// It waited already when looking on began.
    Before,
}

/// A long wait.
#[derive(Debug, Clone)]
pub struct Wait {
    pub since_ns: u64,
    pub until_ns: u64,
    pub tid: i32,
    pub pid: i32,
    /// Where it waited.
    pub cpu: u32,
    pub began: Began,
    /// It still waited when looking on ended.
    pub goes_on: bool,
    pub command: String,
    /// On that CPU, newest first; those before the last ones are not remembered.
    pub runs: Vec<Run>,
}

/// All waits of a thread.
#[derive(Debug, Clone)]
pub struct Waits {
    pub tid: i32,
    pub pid: i32,
    pub command: String,
    pub number: u64,
    pub sum_ns: u64,
    pub max_ns: u64,
    /// Those that were long.
    pub long: u64,
}

/// What was seen of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen {
    pub switches: u64,
    /// Long waits for which there was no room.
    pub unseen: u64,
    /// Records of a trace for which there was no room.
    pub unrecorded: u64,
}

/// What to look at.
#[derive(Debug, Clone, Copy)]
pub struct LateOptions {
    /// A wait of so long is long.
    pub long_ns: u64,
    /// Only this process' threads; 0: everybody's.
    pub pid: i32,
}

/// Tracing that is attached; dropping it ends that.
pub struct Late {
    skeleton: ConsortLateSkel<'static>,
}

impl Late {
    /// Begins to look on.
    ///
    /// # Errors
    /// See [`Error`]: not root, a kernel without BTF.
    pub fn start(options: LateOptions) -> Result<Late, Error> {
        let skeleton = attach(|rodata| {
            rodata.long_ns = options.long_ns;
            rodata.only_tgid = options.pid;
        })?;
        for_each_task(skeleton.links.find_waiting.as_ref())?;
        Ok(Late { skeleton })
    }

    /// Hands the long waits of about the next `time` to `take`.
    ///
    /// # Errors
    /// When the kernel's buffer cannot be read.
    pub fn watch(&self, time: Duration, mut take: impl FnMut(Wait)) -> Result<(), Error> {
        let failed = |error: libbpf_rs::Error| Error::Load {
            doing: "read what was seen",
            detail: format!("{error:#}"),
        };
        let Late { skeleton } = self;
        let mut builder = RingBufferBuilder::new();
        let waits = &skeleton.maps.waits;
        let add = builder.add(waits, |bytes: &[u8]| {
            if let Some(wait) = parse(bytes) {
                take(wait);
            }
            0
        });
        add.map_err(failed)?;
        let buffer = builder.build().map_err(failed)?;
        let end = std::time::Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                break;
            }
            match buffer.poll(left.min(Duration::from_millis(200))) {
                Ok(()) => {}
                Err(error) if error.kind() == libbpf_rs::ErrorKind::Interrupted => break,
                Err(error) => return Err(failed(error)),
            }
        }
        for_each_task(skeleton.links.tell_waiting.as_ref())?;
        buffer.consume().map_err(failed)
    }

    /// Every thread that has waited so far.
    pub fn tasks(&self) -> Vec<Waits> {
        let tasks = &self.skeleton.maps.tasks;
        let read = |key: Vec<u8>| {
            let value = tasks.lookup(&key, MapFlags::ANY).ok().flatten()?;
            let tid = i32::from_ne_bytes(key.try_into().ok()?);
            let task: late_task = read_struct(&value)?;
            Some(Waits {
                tid,
                pid: task.tgid,
                command: text(&task.comm),
                number: task.waits,
                sum_ns: task.sum_ns,
                max_ns: task.max_ns,
                long: task.over,
            })
        };
        tasks.keys().filter_map(read).collect()
    }

    pub fn seen(&self) -> Seen {
        Seen::of(&self.skeleton)
    }
}

impl Seen {
    pub(crate) fn of(skeleton: &ConsortLateSkel<'_>) -> Seen {
        let mut seen = Seen::default();
        let Some(counts) = skeleton.maps.bss_counts_data.as_deref() else {
            return seen;
        };
        let counts = std::ptr::from_ref(counts).cast::<late_counts>();
        let entries = skeleton.maps.bss_counts.value_size() as usize / size_of::<late_counts>();
        for cpu in 0..entries {
            // SAFETY: so many are mapped, and the kernel writes them; volatile, so that each call looks.
            let cpu = unsafe { std::ptr::read_volatile(counts.add(cpu)) };
            seen.switches += cpu.switches;
            seen.unseen += cpu.unseen;
            seen.unrecorded += cpu.unrecorded;
        }
        seen
    }
}

/// Loads and attaches what looks on, for this module and for traces. `set`: what is constant for it.
pub(crate) fn attach(set: impl FnOnce(&mut rodata)) -> Result<ConsortLateSkel<'static>, Error> {
    if !kernel::is_privileged() {
        return Err(Error::NotPermitted);
    }
    log::capture();
    // The skeleton borrows this for as long as the process lives.
    let object: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
    let explain = |error: libbpf_rs::Error| Error::Load {
        doing: "look on",
        detail: format!("{error:#}\n{}", log::take()),
    };
    let mut open = ConsortLateSkelBuilder::default()
        .open(object)
        .map_err(explain)?;
    let topology = Topology::read()?;
    let cpus = topology.shard_of_cpu.len() as u32;
    if cpus > CPUS_MAX {
        return Err(Error::TooManyCpus {
            cpus: cpus as usize,
            cpus_max: CPUS_MAX,
        });
    }
    let reasons = scheduler_reasons();
    // The scheduler may have been loaded when fewer CPUs were there.
    let entries = reasons.as_ref().map_or(topology.cpu_mask() + 1, |map| {
        map.value_size() / size_of::<consort_reasons>() as u32
    });
    if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
        rodata.cpu_mask = entries - 1;
        set(rodata);
    }
    size_by_cpus(&mut open, entries, reasons).map_err(explain)?;
    let mut skeleton = open.load().map_err(explain)?;
    skeleton.attach().map_err(explain)?;
    Ok(skeleton)
}

/// Lets a program go through all tasks, to which it is attached.
fn for_each_task(program: Option<&Link>) -> Result<(), Error> {
    let failed = |detail: String| Error::Load {
        doing: "go through all tasks",
        detail,
    };
    let program = program.ok_or_else(|| failed("the program is not attached".to_owned()))?;
    let mut tasks = Iter::new(program).map_err(|error| failed(format!("{error:#}")))?;
    // It prints nothing: reading is what makes it go.
    std::io::copy(&mut tasks, &mut std::io::sink()).map_err(|error| failed(error.to_string()))?;
    Ok(())
}

/// Memory is taken for the CPUs that there is room for; what the scheduler has, for as many, is shared.
fn size_by_cpus(
    open: &mut OpenConsortLateSkel<'_>,
    entries: u32,
    reasons: Option<MapHandle>,
) -> Result<(), libbpf_rs::Error> {
    let reasons_bytes = entries * size_of::<consort_reasons>() as u32;
    open.maps.logs.set_max_entries(entries)?;
    open.maps
        .bss_counts
        .set_value_size(entries * size_of::<late_counts>() as u32)?;
    match reasons {
        Some(reasons) => open.maps.data_reasons.reuse_fd(reasons.as_fd()),
        None => open.maps.data_reasons.set_value_size(reasons_bytes),
    }
}

/// The map of the loaded scheduler; its program leads there, as others may have maps of that name.
fn scheduler_reasons() -> Option<MapHandle> {
    // As much of the names as the kernel keeps.
    const PROGRAM: &str = "consort_dispatc";
    const MAP: &str = ".data.reasons";
    let options = ProgInfoQueryOptions::default().include_map_ids(true);
    let mut programs = ProgInfoIter::with_query_opts(options);
    let dispatch = programs.find(|program| program.name.to_string_lossy() == PROGRAM)?;
    let maps = dispatch
        .map_ids
        .iter()
        .filter_map(|id| MapHandle::from_map_id(*id).ok());
    // Of another version of Consort it may be another one.
    let is_whole = |bytes: u32| {
        let one = size_of::<consort_reasons>() as u32;
        bytes.is_multiple_of(one) && (bytes / one).is_power_of_two() && bytes / one <= CPUS_MAX
    };
    let is_it = |map: &MapHandle| map.name() == MAP && is_whole(map.value_size());
    maps.into_iter().find(is_it)
}

fn read_struct<T: Copy>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < size_of::<T>() {
        return None;
    }
    // SAFETY: for structs of integers and bytes, of which any bytes are a value; enough are there.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

fn parse(bytes: &[u8]) -> Option<Wait> {
    let wait: late_wait = read_struct(bytes)?;
    let number = (wait.nr_runs as usize).min(LATE_RUNS as usize);
    Some(Wait {
        since_ns: wait.since_ns,
        until_ns: wait.until_ns,
        tid: wait.pid,
        pid: wait.tgid,
        cpu: wait.cpu,
        began: match wait.began {
            LATE_WOKE => Began::Woke,
            LATE_FOUND => Began::Before,
            _ => Began::Lost,
        },
        goes_on: wait.goes_on != 0,
        command: text(&wait.comm),
        runs: wait.runs[..number].iter().map(run).collect(),
    })
}

fn run(run: &late_run) -> Run {
    /// The kernel's `MAX_RT_PRIO`.
    const REAL_TIME_BELOW: i32 = 100;
    let reason = match (run.pid, run.priority, run.reason) {
        (0, _, _) => Reason::Idle,
        (_, ..0, _) => Reason::Deadline,
        (_, 0..REAL_TIME_BELOW, _) => Reason::RealTime,
        (_, _, CONSORT_REASON_SLICE) => Reason::Slice,
        (_, _, CONSORT_REASON_DUE) => Reason::Due,
        (_, _, CONSORT_REASON_BORROWED) => Reason::Borrowed,
        (_, _, CONSORT_REASON_RESERVED) => Reason::Reserved,
        _ => Reason::Stock,
    };
    Run {
        from_ns: run.from_ns,
        to_ns: run.to_ns,
        interrupted_ns: run.interrupted_ns,
        tid: run.pid,
        pid: run.tgid,
        command: text(&run.comm),
        reason,
    }
}

fn text(bytes: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> = bytes
        .iter()
        .map(|byte| *byte as u8)
        .take_while(|byte| *byte != 0)
        .collect();
    String::from_utf8_lossy(&bytes)
        .chars()
        .filter(|c| !c.is_control())
        .collect()
}
