// SPDX-License-Identifier: MIT OR Apache-2.0
//! A player as mpv and ffplay are: one thread decodes ahead, another shows each picture when it is due. It knows nothing
//! of the scheduler, and skips pictures that it does not expect to have in time.

use consort_bench_player::clock::{no_timer_slack, now_ns, sleep_until_ns, NS_PER_MS, NS_PER_S};
use consort_bench_player::error::Error;
use consort_bench_player::fleet::Schedule;
use consort_bench_player::profile::Profile;
use consort_bench_player::work::burn_ns;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

pub const FRAMES_PER_S: u64 = 24;
const FRAME_PERIOD_NS: u64 = NS_PER_S / FRAMES_PER_S;
const READY_FRAMES_MAX: usize = 4;
/// A picture is begun if it is expected to be done in this part of the time left.
const SAFETY: f64 = 1.1;
/// Weight of the latest picture in the learned slowdown.
const LEARNING_RATE: f64 = 0.2;
/// A picture later than this is not worth waiting for, whatever was learned.
const PATIENCE_NS: u64 = 500 * NS_PER_MS;
/// CPU time of putting a picture on the screen, or the last one again.
const SHOW_NS: u64 = 65_000;

#[derive(Clone, Debug)]
pub struct Film {
    pub seed: u64,
    /// What it needs, decoding and showing, as a fraction of the CPU.
    pub load: f64,
    /// Due time of the first picture.
    pub first_due_ns: u64,
}

/// What was due in the window.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Seen {
    pub shown: u64,
    pub due_ns: Vec<u64>,
    pub shown_ns: Vec<u64>,
}

impl Seen {
    /// From when each picture was due until it was shown.
    pub fn late_ns(&self) -> Vec<u64> {
        let pairs = self.due_ns.iter().zip(&self.shown_ns);
        pairs.map(|(due_ns, shown_ns)| shown_ns - due_ns).collect()
    }
}

/// Pictures that are decoded and not yet due; none once the last one has been shown.
struct Ready {
    frames: Mutex<Option<VecDeque<u64>>>,
    taken: Condvar,
}

impl Film {
    /// Not frame * period: the period is not a whole number of ns.
    fn due_of_ns(&self, frame: u64) -> u64 {
        self.first_due_ns + frame * NS_PER_S / FRAMES_PER_S
    }

    /// Plays to the end of the window.
    pub fn play(self, schedule: Schedule) -> Result<Seen, Error> {
        let ready = Arc::new(Ready::new());
        let (film, of_decoder) = (self.clone(), ready.clone());
        let decoder = std::thread::spawn(move || film.decode(&of_decoder));
        let seen = self.show(schedule, &ready);
        let panicked = |_| Error::Usage("the decoder panicked".into());
        decoder.join().map_err(panicked)?;
        Ok(seen)
    }

    fn show(&self, schedule: Schedule, ready: &Ready) -> Seen {
        no_timer_slack();
        let mut seen = Seen::default();
        for frame in 0.. {
            let due_ns = self.due_of_ns(frame);
            if due_ns >= schedule.window_end_ns {
                break;
            }
            sleep_until_ns(due_ns);
            let now = now_ns();
            let is_there = ready.take(frame);
            burn_ns(SHOW_NS);
            if due_ns >= schedule.window_start_ns {
                seen.shown += u64::from(is_there);
                seen.due_ns.push(due_ns);
                seen.shown_ns.push(now);
            }
        }
        ready.end();
        seen
    }

    fn decode(&self, ready: &Ready) {
        let mean_ns = ((self.load * FRAME_PERIOD_NS as f64) as u64).saturating_sub(SHOW_NS);
        let profile = Profile::new(self.seed, mean_ns);
        let mut slowdown = 1.0;
        let mut frame = 0;
        for begun in 0.. {
            if !ready.wait_for_room() {
                break;
            }
            let from_ns = now_ns();
            // What is skipped is of the same mix as what is shown.
            let cost_ns = profile.cost_ns(begun);
            let expected_ns = ((cost_ns as f64 * slowdown * SAFETY) as u64).min(PATIENCE_NS);
            while self.due_of_ns(frame) < from_ns + expected_ns {
                frame += 1;
            }
            burn_ns(cost_ns);
            let took_ns = (now_ns() - from_ns) as f64;
            slowdown += LEARNING_RATE * ((took_ns / cost_ns.max(1) as f64).max(1.0) - slowdown);
            ready.put(frame);
            frame += 1;
        }
    }
}

impl Ready {
    fn new() -> Ready {
        Ready {
            frames: Mutex::new(Some(VecDeque::new())),
            taken: Condvar::new(),
        }
    }

    fn frames(&self) -> MutexGuard<'_, Option<VecDeque<u64>>> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, frame: u64) {
        if let Some(frames) = self.frames().as_mut() {
            frames.push_back(frame);
        }
    }

    /// Whether the picture is there; those before it have come too late.
    fn take(&self, frame: u64) -> bool {
        let mut held = self.frames();
        let Some(frames) = held.as_mut() else {
            return false;
        };
        while frames.front().is_some_and(|first| *first < frame) {
            frames.pop_front();
        }
        let is_there = frames.front() == Some(&frame);
        if is_there {
            frames.pop_front();
        }
        self.taken.notify_one();
        is_there
    }

    fn end(&self) {
        *self.frames() = None;
        self.taken.notify_one();
    }

    /// False when no more pictures are wanted.
    fn wait_for_room(&self) -> bool {
        let is_full = |held: &mut Option<VecDeque<u64>>| {
            held.as_ref()
                .is_some_and(|frames| frames.len() >= READY_FRAMES_MAX)
        };
        let held = self.taken.wait_while(self.frames(), is_full);
        held.unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_shown_once_and_late_ones_never() {
        let ready = Ready::new();
        for frame in [0, 1, 3] {
            ready.put(frame);
        }
        assert!(ready.take(0));
        assert!(!ready.take(2));
        assert!(ready.take(3));
        assert!(!ready.take(3));
        assert!(ready.wait_for_room());
        ready.end();
        assert!(!ready.wait_for_room());
    }
}
