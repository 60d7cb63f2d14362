// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each frame costs to decode: a seeded, deterministic variable-bit-rate profile.
//!
//! A frame's cost is the product of its kind (one intra frame opens each group of twelve; bidirectional
//! frames are cheap), of its scene (a random level held for some seconds), and of noise. The whole is
//! scaled so that its mean is exactly the load that was asked for.

use crate::random::Random;

/// Frames in a profile; a longer run repeats them (83 s at 24 frames/s).
const FRAMES: usize = 2000;
const GROUP_FRAMES: usize = 12;
const INTRA_WEIGHT: f64 = 2.3;
const PREDICTED_WEIGHT: f64 = 1.15;
const BIDIRECTIONAL_WEIGHT: f64 = 0.8;
/// A scene's level and one frame's noise lie within 1 +- these.
const SCENE_SPREAD: f64 = 0.3;
const NOISE_SPREAD: f64 = 0.2;
/// Frames in a scene: from 1 to 4 s.
const SCENE_FRAMES_MIN: u64 = 24;
const SCENE_FRAMES_MAX: u64 = 96;

/// The decode costs of a film.
pub struct Profile {
    costs_ns: Vec<u64>,
}

impl Profile {
    /// A film whose frames cost `mean_ns` on average.
    pub fn new(seed: u64, mean_ns: u64) -> Self {
        let mut random = Random::new(seed);
        // Profiles do not open their groups of frames in step.
        let group_offset = random.between(0, GROUP_FRAMES as u64) as usize;
        let mut scene_level = 1.0;
        let mut scene_frames_left = 0;
        let mut weights = Vec::with_capacity(FRAMES);
        for frame in 0..FRAMES {
            if scene_frames_left == 0 {
                scene_frames_left = random.between(SCENE_FRAMES_MIN, SCENE_FRAMES_MAX);
                scene_level = random.around_one(SCENE_SPREAD);
            }
            scene_frames_left -= 1;
            let kind = match (frame + group_offset) % GROUP_FRAMES {
                0 => INTRA_WEIGHT,
                place if place % 3 == 0 => PREDICTED_WEIGHT,
                _ => BIDIRECTIONAL_WEIGHT,
            };
            weights.push(kind * scene_level * random.around_one(NOISE_SPREAD));
        }
        let mean_weight = weights.iter().sum::<f64>() / FRAMES as f64;
        let costs_ns = weights
            .iter()
            .map(|weight| (weight / mean_weight * mean_ns as f64) as u64)
            .collect();
        Self { costs_ns }
    }

    /// What the frame decoded as number `index` costs, in ns of CPU time.
    pub fn cost_ns(&self, index: u64) -> u64 {
        self.costs_ns[index as usize % FRAMES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_is_what_was_asked_for() {
        for seed in 0..20 {
            let profile = Profile::new(seed, 6_410_256);
            let sum_ns: u64 = (0..FRAMES as u64).map(|frame| profile.cost_ns(frame)).sum();
            assert!((sum_ns / FRAMES as u64).abs_diff(6_410_256) <= 1);
        }
    }

    #[test]
    fn cost_varies_and_repeats_with_the_seed() {
        let first = Profile::new(7, 6_000_000);
        let again = Profile::new(7, 6_000_000);
        let other = Profile::new(8, 6_000_000);
        assert_eq!(first.costs_ns, again.costs_ns);
        assert_ne!(first.costs_ns, other.costs_ns);
        let longest_ns = first.costs_ns.iter().max().copied().unwrap_or(0);
        let shortest_ns = first.costs_ns.iter().min().copied().unwrap_or(0);
        assert!(longest_ns > 3 * shortest_ns && shortest_ns > 1_000_000);
    }
}
