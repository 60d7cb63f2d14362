// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processes of `consort sim explore`, and what they say.

use std::{
    env,
    io::{BufRead, BufReader},
    process::{Child, ChildStdout, Command, Stdio},
    sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender},
    thread,
    time::{Duration, Instant},
};

use super::{
    failure::SimFailure,
    worker::{BROKE, TRYING},
};

/// A scenario that takes longer hangs: the slowest take a second or two.
const HANGS_AFTER: Duration = Duration::from_secs(120);

/// A seed that did not go well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    pub seed: u64,
    /// The rule's name, or `crash` or `hang`.
    pub rule: String,
    pub detail: String,
}

/// What has happened.
pub enum News {
    /// One more scenario went well.
    Kept,
    Broke(Broken),
}

enum Line {
    Said(usize, String),
    Ended(usize),
}

struct Worker {
    child: Child,
    /// What it runs, and since when.
    trying: Option<(u64, Instant)>,
    broke: bool,
    has_ended: bool,
}

/// See the module. Processes end when this is dropped.
pub struct Workers {
    workers: Vec<Worker>,
    lines: Receiver<Line>,
}

impl Workers {
    /// Starts `jobs` processes that share the seeds from `first`, `count` of them.
    pub fn start(first: u64, count: u64, jobs: u64) -> Result<Self, SimFailure> {
        let program = env::current_exe().map_err(SimFailure::Worker)?;
        let (sender, lines) = channel();
        let mut all = Self {
            workers: Vec::new(),
            lines,
        };
        for number in 0..jobs.min(count) {
            let share = (count - number).div_ceil(jobs);
            let mut child = Command::new(&program)
                .args(["sim", "worker"])
                .args([first.wrapping_add(number), share, jobs].map(|it| it.to_string()))
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .map_err(SimFailure::Worker)?;
            if let Some(out) = child.stdout.take() {
                listen(all.workers.len(), out, sender.clone());
            }
            all.workers.push(Worker {
                child,
                trying: None,
                broke: false,
                has_ended: false,
            });
        }
        Ok(all)
    }

    /// The next news, if there are any within `patience`; none after the last process has ended.
    pub fn next(&mut self, patience: Duration) -> Option<News> {
        let end = Instant::now() + patience;
        while self.workers.iter().any(|worker| !worker.has_ended) {
            let left = end.saturating_duration_since(Instant::now());
            let news = match self.lines.recv_timeout(left) {
                Ok(Line::Said(worker, line)) => self.hear(worker, &line),
                Ok(Line::Ended(worker)) => self.bury(worker),
                Err(RecvTimeoutError::Timeout) => return self.find_hanging(),
                Err(RecvTimeoutError::Disconnected) => return None,
            };
            if news.is_some() {
                return news;
            }
        }
        None
    }

    /// Whether all processes have ended.
    pub fn are_done(&self) -> bool {
        self.workers.iter().all(|worker| worker.has_ended)
    }

    fn hear(&mut self, worker: usize, line: &str) -> Option<News> {
        let worker = &mut self.workers[worker];
        let mut words = line.splitn(4, ' ');
        let (what, seed) = (words.next()?, words.next()?.parse().ok()?);
        match what {
            TRYING => {
                let went_well = worker.trying.is_some() && !worker.broke;
                worker.trying = Some((seed, Instant::now()));
                worker.broke = false;
                went_well.then_some(News::Kept)
            }
            BROKE => {
                worker.broke = true;
                Some(News::Broke(Broken {
                    seed,
                    rule: words.next()?.to_owned(),
                    detail: words.next().unwrap_or_default().to_owned(),
                }))
            }
            _ => None,
        }
    }

    /// A process has ended: after its last seed, or in the middle of one.
    fn bury(&mut self, worker: usize) -> Option<News> {
        let worker = &mut self.workers[worker];
        worker.has_ended = true;
        let status = worker.child.wait().ok()?;
        let (seed, _) = worker.trying?;
        if status.success() {
            return (!worker.broke).then_some(News::Kept);
        }
        Some(News::Broke(Broken {
            seed,
            rule: "crash".into(),
            detail: format!("the simulator ended with {status}"),
        }))
    }

    fn find_hanging(&mut self) -> Option<News> {
        let hangs = |worker: &&mut Worker| {
            let since = worker.trying.map(|(_, since)| since.elapsed());
            !worker.has_ended && since.is_some_and(|since| since > HANGS_AFTER)
        };
        let worker = self.workers.iter_mut().find(hangs)?;
        let (seed, _) = worker.trying.take()?;
        // Its end is then that of one that had nothing to do.
        let _ = worker.child.kill();
        let detail = format!("not done after {} s", HANGS_AFTER.as_secs());
        Some(News::Broke(Broken {
            seed,
            rule: "hang".into(),
            detail,
        }))
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            // Both fail if it has ended, which is what is wanted.
            let _ = worker.child.kill();
            let _ = worker.child.wait();
        }
    }
}

fn listen(worker: usize, out: ChildStdout, sender: Sender<Line>) {
    thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if sender.send(Line::Said(worker, line)).is_err() {
                return;
            }
        }
        // Nobody listens any more if this fails.
        let _ = sender.send(Line::Ended(worker));
    });
}
