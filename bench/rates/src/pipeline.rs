// SPDX-License-Identifier: MIT OR Apache-2.0
//! Films, each through a pipeline of threads and a display server: how far from its time each frame was handed to the
//! server (FDTE-S), and shown by it, as far as can be seen from outside: when the server blocked for the first time
//! afterwards (FDTE-C). (003 sections 4.1 to 4.4)

use crate::command::{needed, said};
use crate::display_server::DisplayServer;
use crate::heavy::{Heavy, Progress};
use crate::loops::{least, Loops};
use crate::promise::{Division, Part, Prepared};
use crate::tracefs::{Events, Occurrence};
use clap::{Args, ValueEnum};
use consort_bench_player::error::Error;
use consort_bench_player::processes::{spawn, Child};
use consort_bench_player::statistics::Distribution;
use consort_sim::random::Random;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Command;

/// From the trigger to the first frame: it is prepared meanwhile.
const FIRST_MS: f64 = 100.0;
/// How long the display thread, and then the server, may have the CPU for a frame.
const SHOW_MS: u32 = 4;
const SERVER_MS: u32 = 3;

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
    /// What each film's group reserves; without groups, what its program has been promised
    #[arg(long)]
    promised: Option<Part>,
    /// One loop for each of these
    #[arg(long, value_delimiter = ',')]
    beside: Vec<Part>,
    /// So many at once, each with a display server of its own
    #[arg(long, default_value_t = 1)]
    films: usize,
    /// Stages between reading and display
    #[arg(long, default_value_t = 0)]
    transforms: u32,
    /// Of each film
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
    /// Of all films.
    frames: usize,
    shown: usize,
    /// Those that the server had shown before the next one was due.
    in_time: usize,
    /// Whether the displays' times were those of a plan.
    by_plan: bool,
    submission: Distribution,
    completion: Distribution,
    /// Of each frame, in us.
    submission_us: Vec<u64>,
    completion_us: Vec<u64>,
    /// Of the loops beside it.
    others: Vec<Other>,
    /// What the heavy load did meanwhile.
    heavy: Option<Progress>,
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

/// What consort-pipeline writes of a frame.
#[derive(Deserialize)]
struct Frame {
    due_ns: u64,
    submitted_ns: u64,
}

/// How far from their times frames were.
#[derive(Default)]
struct Errors {
    submission_ns: Vec<u64>,
    /// Where the server blocked afterwards at all.
    completion_ns: Vec<u64>,
}

/// One film: the program's and its group's name, what the program writes, and its display server.
struct Film {
    name: String,
    log: PathBuf,
    server: DisplayServer,
}

/// What all films' programs read.
struct Files {
    schedule: PathBuf,
    arrivals: PathBuf,
}

pub fn run(options: Options, consort: Option<&str>) -> Result<Shown, Error> {
    let promised = options.promised.iter().cycle().take(options.films);
    let promises: Vec<Part> = promised.chain(&options.beside).cloned().collect();
    let first_loop = promises.len() - options.beside.len();
    let prepared = options.division.prepare(&promises)?;
    let worth = options.division.effective(&promises, options.heavy);
    let files = write_files(&options)?;
    let films = open_films(&options, &prepared, consort, &files)?;
    let loops = Loops::start(&prepared, first_loop, options.beside.len())?;
    let heavy = match options.heavy {
        true => Some(Heavy::start(&prepared)?),
        false => None,
    };
    let blocked = Events::note("sched/sched_switch", Some(&blocks(&films)))?;
    let playing = (0..films.len())
        .map(|number| play(&options, &prepared, &files, &films[number], number))
        .collect::<Result<Vec<_>, _>>()?;
    let (shown, windows) = loops.watched(|| playing.into_iter().try_for_each(Child::wait))?;
    shown?;
    let heavy = heavy.map(Heavy::end).transpose()?;
    let others = (0..options.beside.len())
        .map(|number| Other {
            worth: worth[first_loop + number],
            least: least(&windows, number),
        })
        .collect();
    let shown = evaluate(options, &films, &blocked.occurrences()?, others)?;
    Ok(Shown { heavy, ..shown })
}

fn evaluate(
    options: Options,
    films: &[Film],
    blocked: &[Occurrence],
    others: Vec<Other>,
) -> Result<Shown, Error> {
    let period_ns = (1e9 / options.pace) as u64;
    let (mut errors, mut by_plan) = (Errors::default(), true);
    for film in films {
        let (frames, its_by_plan) = read_log(&film.log)?;
        let of_server: Vec<u64> = blocked
            .iter()
            .filter(|one| one.tid == film.server.id())
            .map(|one| one.at_us)
            .collect();
        errors.add(&frames, &of_server);
        by_plan &= its_by_plan;
    }
    let in_us = |all: &[u64]| all.iter().map(|ns| ns / 1000).collect();
    Ok(Shown {
        frames: options.frames * films.len(),
        shown: errors.submission_ns.len(),
        in_time: errors
            .completion_ns
            .iter()
            .filter(|ns| **ns < period_ns)
            .count(),
        by_plan,
        submission_us: in_us(&errors.submission_ns),
        completion_us: in_us(&errors.completion_ns),
        submission: Distribution::of_ns(errors.submission_ns),
        completion: Distribution::of_ns(errors.completion_ns),
        others,
        heavy: None,
        options,
    })
}

impl Errors {
    fn add(&mut self, frames: &[Frame], blocked_us: &[u64]) {
        for frame in frames {
            self.submission_ns
                .push(frame.submitted_ns.abs_diff(frame.due_ns));
            let next = blocked_us.partition_point(|&us| us * 1000 < frame.submitted_ns);
            if let Some(us) = blocked_us.get(next) {
                self.completion_ns.push((us * 1000).abs_diff(frame.due_ns));
            }
        }
    }
}

/// What the kernel is to note: that a display server goes to sleep.
fn blocks(films: &[Film]) -> String {
    let any: Vec<String> = films
        .iter()
        .map(|film| format!("prev_pid == {}", film.server.id()))
        .collect();
    format!("({}) && prev_state & 1", any.join(" || "))
}

fn write_files(options: &Options) -> Result<Files, Error> {
    let folder = std::env::temp_dir();
    let files = Files {
        schedule: folder.join("frames.csv"),
        arrivals: folder.join("arrivals.csv"),
    };
    write(&files.schedule, &schedule_of(options))?;
    if let Some(jitter_ms) = options.jitter_ms {
        write(&files.arrivals, &arrivals_of(options, jitter_ms))?;
    }
    Ok(files)
}

/// The films' servers are started, and their groups put in force.
fn open_films(
    options: &Options,
    prepared: &Prepared,
    consort: Option<&str>,
    files: &Files,
) -> Result<Vec<Film>, Error> {
    let mut films = Vec::new();
    for number in 0..options.films {
        let name = format!("film-{number}");
        // As a member the server is found by its name: two of them differ in nothing else.
        let command = match options.control {
            Control::Server => {
                let mut command = Command::new(needed(consort)?);
                command.args(["run", "--name", &format!("{name}-x"), "--"]);
                command.arg(&options.server);
                command
            }
            _ => Command::new(&options.server),
        };
        prepared.take_none()?;
        films.push(Film {
            log: std::env::temp_dir().join(format!("{name}.json")),
            server: DisplayServer::start(command, number)?,
            name,
        });
    }
    if options.control != Control::None {
        for film in &films {
            apply(needed(consort)?, options, film, &files.schedule)?;
        }
    }
    Ok(films)
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

fn group_of(options: &Options, film: &Film) -> Result<String, Error> {
    let reserved = options.promised.as_ref().ok_or_else(|| {
        Error::Usage("a group needs --promised, as in --promised guaranteed=0.4".into())
    })?;
    let name = &film.name;
    let transforms: String = (1..=options.transforms)
        .map(|number| format!("\"{name}-transform-{number}\", "))
        .collect();
    let server = match options.control {
        Control::Server => format!(
            ", {{ name = \"{name}-x\", follows = \"{name}-show\", at_most = \"{SERVER_MS}ms\" }}"
        ),
        _ => String::new(),
    };
    Ok(format!(
        "[group.{name}]\nfunction = \"pipeline\"\nclass = \"{}\"\nrate = {}\nperiod = \"{}us\"\n\
         high = 8\nbootstrap = 4\nstate = {{ queued = 0 }}\ncontrol = {{ begins = 0, ends = 0, missed = 0 }}\n\
         members = [\"{name}-read\", {transforms}{{ name = \"{name}-show\", interval = \"{SHOW_MS}ms\" }}{server}]\n",
        reserved.class,
        reserved.rate,
        (1e6 / options.pace) as u64,
    ))
}

fn apply(consort: &str, options: &Options, film: &Film, schedule: &Path) -> Result<(), Error> {
    let file = std::env::temp_dir().join(format!("{}.toml", film.name));
    write(&file, &group_of(options, film)?)?;
    said(Command::new(consort).arg("apply").arg(&file))?;
    let show = format!("{}-show", film.name);
    said(
        Command::new(consort)
            .args(["plan", "load"])
            .arg(schedule)
            .args(["--member", &show]),
    )
    .map(drop)
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text)
        .map_err(|source| Error::io(format!("write {}", path.display()), source))
}

/// Starts the program of film `number`.
fn play(
    options: &Options,
    prepared: &Prepared,
    files: &Files,
    film: &Film,
    number: usize,
) -> Result<Child<()>, Error> {
    let [program, video] = &options.command[..] else {
        return Err(Error::Usage(
            "expected a program and a film after --".into(),
        ));
    };
    let timing = match options.control {
        Control::None => "self",
        _ => "plan",
    };
    // Without a group the program itself has what was promised.
    let takes = options.control == Control::None && options.promised.is_some();
    let mut command = Command::new(program);
    command
        .env("DISPLAY", film.server.display())
        .args(["--output", "x11", "--timing", timing, "--name", &film.name])
        .args(["--transforms", &options.transforms.to_string()])
        .arg("--schedule")
        .arg(&files.schedule)
        .arg("--log")
        .arg(&film.log);
    if options.jitter_ms.is_some() {
        command.arg("--arrivals").arg(&files.arrivals);
    }
    command.arg(video);
    spawn(move || {
        if takes {
            prepared.take(number)?;
        } else {
            prepared.take_none()?;
        }
        said(&mut command).map(drop)
    })
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
        let mut errors = Errors::default();
        errors.add(&frames, &[1400, 2000, 4000, 6000]);
        assert_eq!(errors.submission_ns, [500_000, 1_000_000, 0]);
        // Nobody saw the server block after the last one.
        assert_eq!(errors.completion_ns, [1_000_000, 1_000_000]);
    }
}
