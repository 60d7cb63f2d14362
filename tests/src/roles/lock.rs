// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that wait for one another: for locks whose holder the kernel knows or does not, and for servers.

use std::{
    cell::UnsafeCell,
    mem::MaybeUninit,
    path::Path,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{channel, Receiver, Sender},
    },
    thread,
    time::Duration,
};

use consort::{now_ns, Error, Reservation, Train, NEVER};

use super::{argument, work_ns};
use crate::suite::{
    board::{Board, Field},
    client::gettid,
    machine::EXT_SERVER,
};

const MS: u64 = 1_000_000;

/// A pthread mutex, with priority inheritance or without.
pub(super) struct Lock(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a mutex is for being shared.
unsafe impl Sync for Lock {}

impl Lock {
    pub fn new(inherits: bool) -> Lock {
        let mut attributes = MaybeUninit::uninit();
        let mut mutex = MaybeUninit::uninit();
        let protocol = match inherits {
            true => libc::PTHREAD_PRIO_INHERIT,
            false => libc::PTHREAD_PRIO_NONE,
        };
        // SAFETY: each is initialised before it is used; the mutex is moved before anybody uses it, as glibc permits.
        unsafe {
            libc::pthread_mutexattr_init(attributes.as_mut_ptr());
            libc::pthread_mutexattr_setprotocol(attributes.as_mut_ptr(), protocol);
            libc::pthread_mutex_init(mutex.as_mut_ptr(), attributes.as_ptr());
            Lock(UnsafeCell::new(mutex.assume_init()))
        }
    }

    pub fn take(&self) {
        // SAFETY: initialised above.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
    }

    /// Whether it was had before so much time was over.
    fn take_within(&self, ns: u64) -> bool {
        let mut until = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `until` is valid; the mutex is initialised.
        unsafe {
            libc::clock_gettime(libc::CLOCK_REALTIME, &mut until);
            let ns = until.tv_nsec as u64 + ns;
            until.tv_sec += (ns / 1_000_000_000) as i64;
            until.tv_nsec = (ns % 1_000_000_000) as i64;
            libc::pthread_mutex_timedlock(self.0.get(), &until) == 0
        }
    }

    pub fn give_back(&self) {
        // SAFETY: as above; only its holder calls this.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }
}

/// CPU time that the calling thread has had.
pub(super) fn had_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Works until the thread has had so much CPU time.
pub(super) fn burn_ns(ns: u64) {
    let until_ns = had_ns() + ns;
    while had_ns() < until_ns {
        std::hint::spin_loop();
    }
}

pub(super) fn reserve(rate: f64) -> Result<(), String> {
    let wanted = Reservation::in_class("guaranteed").rate(rate);
    let reserved = wanted.for_thread(gettid() as u32).reserve();
    reserved.map_err(|error| format!("cannot reserve: {error}"))
}

/// `holder KIND ROUNDS`: in each round the main thread, which has not reserved, takes a lock and holds it for 5 ms of CPU
/// time, and a thread that has reserved wants it at once. KIND: `plain` or `inherits`. Extra is how long that waited, in
/// microseconds.
pub fn holder(board: &Board, arguments: &[&str]) -> Result<(), String> {
    let inherits = argument::<String>(arguments, 0)? == "inherits";
    let rounds = argument::<u32>(arguments, 1)?;
    let lock = Lock::new(inherits);
    let (held, wants) = channel::<()>();
    let (got, goes_on) = channel::<()>();
    let (lock, board) = (&lock, board);
    thread::scope(|scope| {
        let waiter = scope.spawn(move || -> Result<(), String> {
            reserve(0.3)?;
            board.set(Field::Ready, 1);
            while wants.recv().is_ok() {
                let since_ns = now_ns();
                lock.take();
                board.add(Field::Extra, (now_ns() - since_ns) / 1000);
                lock.give_back();
                board.add(Field::Work, 1);
                got.send(()).map_err(|error| error.to_string())?;
            }
            Ok(())
        });
        while board.get(Field::Ready) == 0 && !waiter.is_finished() {
            thread::sleep(Duration::from_millis(1));
        }
        for _ in 0..rounds {
            lock.take();
            // The other one runs now, until it waits.
            let told = held.send(());
            burn_ns(5 * MS);
            lock.give_back();
            if told.is_err() || goes_on.recv().is_err() {
                break;
            }
        }
        drop(held);
        waiter.join().unwrap_or(Err("the waiter panicked".into()))
    })
}

/// A request: what is to be ended when it is done, and who is to be told if that is no train.
type Request = (Option<&'static Train>, Sender<()>);

fn call(
    train: Option<&'static Train>,
    server: u32,
    requests: &Sender<Request>,
) -> Result<(), String> {
    let (tell, told) = channel();
    let text = |error: Error| error.to_string();
    if let Some(train) = train {
        train.begin(server).map_err(text)?;
    }
    requests
        .send((train, tell))
        .map_err(|error| error.to_string())?;
    match train {
        Some(train) => train.wait(NEVER).map_err(text),
        None => told.recv().map_err(|error| error.to_string()),
    }
}

fn serve(
    requests: &Receiver<Request>,
    mut work: impl FnMut() -> Result<(), String>,
) -> Result<(), String> {
    while let Ok((train, tell)) = requests.recv() {
        work()?;
        match train {
            Some(train) => train.end().map_err(|error| error.to_string())?,
            None => tell.send(()).map_err(|error| error.to_string())?,
        }
    }
    Ok(())
}

/// `served KIND CLIENTS NESTED`: so many threads, the first of which has reserved 0.3 and each other one 0.1, call the main
/// thread again and again, by `train` or a `plain` channel; that works for 2 ms of CPU time for each call, or calls another
/// thread that does if NESTED is 1. Neither server has reserved. Work counts calls that were answered, Extra the
/// microseconds that the first client's took.
pub fn served(board: &Board, arguments: &[&str]) -> Result<(), String> {
    let by_train = argument::<String>(arguments, 0)? == "train";
    let clients = argument::<u32>(arguments, 1)?;
    let nested = argument::<u32>(arguments, 2)? == 1;
    let this = gettid() as u32;
    let trains: Vec<Train> = (0..=clients).map(|_| Train::new()).collect();
    let trains: &'static [Train] = Vec::leak(trains);
    let (requests, asked) = channel();
    let (more_requests, more_asked) = channel();
    let (tell_second, second) = channel();
    thread::spawn(move || {
        let _ = tell_second.send(gettid() as u32);
        serve(&more_asked, || {
            burn_ns(2 * MS);
            Ok(())
        })
    });
    let second = second.recv().map_err(|error| error.to_string())?;
    thread::scope(|scope| {
        for client in 0..clients {
            let requests = requests.clone();
            let train = by_train.then_some(&trains[client as usize]);
            scope.spawn(move || -> Result<(), String> {
                reserve(if client == 0 { 0.3 } else { 0.1 })?;
                board.set(Field::Ready, 1);
                loop {
                    let since_ns = now_ns();
                    call(train, this, &requests)?;
                    if client == 0 {
                        board.add(Field::Extra, (now_ns() - since_ns) / 1000);
                    }
                    board.add(Field::Work, 1);
                }
            });
        }
        serve(&asked, || match nested {
            false => {
                burn_ns(2 * MS);
                Ok(())
            }
            true => call(
                by_train.then_some(&trains[clients as usize]),
                second,
                &more_requests,
            ),
        })
    })
}

/// `waits-for THREAD`: on command 1 begins a call to a thread that does not know of it, and waits for its end for ever.
pub fn waits_for(board: &Board, arguments: &[&str]) -> Result<(), String> {
    let server = argument::<u32>(arguments, 0)?;
    let train = Train::new();
    board.set(Field::Ready, 1);
    while board.get(Field::Command) == 0 {
        thread::sleep(Duration::from_millis(5));
    }
    train.begin(server).map_err(|error| error.to_string())?;
    board.set(Field::Done, 1);
    train.wait(NEVER).map_err(|error| error.to_string())
}

/// `calls`: what can go wrong with a call, in one process. Ends well if each is told as it should be.
pub fn calls(board: &Board, _: &[&str]) -> Result<(), String> {
    board.set(Field::Ready, 1);
    let expect = |what: &str, got: Result<(), Error>, errno: i32| match got {
        Err(error) if error.errno() == errno => Ok(()),
        other => Err(format!("{what}: {other:?}")),
    };
    let in_ms = |ms: u64| now_ns() + ms * MS;
    let text = |error: Error| error.to_string();
    let this = gettid() as u32;
    let train = Train::new();
    expect("to itself", train.begin(this), libc::EDEADLK)?;
    expect("to nobody", train.begin(0), libc::ESRCH)?;
    expect("the end of none", train.end(), libc::EPERM)?;
    train.wait(NEVER).map_err(text)?;

    // A server that ends.
    let ended = thread::spawn(gettid).join().map_err(|_| "a panic")? as u32;
    train.begin(ended).map_err(text)?;
    expect("a second one", train.begin(this + 1), libc::EBUSY)?;
    expect("to one that has ended", train.wait(NEVER), libc::ESRCH)?;
    thread::scope(|scope| -> Result<(), String> {
        let (tell, told) = channel();
        scope.spawn(move || {
            let _ = tell.send(gettid() as u32);
            thread::sleep(Duration::from_millis(100));
        });
        let server = told.recv().map_err(|error| error.to_string())?;
        train.begin(server).map_err(text)?;
        expect("to one that ends", train.wait(NEVER), libc::ESRCH)
    })?;

    // One that takes its time.
    let answers = &AtomicBool::new(false);
    thread::scope(|scope| -> Result<(), String> {
        let (tell, told) = channel();
        let late = &train;
        let server = scope.spawn(move || {
            let _ = tell.send(gettid() as u32);
            while !answers.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
            late.end()
        });
        let number = told.recv().map_err(|error| error.to_string())?;
        train.begin(number).map_err(text)?;
        expect("too early", train.wait(in_ms(20)), libc::ETIMEDOUT)?;
        expect("still too early", train.wait(0), libc::ETIMEDOUT)?;
        expect("not the server", train.end(), libc::EPERM)?;
        answers.store(true, Ordering::SeqCst);
        train.wait(NEVER).map_err(text)?;
        server.join().map_err(|_| "a panic")?.map_err(text)
    })?;

    // Two that wait for each other: one of them is told.
    let back = Train::new();
    let (there, here) = (&train, &back);
    thread::scope(|scope| -> Result<(), String> {
        let (tell, told) = channel();
        let other = scope.spawn(move || -> Result<bool, Error> {
            here.begin(this)?;
            let _ = tell.send(gettid() as u32);
            let met = matches!(here.wait(NEVER), Err(Error::Circle));
            there.end()?;
            Ok(met)
        });
        let number = told.recv().map_err(|error| error.to_string())?;
        there.begin(number).map_err(text)?;
        let met_here = match there.wait(NEVER) {
            Err(Error::Circle) => {
                here.end().map_err(text)?;
                true
            }
            outcome => outcome.map(|()| false).map_err(text)?,
        };
        let other = other.join().map_err(|_| "a panic")?;
        match (met_here, other) {
            (true, Err(Error::NotTheServer)) | (false, Ok(true)) => Ok(()),
            outcome => Err(format!("a circle: {outcome:?}")),
        }
    })
}

/// `lock-storm THREADS SEED`: threads take locks that inherit, one within another and in any order, give up after a
/// moment, name each other as servers, change their nice values and classes, fork, end. Work counts rounds.
pub fn storm(board: &Board, arguments: &[&str]) -> Result<(), String> {
    let threads = argument::<usize>(arguments, 0)?;
    let seed = argument::<u64>(arguments, 1)?;
    let locks: Vec<Lock> = (0..5).map(|_| Lock::new(true)).collect();
    let locks: &'static [Lock] = Vec::leak(locks);
    board.set(Field::Ready, 1);
    let known = std::sync::Mutex::new(Vec::new());
    let known = &known;
    thread::scope(|scope| {
        for number in 0..threads {
            scope.spawn(move || loop {
                let ended = thread::scope(|inner| {
                    inner
                        .spawn(|| {
                            upset(board, locks, known, seed * 1000 + number as u64 + now_ns())
                        })
                        .join()
                });
                if ended.is_err() {
                    board.add(Field::Errors, 1);
                }
            });
        }
    });
    Ok(())
}

/// The life of one of the storm's threads.
fn upset(board: &Board, locks: &[Lock], known: &std::sync::Mutex<Vec<u32>>, seed: u64) {
    let mut seed = seed | 1;
    let mut random = move |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    let this = gettid() as u32;
    if let Ok(mut known) = known.lock() {
        known.push(this);
        if known.len() > 20 {
            known.remove(0);
        }
    }
    for _ in 0..random(40) {
        board.add(Field::Work, 1);
        let outer = &locks[random(5) as usize];
        let inner = &locks[random(5) as usize];
        match random(8) {
            0 => {
                let server = known
                    .lock()
                    .map_or(0, |all| all[random(all.len() as u64) as usize]);
                let train = Train::new();
                if train.begin(server).is_ok() {
                    let _ = train.wait(now_ns() + random(5) * MS);
                }
            }
            1 => {
                // SAFETY: a thread's own nice value.
                unsafe { libc::setpriority(libc::PRIO_PROCESS, this, random(39) as i32 - 19) };
            }
            2 => {
                let policies = [libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_FIFO];
                set_policy(policies[random(3) as usize]);
            }
            _ if outer.take_within(random(4) * MS) => {
                work_ns(random(300_000));
                if inner.take_within(random(2) * MS) {
                    work_ns(random(100_000));
                    inner.give_back();
                }
                if random(3) == 0 {
                    thread::sleep(Duration::from_micros(random(2000)));
                }
                outer.give_back();
            }
            _ => {}
        }
    }
    // An owner that exits waits in the kernel, without a pause, for a waiter that is just giving up. Before Linux 7
    // nothing lets an ordinary waiter run beside a real-time owner: the machine would stand still.
    if !Path::new(EXT_SERVER).exists() {
        set_policy(libc::SCHED_OTHER);
    }
}

/// Sets the calling thread's policy, with the lowest priority where that is a real-time one.
fn set_policy(policy: libc::c_int) {
    let priority = libc::sched_param {
        sched_priority: i32::from(policy == libc::SCHED_FIFO),
    };
    // SAFETY: `priority` is valid; 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, policy, &priority) };
}
