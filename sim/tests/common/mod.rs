// SPDX-License-Identifier: MIT OR Apache-2.0
//! Setups that several tests begin with.
#![allow(dead_code)] // each test uses its part

pub mod planted;
pub mod recording;
pub mod summaries;
pub mod ties;

use consort_sim::setup::*;
use consort_sim::trace::{Event, Outcome, What};

pub const MS: u64 = 1_000_000;
pub const S: u64 = 1_000_000_000;

/// A machine with one domain, and nobody in it.
pub fn with_domain(machine: Machine, duration_ns: u64) -> Setup {
    let mut setup = Setup::empty(machine, duration_ns);
    setup.domains.push(Domain {
        name: "bench".into(),
        event_ns: 1_200_000,
        order: 0,
        preempt: false,
    });
    setup
}

/// Sleeps and works in turns.
pub fn sleeper(sleep_ns: u64, work_ns: u64) -> Program {
    Program::Steps(vec![Step::Loop {
        times: None,
        steps: vec![
            Step::Sleep(Length::Fixed(sleep_ns)),
            Step::Run(Length::Fixed(work_ns)),
        ],
    }])
}

/// The players of bench/player, phases spread evenly.
pub fn players(count: u64, domain: Option<usize>, first_ns: u64) -> Vec<Task> {
    const PERIOD_NS: u64 = S / 24;
    let player = |index: u64| {
        let program = Program::Player(Player {
            load: 1.0 / 6.5,
            chunk_ns: MS,
            seed: 1 + index,
            first_due_ns: first_ns + PERIOD_NS + (index + 1) * PERIOD_NS / count,
            domain,
        });
        Task::new(&format!("player{index}"), program)
    };
    (0..count).map(player).collect()
}

/// Tardinesses of all due events from `from_ns` on, in order of size.
#[derive(Default)]
pub struct Tardiness {
    pub from_ns: u64,
    pub ns: Vec<u64>,
}

impl Tardiness {
    pub fn note(&mut self, event: &Event) {
        if let What::Served { due_ns, .. } = event.what {
            if due_ns >= self.from_ns {
                self.ns.push(event.at_ns - due_ns);
            }
        }
    }

    pub fn mean_ms(&self) -> f64 {
        self.ns.iter().sum::<u64>() as f64 / self.ns.len().max(1) as f64 / MS as f64
    }

    pub fn percentile_ms(&mut self, percent: f64) -> f64 {
        self.ns.sort_unstable();
        let at = (self.ns.len() as f64 * percent / 100.0).ceil() as usize;
        self.ns[at.clamp(1, self.ns.len()) - 1] as f64 / MS as f64
    }
}

pub fn assert_fine(outcome: &Outcome) {
    if let Some(violation) = &outcome.violation {
        panic!(
            "{} at {} ns: {}\n{}",
            violation.rule,
            violation.at_ns,
            violation.detail,
            violation.state.join("\n")
        );
    }
}
