// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long a request about a reservation takes while 10 000 others are held: a storm of new ones, changes, refusals and
//! releases over the daemon's socket, its journal included; and how long it takes to lend and to take back. The scheduler behind it only nods, so that this runs on any
//! kernel. Prints one line of JSON.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Error, Read, Write},
    os::{fd::OwnedFd, unix::fs::DirBuilderExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
    time::{Duration, Instant},
};

use consort_abi::{
    consort_request, CONSORT_ABI_MAGIC, CONSORT_ABI_VERSION, CONSORT_LEND, CONSORT_RECOLLECT,
    CONSORT_RELEASE, CONSORT_RESERVE, CONSORT_RESERVE_THREAD,
};
use consort_daemon::{
    config::Division,
    ejection::Restarts,
    groups::host::GroupHost,
    limits::Limits,
    serve,
    wire::{self, ANSWER_BYTES_MAX, REPLY_BYTES},
    Config, Host,
};
use consort_kernel::{
    ClientPage, Counters, DomainLabel, ExitReport, JoinArgs, LeaveArgs, ReservationUsage, Terms,
    Thread, Tunables,
};
use consort_rates::ClassTable;
use nix::sys::socket::{connect, socket, AddressFamily, SockFlag, SockType, UnixAddr};

const HELD: usize = 10_000;
/// Processes, and threads of each: some more than are held.
const SLEEPERS: usize = 101;
const THREADS_EACH: usize = 100;
/// Each of them: a new reservation, a change, a refusal, a release.
const ROUNDS: usize = 2_500;
const PERIOD_NS: u64 = 30_000_000;
/// Millionths of a CPU: so small that all fit, and more than any class has.
const SMALL: u32 = 100;
const TOO_MUCH: u32 = 1_000_000;
/// Many reservations fit the first class; the second one has bounds.
const CLASSES: &str = "[class.many]\ncapacity = '50%'\noverbooking = 'unlimited'\n\
                       [class.few]\ncapacity = '10%'\n";
const STACK_BYTES: usize = 16 << 10;

/// A scheduler that agrees to everything.
struct Nodding {
    next: u32,
    ended: Arc<AtomicBool>,
}

type Answer<T> = Result<T, consort_kernel::Error>;

fn never<T>(doing: &'static str) -> Answer<T> {
    let errno = libc::ENOTSUP;
    Err(consort_kernel::Error::Refused { doing, errno })
}

impl GroupHost for Nodding {}

impl Host for Nodding {
    fn client_page(&mut self) -> Answer<ClientPage> {
        never("client_page")
    }

    fn release_client(&mut self, _client: u32) {}

    fn create_domain(&mut self, _label: &DomainLabel) -> Answer<u32> {
        never("create_domain")
    }

    fn destroy_domain(&mut self, _domain: u32) -> Answer<()> {
        never("destroy_domain")
    }

    fn join(&mut self, _args: JoinArgs) -> Answer<()> {
        never("join")
    }

    fn leave(&mut self, _args: LeaveArgs) -> Answer<()> {
        never("leave")
    }

    fn cpus(&self) -> u32 {
        1
    }

    fn set_classes(&mut self, _table: &ClassTable) -> Answer<()> {
        Ok(())
    }

    fn set_shortest_period(&mut self, _period_ns: u64) {}

    fn create_reservation(&mut self, _terms: Terms) -> Answer<u32> {
        self.next += 1;
        Ok(self.next)
    }

    fn change_reservation(&mut self, _reservation: u32, _terms: Terms) -> Answer<()> {
        Ok(())
    }

    fn add_to_reservation(&mut self, _reservation: u32, _thread: Thread) -> Answer<()> {
        Ok(())
    }

    fn adopt_cgroup(&mut self, _reservation: u32, _cgroup: u64) -> Answer<()> {
        never("adopt_cgroup")
    }

    fn end_reservation(&mut self, _reservation: u32) -> Answer<()> {
        Ok(())
    }

    fn reservation_usage(&self, _reservation: u32) -> Answer<ReservationUsage> {
        let (tasks, ran_ns) = (1, 0);
        Ok(ReservationUsage { tasks, ran_ns })
    }

    fn tunables(&self) -> Tunables {
        Tunables::default()
    }

    fn set_tunables(&mut self, _tunables: Tunables) -> Answer<()> {
        Ok(())
    }

    fn counters(&self) -> Answer<Counters> {
        Ok(Counters::new())
    }

    fn member_ends(&self) -> u64 {
        0
    }

    fn partial(&self) -> bool {
        false
    }

    fn exited(&self) -> Option<ExitReport> {
        let report = ExitReport {
            kind: 64,
            exit_code: 0,
            reason: "unregistered".to_owned(),
            message: String::new(),
            dump: String::new(),
        };
        self.ended.load(Ordering::Relaxed).then_some(report)
    }
}

struct Program(std::fs::File);

impl Program {
    fn connect(path: &Path) -> Result<Self, Error> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket: OwnedFd = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
        connect(
            std::os::fd::AsRawFd::as_raw_fd(&socket),
            &UnixAddr::new(path)?,
        )?;
        Ok(Program(socket.into()))
    }

    /// The errno of the answer, and how long it took.
    fn ask(
        &mut self,
        kind: u32,
        tid: i32,
        class: &str,
        rate: u32,
    ) -> Result<(i32, Duration), Error> {
        let mut request = consort_request {
            magic: CONSORT_ABI_MAGIC,
            version: CONSORT_ABI_VERSION as u16,
            type_: kind as u16,
            tid,
            order: rate,
            flags: if tid == 0 { 0 } else { CONSORT_RESERVE_THREAD },
            event_ns: PERIOD_NS,
            ..consort_request::default()
        };
        for (to, from) in request.domain.iter_mut().zip(class.bytes()) {
            *to = from as _;
        }
        let mut answer = vec![0; REPLY_BYTES + ANSWER_BYTES_MAX];
        let began = Instant::now();
        self.0.write_all(&wire::request_bytes(request))?;
        let length = self.0.read(&mut answer)?;
        let took = began.elapsed();
        let reply = wire::parse_reply(&answer[..length])
            .ok_or_else(|| Error::other("the daemon sent something that is no reply"))?;
        Ok((reply.error, took))
    }

    fn expect(&mut self, errno: i32, what: (u32, i32, &str, u32)) -> Result<Duration, Error> {
        let (kind, tid, class, rate) = what;
        let (error, took) = self.ask(kind, tid, class, rate)?;
        if error == errno {
            return Ok(took);
        }
        let text = format!("request {kind} for thread {tid}: errno {error}, expected {errno}");
        Err(Error::other(text))
    }
}

/// A process with threads that sleep until it is killed; it prints their numbers.
fn sleep(threads: usize) -> Result<(), Error> {
    for _ in 0..threads {
        std::thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn(|| {
                println!("{}", nix::unistd::gettid());
                loop {
                    std::thread::park();
                }
            })?;
    }
    loop {
        std::thread::park();
    }
}

/// Killed when they are dropped.
struct Sleepers(Vec<Child>);

impl Drop for Sleepers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts processes, and returns the numbers of their threads. Not one process: the kernel sums up all threads of one
/// whenever somebody looks at it.
fn sleepers() -> Result<(Sleepers, Vec<i32>), Error> {
    let mut sleepers = Sleepers(Vec::new());
    let mut threads = Vec::new();
    for _ in 0..SLEEPERS {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("sleep")
            .stdout(Stdio::piped())
            .spawn()?;
        let out = child.stdout.take();
        sleepers.0.push(child);
        let out = out.ok_or_else(|| Error::other("a child has no standard output"))?;
        for line in BufReader::new(out).lines().take(THREADS_EACH) {
            threads.push(line?.parse().map_err(Error::other)?);
        }
    }
    Ok((sleepers, threads))
}

/// Where the journal is: in memory, as /run is.
fn folder() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() {
        memory.to_path_buf()
    } else {
        std::env::temp_dir()
    };
    parent.join(format!("consort-admission-{}", std::process::id()))
}

/// By kind of request.
type Took = [(&'static str, Vec<Duration>); 4];

/// How long calls of credits took.
struct Credits {
    /// On the connection that the program has kept from its last one, as the library does.
    kept: Vec<Duration>,
    /// Of programs that call for the first time: connecting included.
    first: Vec<Duration>,
}

/// This process lends to one that has reserved, and takes it back.
fn lend(path: &Path, threads: &[i32]) -> Result<Credits, Error> {
    let mut program = Program::connect(path)?;
    program.expect(0, (CONSORT_RESERVE, 0, "many", 2 * SMALL))?;
    let mut took = Credits {
        kept: Vec::with_capacity(2 * ROUNDS),
        first: Vec::with_capacity(2 * ROUNDS),
    };
    for round in 0..ROUNDS {
        let to = threads[round * 7 % HELD];
        for (kind, rate) in [(CONSORT_LEND, SMALL), (CONSORT_RECOLLECT, 0)] {
            let what = (kind, to, "", rate);
            took.kept.push(program.expect(0, what)?);
        }
        for (kind, rate) in [(CONSORT_LEND, SMALL), (CONSORT_RECOLLECT, 0)] {
            let began = Instant::now();
            Program::connect(path)?.expect(0, (kind, to, "", rate))?;
            took.first.push(began.elapsed());
        }
    }
    Ok(took)
}

fn storm(program: &mut Program, threads: &[i32]) -> Result<Took, Error> {
    let (held, free) = threads.split_at(HELD);
    for tid in held {
        program.expect(0, (CONSORT_RESERVE, *tid, "many", SMALL))?;
    }
    let kinds = ["new", "changed", "refused", "released"];
    let mut took = kinds.map(|kind| (kind, Vec::with_capacity(ROUNDS)));
    for round in 0..ROUNDS {
        let (old, new) = (held[round * 7 % HELD], free[round % free.len()]);
        let other = SMALL + 1 + round as u32 % 2;
        let requests = [
            (0, (CONSORT_RESERVE, new, "many", SMALL)),
            (0, (CONSORT_RESERVE, old, "many", other)),
            (libc::ENOSPC, (CONSORT_RESERVE, old, "few", TOO_MUCH)),
            (0, (CONSORT_RELEASE, new, "", 0)),
        ];
        for ((_, took), (errno, what)) in took.iter_mut().zip(requests) {
            took.push(program.expect(errno, what)?);
        }
    }
    Ok(took)
}

fn measure(folder: &Path) -> Result<(Took, Credits), Error> {
    let classes = folder.join("classes.toml");
    std::fs::write(&classes, CLASSES)?;
    let config = Config {
        socket: folder.join("consort.sock"),
        limits: Limits {
            requests_per_s: u32::MAX,
            ..Limits::default()
        },
        division: Division::read(Some(&classes), 1).map_err(Error::other)?,
        classes: Some(classes),
        restarts: Restarts::default(),
        drops_privileges: false,
        replaces: false,
    };
    let (_sleepers, threads) = sleepers()?;
    let ended = Arc::new(AtomicBool::new(false));
    let (of_daemon, of_host) = (config.clone(), ended.clone());
    let load = move |_| -> Answer<Box<dyn Host>> {
        let ended = of_host.clone();
        Ok(Box::new(Nodding { next: 0, ended }))
    };
    let daemon = std::thread::spawn(move || serve(&of_daemon, load));
    let mut program = loop {
        match Program::connect(&config.socket) {
            Ok(program) => break program,
            Err(error) if daemon.is_finished() => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    let took = storm(&mut program, &threads).and_then(|storm| {
        let credits = lend(&config.socket, &threads)?;
        Ok((storm, credits))
    });
    ended.store(true, Ordering::Relaxed);
    // What it says about its end is not what was measured.
    let _ = daemon.join();
    took
}

fn main() -> Result<(), Error> {
    if std::env::args().nth(1).as_deref() == Some("sleep") {
        return sleep(THREADS_EACH);
    }
    let folder = folder();
    std::fs::DirBuilder::new().mode(0o700).create(&folder)?;
    let took = measure(&folder);
    let _ = std::fs::remove_dir_all(&folder);
    let (took, credits) = took?;
    let medians: BTreeMap<&str, f64> = took
        .iter()
        .map(|(kind, took)| (*kind, percentile_us(took, 50)))
        .collect();
    let all = took.map(|(_, took)| took).concat();
    println!(
        "{}",
        serde_json::json!({
            "held": HELD,
            "requests": all.len(),
            "p50_us": percentile_us(&all, 50),
            "p99_us": percentile_us(&all, 99),
            "max_us": percentile_us(&all, 100),
            "p50_us_by_kind": medians,
            "credit_p50_us": percentile_us(&credits.kept, 50),
            "credit_p99_us": percentile_us(&credits.kept, 99),
            "credit_first_p50_us": percentile_us(&credits.first, 50),
            "credit_first_p99_us": percentile_us(&credits.first, 99),
        })
    );
    Ok(())
}

/// Nearest rank.
fn percentile_us(took: &[Duration], percent: usize) -> f64 {
    let mut sorted = took.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted[rank - 1].as_secs_f64() * 1e6
}
