// SPDX-License-Identifier: GPL-2.0 OR MIT
//! rc.h: reservations of one class that go by the clock, on one CPU.

use crate::{policy::*, reservations::*};
use proptest::prelude::*;

/// 004 Figure 2a, L1 to L4: what each member's finish value is, in ns of real time.
struct Finish {
    ns: f64,
    /// The CPU time that it has counted.
    had_ns: u64,
    was_active: bool,
}

/// Each member's rate in a class of one CPU, by what all have asked for.
fn effective(terms: &[Terms]) -> Vec<f64> {
    let sum: f64 = terms.iter().map(|(rate, _)| rate).sum();

    terms.iter().map(|(rate, _)| rate / sum).collect()
}

impl Finish {
    fn follow(&mut self, c: &Class, t: usize, rate: f64) {
        let (had_ns, is_active) = (c.h.tasks[t].ran_ns, c.node(t).active != 0);

        self.ns += (had_ns - self.had_ns) as f64 / rate;
        self.had_ns = had_ns;
        if is_active && !self.was_active {
            self.ns = self.ns.max(c.h.now_ns as f64);
        }
        self.was_active = is_active;
    }
}

/// How long a task that has been alone for `alone_ns` waits when another one comes.
fn punishment_ns(alone_ns: u64, terms: &[Terms; 2], kind: u32) -> u64 {
    let mut c = Class::new(0, terms, kind);

    c.wake(0);
    (0..alone_ns / QUANTUM_NS).for_each(|_| c.run(QUANTUM_NS));
    let (came_ns, had_ns) = (c.h.now_ns, c.h.tasks[0].ran_ns);
    c.wake(1);
    while c.h.tasks[0].ran_ns == had_ns {
        c.run(QUANTUM_NS);
    }
    c.h.now_ns - QUANTUM_NS - came_ns
}

proptest! {
    /// Rates in 2^20 parts of a CPU: finish values are exact to a ten-thousandth, and a member's rounding in each step.
    #[test]
    fn finish_values_are_those_of_figure_2a(
        vtime: u64, terms in terms(), steps in prop::collection::vec(step(), 1..400),
    ) {
        let mut c = Class::new(vtime, &terms, NODE_RC);
        let rates = effective(&terms);
        let mut all: Vec<_> = terms.iter().map(|_| Finish { ns: 0.0, had_ns: 0, was_active: false }).collect();

        for step in steps {
            c.step(&step);
            for (t, finish) in all.iter_mut().enumerate() {
                finish.follow(&c, t, rates[t]);
                if c.node(t).active != 0 {
                    let ns = (c.node(t).vtime >> VTIME_SHIFT) as f64;
                    let may_differ = 100.0 + (finish.ns - 1e9) * 2e-4;
                    prop_assert!((ns - finish.ns).abs() < may_differ, "{}: {} for {}", t, ns, finish.ns);
                }
            }
        }
    }

    /// Nobody runs for longer than a quantum while another one's period ends first, however far that one is ahead.
    #[test]
    fn whose_period_ends_first_runs(terms in terms(), steps in prop::collection::vec(step(), 1..400)) {
        let mut c = Class::new(0, &terms, NODE_RC);

        for step in steps {
            c.step(&step);
            let Some(runs) = c.h.running else {
                continue;
            };
            for t in (0..terms.len()).filter(|&t| c.h.waits(t)) {
                let sooner = c.deadline(runs).wrapping_sub(c.deadline(t)) as i64;
                prop_assert!(sooner <= 0, "{} runs, {}'s period ends {} before its own", runs, t, sooner);
            }
        }
    }

    /// Theorem 1, as for period.h: beside others that ask for no more than their rates, nobody is ahead.
    #[test]
    fn who_is_punctual_is_on_time(all in beside_others()) {
        let (work_ns, period_ns) = (work_ns(&all), all[0].1);

        prop_assume!(work_ns > 0);
        let took_ns = Class::new(0, &all, NODE_RC).longest_job_ns(work_ns, period_ns);
        prop_assert!(took_ns <= period_ns + 2 * QUANTUM_NS, "took {} of {}", took_ns, period_ns);
    }

    /// The punishment phenomenon: who was alone waits until the other one's finish value is where its own is, to within
    /// a period and a slice.
    #[test]
    fn who_ran_alone_waits_for_it(
        alone_ns in 50_000_000u64..2_000_000_000, rates in (0.1f64..0.5, 0.1f64..0.5),
        periods in (5_000_000u64..100_000_000, 5_000_000u64..100_000_000),
    ) {
        let terms = [(rates.0, periods.0), (rates.1, periods.1)];
        let rate = effective(&terms);
        let ahead_ns = alone_ns as f64 * (1.0 / rate[0] - 1.0);
        let within_ns = periods.0.max(periods.1) as f64 * rate[1] + 2.0 * QUANTUM_NS as f64;
        let by_rc = punishment_ns(alone_ns, &terms, NODE_RC) as f64;

        // Nobody waits for longer than that (live.h).
        let waits_ns = (ahead_ns * rate[1]).min(f64::from(LIVE_WAIT_NS));
        prop_assert!((by_rc - waits_ns).abs() < within_ns, "{} for {}", by_rc, waits_ns);
        for kind in [NODE_PERIOD, NODE_FAIR] {
            let ns = punishment_ns(alone_ns, &terms, kind) as f64;
            prop_assert!(ns <= 12.0 * QUANTUM_NS as f64, "{}", ns);
        }
    }
}

/// Who reserves later is not as far ahead as who was there alone.
#[test]
fn who_reserves_later_begins_at_the_present_time() {
    let mut c = Class::new(0, &[(0.2, 30_000_000)], NODE_RC);

    c.wake(0);
    c.reserve((0.8, 30_000_000));
    (0..1_000).for_each(|_| c.run(QUANTUM_NS));
    c.reserve((0.1, 30_000_000));
    c.h.wake(2);
    assert_eq!(c.node(2).vtime, unsafe { core_rc_vtime(c.h.now_ns) });
}

/// Rates are of one CPU at most: a class of several CPUs does not slow the clock of who cannot use them.
#[test]
fn a_rate_is_one_cpu_at_most() {
    let c = Class::new(0, &[(0.4, 30_000_000), (0.1, 30_000_000)], NODE_RC);
    let mut g = *c.group();
    let rate = |g: &group| unsafe { core_rc_weight(g, c.node(0)) };

    assert!(rate(&g).abs_diff(ONE * 4 / 5) <= 1, "{}", rate(&g));
    g.capacity = 4 * ONE;
    assert_eq!(rate(&g), ONE);
}
