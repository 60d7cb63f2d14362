// SPDX-License-Identifier: MIT OR Apache-2.0
//! A film through a pipeline of threads and a display server: how far from its time each frame was handed to the server
//! (FDTE-S), and shown by it, as far as can be seen from outside: when the server blocked for the first time afterwards
//! (FDTE-C). (003 sections 4.1 to 4.4)

use crate::command::{needed, said};
use crate::cpu_time::CpuClock;
use crate::heavy::Heavy;
use crate::promise::{Division, Part, Prepared};
use crate::tracefs::Events;
use clap::{Args, ValueEnum};
use consort_bench_player::clock::{now_ns, NS_PER_MS};
use consort_bench_player::error::Error;
use consort_bench_player::processes::{kill_all, spawn, Child};
use consort_bench_player::statistics::Distribution;
use consort_bench_player::work::burn_ns;
use consort_sim::random::Random;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const DISPLAY: &str = ":7";
const DISPLAY_SOCKET: &str = "/tmp/.X11-unix/X7";
const SCREEN: &str = "640x480x24";
const DISPLAY_PATIENCE: Duration = Duration::from_secs(60);
/// From the trigger to the first frame: it is prepared meanwhile.
const FIRST_MS: f64 = 100.0;
/// How long the display thread, and then the server, may have the CPU for a frame.
const SHOW_MS: u32 = 4;
const SERVER_MS: u32 = 3;
/// How many windows of a second pass before others' parts count: starting is not what is measured.
const WARMUP_WINDOWS: usize = 2;

/// Which threads the group has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Control {
    /// No group: the display sleeps until a frame is due (003: ST)
    None,
    /// Those of the pipeline (003: RD, RTD)
    Threads,
    /// The display server, too (003: RDX, RTDX)
    Server,
}

#[derive(Args, Serialize)]
pub struct Options {
    #[command(flatten)]
    division: Division,
    #[arg(long, value_enum)]
    control: Control,
    /// What the group reserves; without a group, what the program has been promised
    #[arg(long)]
    promised: Option<Part>,
    /// One loop for each of these
    #[arg(long, value_delimiter = ',')]
    beside: Vec<Part>,
    /// Stages between reading and display
    #[arg(long, default_value_t = 0)]
    transforms: u32,
    #[arg(long)]
    frames: usize,
    /// Frames a second
    #[arg(long, default_value_t = 24.0)]
    pace: f64,
    /// Frames arrive as over a network: each up to so much later than its pace says
    #[arg(long)]
    jitter_ms: Option<f64>,
    /// Compiles, copies and writes beside it
    #[arg(long)]
    heavy: bool,
    /// The display server, an Xvfb
    #[arg(long)]
    server: PathBuf,
    /// consort-pipeline, and the film
    #[arg(last = true, required = true, num_args = 2)]
    command: Vec<String>,
}

#[derive(Serialize)]
pub struct Shown {
    frames: usize,
    shown: usize,
    /// Whether the display's times were those of a plan.
    by_plan: bool,
    submission: Distribution,
    completion: Distribution,
    /// Of each frame, in us.
    submission_us: Vec<u64>,
    completion_us: Vec<u64>,
    /// Of the loops beside it.
    others: Vec<Other>,
    options: Options,
}

/// A loop that has been promised something.
#[derive(Serialize)]
struct Other {
    /// What the promise is worth while all want the CPU, as a part of it.
    worth: f64,
    /// The least that it had in a second.
    least: f64,
}

/// What the program reads and writes.
struct Files {
    schedule: PathBuf,
    arrivals: PathBuf,
    log: PathBuf,
}

/// What consort-pipeline writes of a frame.
#[derive(Deserialize)]
struct Frame {
    due_ns: u64,
    submitted_ns: u64,
}

pub fn run(options: Options, consort: Option<&str>) -> Result<Shown, Error> {
    let promises: Vec<Part> = options
        .promised
        .iter()
        .chain(&options.beside)
        .cloned()
        .collect();
    let prepared = options.division.prepare(&promises)?;
    let worth = options.division.effective(&promises, options.heavy);
    let folder = std::env::temp_dir();
    let files = Files {
        schedule: folder.join("frames.csv"),
        arrivals: folder.join("arrivals.csv"),
        log: folder.join("frames.json"),
    };
    write(&files.schedule, &schedule_of(&options))?;
    if let Some(jitter_ms) = options.jitter_ms {
        write(&files.arrivals, &arrivals_of(&options, jitter_ms))?;
    }
    let server = Server::start(&options.server, &prepared)?;
    if options.control != Control::None {
        apply(needed(consort)?, &groups_of(&options)?, &files.schedule)?;
    }
    let first_loop = usize::from(options.promised.is_some());
    let loops = Loops::start(&prepared, first_loop, options.beside.len())?;
    let heavy = match options.heavy {
        true => Some(Heavy::start(&prepared)?),
        false => None,
    };
    let blocked = Events::note(
        "sched/sched_switch",
        Some(&format!("prev_pid == {} && prev_state & 1", server.0.id())),
    )?;
    let (shown, windows) = loops.watched(|| play(&options, &prepared, &files))?;
    shown?;
    drop(heavy);
    let blocked_us = blocked.times_us()?;
    let (frames, by_plan) = read_log(&files.log)?;
    let (submission, completion) = errors_ns(&frames, &blocked_us);
    let others = (0..options.beside.len())
        .map(|number| Other {
            worth: worth[first_loop + number],
            least: least(&windows, number),
        })
        .collect();
    let in_us = |all: &[u64]| all.iter().map(|ns| ns / 1000).collect();
    Ok(Shown {
        frames: options.frames,
        shown: frames.len(),
        by_plan,
        submission_us: in_us(&submission),
        completion_us: in_us(&completion),
        submission: Distribution::of_ns(submission),
        completion: Distribution::of_ns(completion),
        others,
        options,
    })
}

/// How far from its time each frame was submitted, and shown: the latter where the server blocked afterwards at all.
fn errors_ns(frames: &[Frame], blocked_us: &[u64]) -> (Vec<u64>, Vec<u64>) {
    let submission = frames
        .iter()
        .map(|frame| frame.submitted_ns.abs_diff(frame.due_ns))
        .collect();
    let completion = frames
        .iter()
        .filter_map(|frame| {
            let next = blocked_us.partition_point(|&us| us * 1000 < frame.submitted_ns);
            Some((blocked_us.get(next)? * 1000).abs_diff(frame.due_ns))
        })
        .collect();
    (submission, completion)
}

/// The schedule of the frames, which is the display's plan.
fn schedule_of(options: &Options) -> String {
    let between_ms = 1000.0 / options.pace;
    let mut text = "delay_ms,length_ms\n".to_owned();
    for frame in 0..options.frames {
        let delay_ms = if frame == 0 { FIRST_MS } else { between_ms };
        text += &format!("{delay_ms:.6},{SHOW_MS}\n");
    }
    text
}

/// When each frame arrives. A frame that is overtaken waits for the one before it.
fn arrivals_of(options: &Options, jitter_ms: f64) -> String {
    let mut random = Random::new(1);
    let mut last_ms = 0.0_f64;
    let mut text = String::new();
    for frame in 0..options.frames {
        let at_ms = frame as f64 * 1000.0 / options.pace + jitter_ms * random.unit();
        let at_ms = at_ms.max(last_ms);
        text += &format!("{:.6}\n", at_ms - last_ms);
        last_ms = at_ms;
    }
    text
}

fn groups_of(options: &Options) -> Result<String, Error> {
    let reserved = options.promised.as_ref().ok_or_else(|| {
        Error::Usage("a group needs --promised, as in --promised guaranteed=0.4".into())
    })?;
    let transforms: String = (1..=options.transforms)
        .map(|number| format!("\"transform-{number}\", "))
        .collect();
    let server = match options.control {
        Control::Server => format!(
            ", {{ name = \"x\", follows = \"show\", at_most = \"{SERVER_MS}ms\", rule = {{ executable = \"{}\" }} }}",
            options.server.display()
        ),
        _ => String::new(),
    };
    Ok(format!(
        "[group.film]\nfunction = \"pipeline\"\nclass = \"{}\"\nrate = {}\nperiod = \"{}us\"\n\
         high = 8\nbootstrap = 4\nstate = {{ queued = 0 }}\ncontrol = {{ begins = 0, ends = 0, missed = 0 }}\n\
         members = [\"read\", {transforms}{{ name = \"show\", interval = \"{SHOW_MS}ms\" }}{server}]\n",
        reserved.class,
        reserved.rate,
        (1e6 / options.pace) as u64,
    ))
}

fn apply(consort: &str, groups: &str, schedule: &Path) -> Result<(), Error> {
    let file = std::env::temp_dir().join("film.toml");
    write(&file, groups)?;
    said(Command::new(consort).arg("apply").arg(&file))?;
    said(
        Command::new(consort)
            .args(["plan", "load"])
            .arg(schedule)
            .args(["--member", "show"]),
    )
    .map(drop)
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text)
        .map_err(|source| Error::io(format!("write {}", path.display()), source))
}

fn play(options: &Options, prepared: &Prepared, files: &Files) -> Result<(), Error> {
    let timing = if options.control == Control::None {
        "self"
    } else {
        "plan"
    };
    let [program, film] = &options.command[..] else {
        return Err(Error::Usage(
            "expected a program and a film after --".into(),
        ));
    };
    // Without a group the program itself has what was promised.
    let takes = options.control == Control::None && options.promised.is_some();
    let playing = spawn(|| {
        if takes {
            prepared.take(0)?;
        } else {
            prepared.take_none()?;
        }
        let mut command = Command::new(program);
        command
            .env("DISPLAY", DISPLAY)
            .args(["--output", "x11", "--timing", timing, "--transforms"])
            .arg(options.transforms.to_string())
            .arg("--schedule")
            .arg(&files.schedule)
            .arg("--log")
            .arg(&files.log);
        if options.jitter_ms.is_some() {
            command.arg("--arrivals").arg(&files.arrivals);
        }
        said(command.arg(film))
    })?;
    playing.wait().map(drop)
}

fn read_log(path: &Path) -> Result<(Vec<Frame>, bool), Error> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| Error::io(format!("read {}", path.display()), source))?;
    let (mut frames, mut by_plan) = (Vec::new(), false);
    for line in text.lines() {
        let value: serde_json::Value = serde_json::from_str(line).map_err(Error::Json)?;
        match value["type"].as_str() {
            Some("frame") => frames.push(serde_json::from_value(value).map_err(Error::Json)?),
            _ => by_plan = value["by_plan"] == true,
        }
    }
    Ok((frames, by_plan))
}

/// The display server; ends with this.
struct Server(std::process::Child);

impl Server {
    fn start(program: &Path, prepared: &Prepared) -> Result<Self, Error> {
        prepared.take_none()?;
        let child = Command::new(program)
            .args([DISPLAY, "-screen", "0", SCREEN, "-nolisten", "tcp"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|source| Error::io(format!("start {}", program.display()), source))?;
        let server = Self(child);
        let begun = std::time::Instant::now();
        while !Path::new(DISPLAY_SOCKET).exists() {
            if begun.elapsed() > DISPLAY_PATIENCE {
                return Err(Error::Usage(format!(
                    "{} did not open {DISPLAY_SOCKET} within {DISPLAY_PATIENCE:?}",
                    program.display()
                )));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // That it has ended already is no news.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Programs that always want the CPU, each with a promise; killed when this goes out of scope.
struct Loops(Vec<Child<()>>);

/// A reading: when, and the CPU time that each loop has had.
type Reading = (u64, Vec<u64>);

impl Loops {
    fn start(prepared: &Prepared, first: usize, number: usize) -> Result<Self, Error> {
        let mut loops = Self(Vec::new());
        for index in 0..number {
            loops.0.push(spawn(move || {
                prepared.take(first + index)?;
                loop {
                    burn_ns(NS_PER_MS);
                }
            })?);
        }
        Ok(loops)
    }

    /// Does the work, and reads meanwhile, about once a second, what the loops have had.
    fn watched<Done: Send>(
        &self,
        work: impl FnOnce() -> Done + Send,
    ) -> Result<(Done, Vec<Reading>), Error> {
        let clocks: Vec<CpuClock> = self
            .0
            .iter()
            .map(|one| CpuClock::of(one.pid))
            .collect::<Result<_, _>>()?;
        let ended = AtomicBool::new(false);
        let mut readings = Vec::new();
        let done = std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let done = work();
                ended.store(true, Ordering::Release);
                done
            });
            while !ended.load(Ordering::Acquire) {
                readings.push((now_ns(), clocks.iter().map(CpuClock::now_ns).collect()));
                std::thread::sleep(Duration::from_secs(1));
            }
            worker.join()
        });
        let done = done.map_err(|_| Error::Usage("playing panicked".into()))?;
        Ok((done, readings))
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        kill_all(self.0.drain(..));
    }
}

/// The least part of the CPU that a loop had between two readings; 0 if there were not enough of them.
fn least(readings: &[Reading], number: usize) -> f64 {
    let parts = readings.windows(2).skip(WARMUP_WINDOWS).map(|pair| {
        let (before, after) = (&pair[0], &pair[1]);
        (after.1[number] - before.1[number]) as f64 / (after.0 - before.0) as f64
    });
    parts.min_by(f64::total_cmp).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_shown_when_the_server_blocks_afterwards() {
        let frames =
            [(1000, 1500), (5000, 4000), (9000, 9000)].map(|(due_us, submitted_us)| Frame {
                due_ns: due_us * 1000,
                submitted_ns: submitted_us * 1000,
            });
        let (submission, completion) = errors_ns(&frames, &[1400, 2000, 4000, 6000]);
        assert_eq!(submission, [500_000, 1_000_000, 0]);
        // Nobody saw the server block after the last one.
        assert_eq!(completion, [1_000_000, 1_000_000]);
    }

    #[test]
    fn the_worst_window_counts() {
        let readings: Vec<Reading> = [(0, 0), (10, 0), (20, 0), (30, 5), (40, 7), (50, 12)]
            .map(|(at, had)| (at, vec![had]))
            .to_vec();
        assert_eq!(least(&readings, 0), 0.2);
    }
}
