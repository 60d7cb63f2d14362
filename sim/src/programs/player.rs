// SPDX-License-Identifier: MIT OR Apache-2.0
//! The adaptive video player of bench/player (player.rs, plain.rs, cooperative.rs), step by step the same: 24 due events
//! a second, frames of variable cost decoded in chunks, frames left out that cannot be made.

use super::client::Next;
use super::{At, Behaviour, Do};
use crate::profile::Profile;
use crate::setup::Player;
use crate::trace::What;
use std::collections::VecDeque;

const NS_PER_S: u64 = 1_000_000_000;
const FRAMES_PER_S: u64 = 24;
const FRAME_PERIOD_NS: u64 = NS_PER_S / FRAMES_PER_S;
const READY_FRAMES_MAX: usize = 4;
const SAFETY: f64 = 1.1;
const LEARNING_RATE: f64 = 0.2;
const PATIENCE_NS: u64 = 500_000_000;
const SHOW_NS: u64 = 65_000;
const KEY_PER_FRAME: u64 = 1 << 20;
/// What a turn of the loop costs beside its work: looking at the clock, deciding.
const TURN_NS: u64 = 1_000;

struct Decoding {
    frame: u64,
    cost_ns: u64,
    done_ns: u64,
    started_at_ns: u64,
}

enum Phase {
    Join,
    /// Sleeps until the first frame's period.
    Top,
    /// Due events are served; `at_ns` is when that began.
    Poll {
        at_ns: u64,
    },
    Decode,
}

pub(crate) struct Playing {
    player: Player,
    film: Profile,
    phase: Phase,
    next_due_frame: u64,
    next_undecided_frame: u64,
    decoding: Option<Decoding>,
    ready: VecDeque<u64>,
    frames_begun: u64,
    frames_done: u64,
    slowdown: f64,
}

impl Playing {
    pub fn new(player: &Player) -> Self {
        Self {
            film: Profile::new(player.seed, (player.load * FRAME_PERIOD_NS as f64) as u64),
            phase: Phase::Join,
            next_due_frame: 0,
            next_undecided_frame: 0,
            decoding: None,
            ready: VecDeque::new(),
            frames_begun: 0,
            frames_done: 0,
            slowdown: 1.0,
            player: player.clone(),
        }
    }

    fn due_of_ns(&self, frame: u64) -> u64 {
        self.player.first_due_ns + frame * NS_PER_S / FRAMES_PER_S
    }

    fn next_due_ns(&self) -> u64 {
        self.due_of_ns(self.next_due_frame)
    }

    /// Serves what is due; how long that takes.
    fn serve_due(&mut self, at: &mut At<'_>, now_ns: u64) -> u64 {
        let mut work_ns = 0;
        while self.next_due_ns() <= now_ns {
            let frame = self.next_due_frame;
            at.served(self.next_due_ns());
            let shown = self.ready.front() == Some(&frame);
            if shown {
                self.ready.pop_front();
            } else if self.decoding.as_ref().is_some_and(|it| it.frame == frame) {
                self.drop_frame(now_ns);
            }
            let task = at.task;
            at.k.emit(What::Frame { task, shown });
            self.next_due_frame += 1;
            work_ns += SHOW_NS;
        }
        work_ns
    }

    fn drop_frame(&mut self, now_ns: u64) {
        if let Some(dropped) = self.decoding.take() {
            let took_ns = (now_ns - dropped.started_at_ns) as f64;
            self.learn(took_ns / dropped.done_ns.max(1) as f64);
        }
    }

    fn learn(&mut self, slowdown: f64) {
        self.slowdown += LEARNING_RATE * (slowdown.max(1.0) - self.slowdown);
    }

    fn wants_cpu(&self) -> bool {
        self.decoding.is_some() || self.ready.len() < READY_FRAMES_MAX
    }

    fn progress_key(&self) -> u64 {
        let left = self.decoding.as_ref().map_or(KEY_PER_FRAME - 1, |it| {
            (it.cost_ns - it.done_ns) * (KEY_PER_FRAME - 1) / it.cost_ns.max(1)
        });
        self.frames_done * KEY_PER_FRAME + left
    }

    fn decode_chunk(&mut self, now_ns: u64) -> u64 {
        if self.decoding.is_none() {
            self.choose_frame(now_ns);
        }
        let Some(it) = self.decoding.as_mut() else {
            return 0;
        };
        let work_ns = self.player.chunk_ns.min(it.cost_ns - it.done_ns);
        it.done_ns += work_ns;
        work_ns
    }

    fn finish_chunk(&mut self, now_ns: u64) {
        let Some(done) = self.decoding.take_if(|it| it.done_ns >= it.cost_ns) else {
            return;
        };
        self.learn((now_ns - done.started_at_ns) as f64 / done.cost_ns.max(1) as f64);
        if now_ns < self.due_of_ns(done.frame) {
            self.frames_done += 1;
            self.ready.push_back(done.frame);
        }
    }

    fn choose_frame(&mut self, now_ns: u64) {
        let mut frame = self.next_undecided_frame.max(self.next_due_frame);
        let cost_ns = self.film.cost_ns(self.frames_begun);
        self.frames_begun += 1;
        let expected_ns = (cost_ns as f64 * self.slowdown * SAFETY) as u64;
        while self.due_of_ns(frame) < now_ns + expected_ns.min(PATIENCE_NS) {
            frame += 1;
        }
        self.next_undecided_frame = frame + 1;
        self.decoding = Some(Decoding {
            frame,
            cost_ns,
            done_ns: 0,
            started_at_ns: now_ns,
        });
    }

    fn top(&mut self, at: &mut At<'_>) -> Do {
        let now_ns = at.now_ns();
        self.finish_chunk(now_ns);
        let work_ns = self.serve_due(at, now_ns);
        self.phase = Phase::Poll { at_ns: now_ns };
        Do::Work(work_ns + TURN_NS)
    }

    fn poll(&mut self, at: &mut At<'_>, at_ns: u64) -> Do {
        let wants_cpu = self.wants_cpu();
        if self.player.domain.is_some() {
            self.phase = Phase::Decode;
            let next = Next {
                due_ns: self.next_due_ns(),
                best_effort: wants_cpu.then(|| (0, self.progress_key())),
            };
            return at.poll_at(next, at_ns);
        }
        if wants_cpu {
            self.phase = Phase::Top;
            return Do::Work(self.decode_chunk(at_ns));
        }
        self.phase = Phase::Top;
        Do::Sleep(self.next_due_ns())
    }

    /// One unit of work follows every poll: a due event, else a chunk.
    fn decode(&mut self, at: &mut At<'_>) -> Do {
        self.phase = Phase::Top;
        let now_ns = at.now_ns();
        if now_ns < self.next_due_ns() && self.wants_cpu() {
            return Do::Work(self.decode_chunk(now_ns));
        }
        Do::Again
    }
}

impl Behaviour for Playing {
    fn next(&mut self, at: &mut At<'_>) -> Do {
        match self.phase {
            Phase::Join => {
                self.phase = Phase::Top;
                match self.player.domain {
                    Some(domain) => Do::Join(domain),
                    None => Do::Again,
                }
            }
            Phase::Top => self.top(at),
            Phase::Poll { at_ns } => self.poll(at, at_ns),
            Phase::Decode => self.decode(at),
        }
    }
}
