// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that end need time for it: the kernel gives back their memory.

use crate::random::Random;
use crate::setup::{Length, Program, Setup, Step};

const LONGEST_NS: u64 = 30_000_000;

/// Has some programs end slowly. Drawn apart from all else, so that the rest of each scenario stays as it was.
pub fn exits(setup: &mut Setup) {
    let mut random = Random::derived(setup.seed, 0xe817);
    if !random.chance(0.3) {
        return;
    }
    for task in &mut setup.tasks {
        if let Program::Steps(steps) = &mut task.program {
            slow(steps, &mut random);
        }
    }
}

fn slow(steps: &mut [Step], random: &mut Random) {
    for step in steps {
        match step {
            Step::Loop { steps, .. } => slow(steps, random),
            Step::Exit(work) => *work = Length::Fixed(random.between(0, LONGEST_NS)),
            _ => {}
        }
    }
}
