// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ejections: what the kernel threw out and why, and what the daemon does then.
//!
//! After a fault the scheduler is loaded again, a few times within a period, after pauses that grow. The second ejection
//! of the same kind and reason within the period, or one too many of any, brings safe mode: whatever provokes it is still
//! there. A fault in safe mode ends the daemon. So does a scheduler that went because somebody asked for it (SysRq-S),
//! at once: who detaches it does not want it back. One that left by itself, for want of room for a CPU that has come, is loaded
//! again at once, and has not been ejected.

use std::{
    collections::VecDeque,
    path::PathBuf,
    time::{Duration, Instant, SystemTime},
};

use consort_kernel::ExitReport;
use serde::Serialize;

/// What schedules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// All that Consort does.
    Full,
    /// Fair shares, and nothing else: no domains, no reservations.
    Safe,
}

/// How often the scheduler is loaded again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restarts {
    /// 0: never, not in safe mode either.
    pub most: u32,
    /// Ejections that are longer ago do not count.
    pub period: Duration,
    /// Before the first restart; twice as long before each further one.
    pub pause: Duration,
}

impl Default for Restarts {
    fn default() -> Self {
        Restarts {
            most: 3,
            period: Duration::from_secs(600),
            pause: Duration::from_secs(1),
        }
    }
}

/// Whether somebody has taken the scheduler out of the kernel by its link: the kernel's `SCX_EXIT_UNREG`.
pub(crate) fn was_detached(report: &ExitReport) -> bool {
    const UNREG: u64 = 64;
    report.kind == UNREG
}

/// What is done about an ejection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Load { mode: Mode, after: Duration },
    End,
}

/// One ejection, for `consort status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ejection {
    /// What was ejected.
    pub mode: Mode,
    /// The kernel's `enum scx_exit_kind`.
    pub kind: u64,
    pub reason: String,
    pub message: String,
    /// Seconds since 1970.
    pub at_s: u64,
    /// Where the kernel's dump is kept.
    pub dump: Option<PathBuf>,
}

/// Those since the daemon started.
#[derive(Debug, Clone)]
pub struct Ejections {
    restarts: Restarts,
    /// When, of which kind and for which reason; those within the period.
    recent: VecDeque<(Instant, u64, String)>,
    pub count: u64,
    pub last: Option<Ejection>,
}

impl Ejections {
    pub fn new(restarts: Restarts) -> Self {
        Ejections {
            restarts,
            recent: VecDeque::new(),
            count: 0,
            last: None,
        }
    }

    /// Notes that the scheduler of `mode` has gone, and says what to do. What it has left by itself is loaded again, however
    /// often that was.
    pub fn note(
        &mut self,
        now: Instant,
        mode: Mode,
        report: &ExitReport,
        dump: Option<PathBuf>,
    ) -> Step {
        if report.wants_room() {
            let after = Duration::ZERO;
            return Step::Load { mode, after };
        }
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        self.count += 1;
        self.last = Some(Ejection {
            mode,
            kind: report.kind,
            reason: report.reason.clone(),
            message: report.message.clone(),
            at_s: since_1970.map_or(0, |since| since.as_secs()),
            dump,
        });
        let step = self.step(now, mode, report);
        self.recent
            .push_back((now, report.kind, report.reason.clone()));
        step
    }

    fn step(&mut self, now: Instant, mode: Mode, report: &ExitReport) -> Step {
        if !report.is_fault() || mode == Mode::Safe || self.restarts.most == 0 {
            return Step::End;
        }
        let period = self.restarts.period;
        self.recent
            .retain(|(at, _, _)| now.saturating_duration_since(*at) < period);
        let is_the_same =
            |(_, kind, reason): &(_, u64, String)| *kind == report.kind && *reason == report.reason;
        let before = self.recent.len() as u32;
        let mode = match before >= self.restarts.most || self.recent.iter().any(is_the_same) {
            true => Mode::Safe,
            false => Mode::Full,
        };
        Step::Load {
            mode,
            after: self.restarts.pause * 2u32.saturating_pow(before),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(kind: u64, reason: &str) -> ExitReport {
        ExitReport {
            kind,
            exit_code: 0,
            reason: reason.to_owned(),
            message: "x".to_owned(),
            dump: String::new(),
        }
    }

    fn load(mode: Mode, after_s: u64) -> Step {
        let after = Duration::from_secs(after_s);
        Step::Load { mode, after }
    }

    const STALL: u64 = 1026;
    const ERROR: u64 = 1024;

    #[test]
    fn never_into_the_same_fault_twice() {
        let mut ejections = Ejections::new(Restarts::default());
        let now = Instant::now();
        let mut note = |mode, kind, reason| ejections.note(now, mode, &report(kind, reason), None);
        assert_eq!(note(Mode::Full, STALL, "stall"), load(Mode::Full, 1));
        assert_eq!(note(Mode::Full, ERROR, "error"), load(Mode::Full, 2));
        assert_eq!(note(Mode::Full, STALL, "stall"), load(Mode::Safe, 4));
        assert_eq!(note(Mode::Safe, ERROR, "other"), Step::End);
        assert_eq!(ejections.count, 4);
        assert_eq!(ejections.last.unwrap().mode, Mode::Safe);
    }

    #[test]
    fn one_too_many_of_any_kind_brings_safe_mode() {
        let mut ejections = Ejections::new(Restarts::default());
        let now = Instant::now();
        let modes = ["a", "b", "c", "d"].map(|reason| {
            match ejections.note(now, Mode::Full, &report(ERROR, reason), None) {
                Step::Load { mode, .. } => mode,
                Step::End => panic!("it ended"),
            }
        });
        assert_eq!(modes, [Mode::Full, Mode::Full, Mode::Full, Mode::Safe]);
    }

    #[test]
    fn what_is_long_ago_does_not_count() {
        let mut ejections = Ejections::new(Restarts::default());
        let (stall, mut now) = (report(STALL, "stall"), Instant::now());
        for _ in 0..5 {
            let step = ejections.note(now, Mode::Full, &stall, None);
            assert_eq!(step, load(Mode::Full, 1));
            now += Duration::from_secs(600);
        }
        now -= Duration::from_millis(1);
        let step = ejections.note(now, Mode::Full, &stall, None);
        assert_eq!(step, load(Mode::Safe, 2));
    }

    #[test]
    fn who_detaches_it_does_not_want_it_back() {
        let mut ejections = Ejections::new(Restarts::default());
        let asked = report(67, "disabled by sysrq-S");
        let step = ejections.note(Instant::now(), Mode::Full, &asked, None);
        assert_eq!(step, Step::End);
    }

    #[test]
    fn a_cpu_that_has_come_is_no_ejection() {
        let mut ejections = Ejections::new(Restarts::default());
        let mut more = report(65, "unregistered from BPF");
        more.exit_code = 1;
        for _ in 0..5 {
            let step = ejections.note(Instant::now(), Mode::Full, &more, None);
            assert_eq!(step, load(Mode::Full, 0));
        }
        assert_eq!(ejections.count, 0);
        more.exit_code = 2;
        let step = ejections.note(Instant::now(), Mode::Full, &more, None);
        assert_eq!(step, Step::End);
    }

    #[test]
    fn an_operator_may_want_no_restarts() {
        let restarts = Restarts {
            most: 0,
            ..Restarts::default()
        };
        let stall = report(STALL, "stall");
        let step = Ejections::new(restarts).note(Instant::now(), Mode::Full, &stall, None);
        assert_eq!(step, Step::End);
    }
}
