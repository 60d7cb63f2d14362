// SPDX-License-Identifier: MIT OR Apache-2.0
//! One adaptive player, without any opinion on when it runs: the modes decide that.
//!
//! A frame is due every period. Showing it is a due event, and happens (as a skip, if there is nothing to
//! show) whether or not the frame was decoded in time; its lateness is the tardiness. Decoding is best
//! effort, in chunks. The player knows what a frame costs and learns how much slower than the bare CPU it
//! decodes, and starts only frames that it expects to finish: it adapts its frame rate to the CPU it gets.

use crate::clock::{NS_PER_MS, NS_PER_S};
use crate::profile::Profile;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

pub const FRAMES_PER_S: u64 = 24;
pub const FRAME_PERIOD_NS: u64 = NS_PER_S / FRAMES_PER_S;
/// Decoded frames that may wait for their due times.
const READY_FRAMES_MAX: usize = 4;
/// A frame is started if it is expected to be done in this part of the time left (VBR and neighbours vary).
const SAFETY: f64 = 1.1;
/// Weight of the latest frame in the learned slowdown.
const LEARNING_RATE: f64 = 0.2;
/// A frame later than this is not worth waiting for, whatever was learned.
const PATIENCE_NS: u64 = 500 * NS_PER_MS;
/// CPU time of a due event: putting a frame on the screen, or the last one again.
const SHOW_NS: u64 = 65_000;
/// Keys count frames in this unit, so that progress inside a frame fits below.
const KEY_PER_FRAME: u64 = 1 << 20;

/// What a player is asked to do.
#[derive(Clone, Debug)]
pub struct Settings {
    pub seed: u64,
    /// Mean decoding load as a fraction of the CPU.
    pub load: f64,
    pub chunk_ns: u64,
    /// Whether it ends a chunk when its own next frame is due.
    pub cuts_chunks: bool,
    /// Whether only a frame that was decoded is a due event: then a skip is nothing that anybody serves.
    pub only_shown: bool,
    /// Due time of the first frame.
    pub first_due_ns: u64,
    /// The measured window.
    pub window_start_ns: u64,
    pub window_end_ns: u64,
}

/// What a player did inside the window.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Record {
    pub load: f64,
    pub shown: u64,
    /// Due events served from the beginning until the window's end.
    pub served: u64,
    /// CPU time of chunks, and the part of it spent on frames that were dropped unfinished.
    pub decode_ns: u64,
    pub wasted_ns: u64,
    pub polls: u64,
    /// One for each due event.
    pub tardiness_ns: Vec<u64>,
    /// When the first of them was due.
    pub first_due_ns: u64,
    /// Frames shown in each second.
    pub shown_per_s: Vec<u64>,
}

struct Decoding {
    frame: u64,
    cost_ns: u64,
    done_ns: u64,
    /// The part of `done_ns` inside the window.
    counted_ns: u64,
    started_at_ns: u64,
}

pub struct Player {
    settings: Settings,
    profile: Profile,
    next_due_frame: u64,
    next_undecided_frame: u64,
    decoding: Option<Decoding>,
    ready: VecDeque<u64>,
    frames_begun: u64,
    frames_done: u64,
    /// Time a decode takes over the CPU time it needs: 1 on an idle CPU.
    slowdown: f64,
    record: Record,
}

impl Player {
    pub fn new(settings: Settings) -> Self {
        let mean_ns = (settings.load * FRAME_PERIOD_NS as f64) as u64;
        let window_s = (settings.window_end_ns - settings.window_start_ns).div_ceil(NS_PER_S);
        Self {
            profile: Profile::new(settings.seed, mean_ns),
            record: Record {
                load: settings.load,
                shown_per_s: vec![0; window_s as usize],
                tardiness_ns: Vec::with_capacity((window_s * FRAMES_PER_S) as usize + 1),
                ..Record::default()
            },
            settings,
            next_due_frame: 0,
            next_undecided_frame: 0,
            decoding: None,
            ready: VecDeque::new(),
            frames_begun: 0,
            frames_done: 0,
            slowdown: 1.0,
        }
    }

    fn due_of_ns(&self, frame: u64) -> u64 {
        // Not frame * period: the period is not a whole number of ns.
        self.settings.first_due_ns + frame * NS_PER_S / FRAMES_PER_S
    }

    fn in_window(&self, time_ns: u64) -> bool {
        (self.settings.window_start_ns..self.settings.window_end_ns).contains(&time_ns)
    }

    /// When the next due event is due; never, where only decoded frames are and there is none.
    pub fn next_due_ns(&self) -> u64 {
        if !self.settings.only_shown {
            return self.due_of_ns(self.next_due_frame);
        }
        let first = self.ready.front();
        first.map_or(u64::MAX, |&frame| self.due_of_ns(frame))
    }

    /// Serves every due event whose time has come.
    pub fn serve_due(&mut self, now_ns: u64) {
        while self.due_of_ns(self.next_due_frame) <= now_ns {
            let frame = self.next_due_frame;
            let due_ns = self.due_of_ns(frame);
            let is_ready = self.ready.front() == Some(&frame);
            let is_event = is_ready || !self.settings.only_shown;
            if is_event {
                self.count_served(due_ns, now_ns);
            }
            if is_ready {
                self.ready.pop_front();
                if self.in_window(due_ns) {
                    let second = (due_ns - self.settings.window_start_ns) / NS_PER_S;
                    self.record.shown += 1;
                    self.record.shown_per_s[second as usize] += 1;
                }
            } else if self.decoding.as_ref().is_some_and(|it| it.frame == frame) {
                self.drop_frame(now_ns);
            }
            self.next_due_frame += 1;
            if is_event {
                crate::work::burn_ns(SHOW_NS);
            }
        }
    }

    fn count_served(&mut self, due_ns: u64, now_ns: u64) {
        self.record.served += u64::from(due_ns < self.settings.window_end_ns);
        if self.in_window(due_ns) {
            if self.record.tardiness_ns.is_empty() {
                self.record.first_due_ns = due_ns;
            }
            self.record.tardiness_ns.push(now_ns - due_ns);
        }
    }

    fn drop_frame(&mut self, now_ns: u64) {
        if let Some(dropped) = self.decoding.take() {
            self.record.wasted_ns += dropped.counted_ns;
            let took_ns = (now_ns - dropped.started_at_ns) as f64;
            self.learn(took_ns / dropped.done_ns.max(1) as f64);
        }
    }

    fn learn(&mut self, slowdown: f64) {
        self.slowdown += LEARNING_RATE * (slowdown.max(1.0) - self.slowdown);
    }

    /// Is there anything to decode? The modes call it after `serve_due`.
    pub fn wants_cpu(&self) -> bool {
        self.decoding.is_some() || self.ready.len() < READY_FRAMES_MAX
    }

    /// Best-effort order, smaller first: the player with the fewest frames, and of those with equally many
    /// the one that is nearest to its next. A frame once begun is thus finished before another of the same
    /// rank is begun, which is what keeps switches and waste low and frame rates equal.
    pub fn progress_key(&self) -> u64 {
        let left = self.decoding.as_ref().map_or(KEY_PER_FRAME - 1, |it| {
            (it.cost_ns - it.done_ns) * (KEY_PER_FRAME - 1) / it.cost_ns.max(1)
        });
        self.frames_done * KEY_PER_FRAME + left
    }

    /// Decodes one chunk, at most `chunk_ns` of CPU time; `now_ns` is when it begins. Returns the work.
    pub fn decode_chunk(&mut self, now_ns: u64) -> u64 {
        if self.decoding.is_none() {
            self.choose_frame(now_ns);
        }
        let counts = self.in_window(now_ns);
        let chunk_ns = self.settings.chunk_ns;
        let until_ns = match self.settings.cuts_chunks {
            true => self.next_due_ns(),
            false => u64::MAX,
        };
        let Some(it) = self.decoding.as_mut() else {
            return 0;
        };
        let work_ns = crate::work::burn_until(chunk_ns.min(it.cost_ns - it.done_ns), until_ns);
        it.done_ns += work_ns;
        if counts {
            it.counted_ns += work_ns;
            self.record.decode_ns += work_ns;
        }
        work_ns
    }

    /// Ends a frame whose last chunk is done; `now_ns` is a time after that chunk.
    pub fn finish_chunk(&mut self, now_ns: u64) {
        let Some(done) = self.decoding.take_if(|it| it.done_ns >= it.cost_ns) else {
            return;
        };
        self.learn((now_ns - done.started_at_ns) as f64 / done.cost_ns.max(1) as f64);
        if now_ns < self.due_of_ns(done.frame) {
            self.frames_done += 1;
            self.ready.push_back(done.frame);
        } else {
            self.record.wasted_ns += done.counted_ns;
        }
    }

    /// Takes the first frame that can be made.
    fn choose_frame(&mut self, now_ns: u64) {
        let mut frame = self.next_undecided_frame.max(self.next_due_frame);
        // What is skipped is of the same mix as what is shown. Else a slower player would pick the cheap
        // frames, and look better in frames per second than one that takes them as they come.
        let cost_ns = self.profile.cost_ns(self.frames_begun);
        self.frames_begun += 1;
        loop {
            let expected_ns = (cost_ns as f64 * self.slowdown * SAFETY) as u64;
            if self.due_of_ns(frame) >= now_ns + expected_ns.min(PATIENCE_NS) {
                self.next_undecided_frame = frame + 1;
                self.decoding = Some(Decoding {
                    frame,
                    cost_ns,
                    done_ns: 0,
                    counted_ns: 0,
                    started_at_ns: now_ns,
                });
                return;
            }
            frame += 1;
        }
    }

    pub fn count_poll(&mut self, now_ns: u64) {
        if self.in_window(now_ns) {
            self.record.polls += 1;
        }
    }

    /// Players go on a little after the window, so that the fate of its last frames is known.
    pub fn stop_at_ns(&self) -> u64 {
        self.settings.window_end_ns + PATIENCE_NS
    }

    pub fn into_record(self) -> Record {
        self.record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW_S: u64 = 10;

    fn player(load: f64) -> Player {
        // Work costs next to nothing here: time is the test's.
        crate::work::set_instructions_per_us(1);
        Player::new(Settings {
            seed: 3,
            load,
            chunk_ns: NS_PER_MS,
            cuts_chunks: false,
            only_shown: false,
            first_due_ns: FRAME_PERIOD_NS + NS_PER_MS,
            window_start_ns: 0,
            window_end_ns: WINDOW_S * NS_PER_S,
        })
    }

    /// Plays to the end on a CPU that takes `slowdown` times as long for work; returns the record.
    fn play(mut player: Player, slowdown: u64) -> Record {
        let mut now_ns = 0;
        while now_ns < player.stop_at_ns() {
            player.finish_chunk(now_ns);
            player.serve_due(now_ns);
            if player.wants_cpu() {
                now_ns += player.decode_chunk(now_ns) * slowdown;
            } else {
                now_ns = player.next_due_ns();
            }
        }
        player.into_record()
    }

    #[test]
    fn shows_every_frame_on_an_idle_cpu() {
        let record = play(player(0.15), 1);
        // The first due time is one period late.
        assert_eq!(record.shown, WINDOW_S * FRAMES_PER_S - 1);
        assert_eq!(record.tardiness_ns.len() as u64, record.shown);
        assert_eq!(record.wasted_ns, 0);
    }

    #[test]
    fn adapts_to_a_slow_cpu_instead_of_wasting_it() {
        let record = play(player(0.15), 12);
        let given_ns = WINDOW_S * NS_PER_S / 12;
        assert!(record.shown < WINDOW_S * FRAMES_PER_S * 2 / 3);
        assert!(record.decode_ns > given_ns * 98 / 100, "the CPU was used");
        assert!(
            record.wasted_ns < record.decode_ns / 20,
            "and to some effect"
        );
        assert_eq!(
            record.shown_per_s.iter().sum::<u64>(),
            record.shown,
            "each frame is in one second"
        );
    }

    #[test]
    fn due_events_are_served_whether_or_not_there_is_a_frame() {
        let record = play(player(5.0), 1);
        assert_eq!(
            record.tardiness_ns.len() as u64,
            WINDOW_S * FRAMES_PER_S - 1
        );
        assert!(record.shown < 60);
    }

    #[test]
    fn where_skips_are_no_due_events_all_served_are_shown() {
        let mut player = player(1.6);
        player.settings.only_shown = true;
        assert_eq!(player.next_due_ns(), u64::MAX, "nothing is decoded yet");
        let record = play(player, 1);
        assert!(record.shown > 0 && record.shown < WINDOW_S * FRAMES_PER_S * 2 / 3);
        assert_eq!(record.tardiness_ns.len() as u64, record.shown);
        assert_eq!(record.served, record.shown);
        assert!(record.wasted_ns < record.decode_ns / 20);
    }

    #[test]
    fn a_chunk_may_end_at_the_players_own_due_time() {
        let mut player = player(0.5);
        player.settings.chunk_ns = FRAME_PERIOD_NS;
        player.settings.cuts_chunks = true;
        // The clock is past that already.
        let work_ns = player.decode_chunk(0);
        assert!(work_ns > 0 && work_ns < NS_PER_MS, "{work_ns} ns");
        assert_eq!(player.decoding.as_ref().map(|it| it.done_ns), Some(work_ns));
        player.settings.first_due_ns = u64::MAX / 2;
        assert!(player.decode_chunk(0) > NS_PER_MS);
    }

    #[test]
    fn a_frame_that_was_begun_comes_before_one_that_was_not() {
        let mut begun = player(0.5);
        let fresh = player(0.5);
        begun.decode_chunk(0);
        begun.finish_chunk(NS_PER_MS);
        assert!(begun.progress_key() < fresh.progress_key());
    }

    #[test]
    fn a_player_with_more_frames_comes_later() {
        let mut ahead = player(0.1);
        let mut now_ns = 0;
        while ahead.frames_done == 0 {
            now_ns += ahead.decode_chunk(now_ns);
            ahead.finish_chunk(now_ns);
        }
        assert!(ahead.progress_key() > player(0.1).progress_key());
    }
}
