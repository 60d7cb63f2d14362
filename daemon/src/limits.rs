// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one user can hold, how fast one user may ask, and how much of the daemon's time that may take.

use std::time::{Duration, Instant};

/// Bounds for each user, subordinate numbers of one counted as that one. Root has the same ones, but for what the
/// command asks: a runaway service is no less of a nuisance, and must not keep its operator out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections, so programs; each costs two pages of kernel memory.
    pub clients: usize,
    /// Threads that are members of domains.
    pub members: usize,
    /// Domains, named and private.
    pub domains: usize,
    /// Requests per second, and how many may come at once after a pause.
    pub requests_per_s: u32,
    /// How long a connection is not listened to after it exceeded the rate, so that refusing costs little.
    pub pause: Duration,
    /// CPU time of the daemon's in each second; beyond that a user's programs wait.
    pub cpu_per_s: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            clients: 256,
            members: 2048,
            domains: 512,
            requests_per_s: 1000,
            pause: Duration::from_millis(50),
            cpu_per_s: Duration::from_millis(10),
        }
    }
}

/// A token bucket: full at first, refilled at a constant rate, never above its size.
#[derive(Debug, Clone)]
pub struct Bucket {
    per_s: f64,
    /// Tokens when it is full.
    size: f64,
    /// May be negative: what a request turned out to cost is charged after it was let in. Never below two sizes, or what a
    /// single request has cost: whoever owes more in sum has waited long enough once it has paid that.
    tokens: f64,
    filled_at: Instant,
}

/// Of its size, the most that a bucket can owe of many small sums.
const DEBT_MAX: f64 = 2.0;

impl Bucket {
    /// A second's worth of tokens.
    pub fn new(per_s: u32, now: Instant) -> Self {
        let per_s = f64::from(per_s);
        Bucket::of_size(per_s, per_s, now)
    }

    pub fn of_size(per_s: f64, size: f64, now: Instant) -> Self {
        Bucket {
            per_s,
            size,
            tokens: size,
            filled_at: now,
        }
    }

    /// Takes one token; false when there is none.
    pub fn take(&mut self, now: Instant) -> bool {
        self.refill(now);
        if self.tokens < 1.0 {
            return false;
        }
        self.tokens -= 1.0;
        true
    }

    /// Takes `cost` more tokens, into debt if need be.
    pub fn charge(&mut self, cost: f64) {
        self.charge_down_to(-DEBT_MAX * self.size, cost);
    }

    /// The same of what one request really took: all of that is owed, however much it is.
    pub fn charge_in_full(&mut self, cost: f64) {
        self.charge_down_to(-(DEBT_MAX * self.size).max(cost), cost);
    }

    /// What is owed already stays owed.
    fn charge_down_to(&mut self, least: f64, cost: f64) {
        self.tokens = (self.tokens - cost).max(least).min(self.tokens);
    }

    /// How long until it owes no more than `debt`, a part of its size.
    pub fn owes_for(&mut self, debt: f64, now: Instant) -> Option<Duration> {
        self.refill(now);
        let missing = -debt * self.size - self.tokens;
        (missing > 0.0)
            .then(|| Duration::from_secs_f64(missing / self.per_s.max(f64::MIN_POSITIVE)))
    }

    /// True when forgetting this bucket would forgive nothing.
    pub fn is_full(&mut self, now: Instant) -> bool {
        self.refill(now);
        self.tokens >= self.size
    }

    fn refill(&mut self, now: Instant) {
        let passed_s = now.saturating_duration_since(self.filled_at).as_secs_f64();
        self.filled_at = self.filled_at.max(now);
        self.tokens = (self.tokens + passed_s * self.per_s).min(self.size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_one_seconds_worth_and_then_the_rate_holds() {
        let start = Instant::now();
        let mut bucket = Bucket::new(1000, start);
        let granted = (0..10_000).filter(|_| bucket.take(start)).count();
        assert_eq!(granted, 1000);
        let later = start + Duration::from_millis(100);
        let granted = (0..10_000).filter(|_| bucket.take(later)).count();
        assert!((99..=101).contains(&granted), "{granted}");
    }

    #[test]
    fn debt_is_paid_before_anything_is_granted_and_has_a_floor() {
        let start = Instant::now();
        let mut bucket = Bucket::new(10, start);
        bucket.charge(30.0);
        assert_eq!(bucket.owes_for(1.0, start), Some(Duration::from_secs(1)));
        assert!(!bucket.take(start + Duration::from_millis(1900)));
        assert!(bucket.take(start + Duration::from_millis(2200)));
        let mut bucket = Bucket::new(10, start);
        (0..1000).for_each(|_| bucket.charge_in_full(10.0));
        bucket.charge(1e9);
        assert_eq!(bucket.owes_for(0.0, start), Some(Duration::from_secs(2)));
        assert!(bucket.take(start + Duration::from_millis(2200)));
        assert_eq!(bucket.owes_for(0.0, start + Duration::from_secs(3)), None);
    }

    /// Whoever makes one request that costs a minute pays that minute, and others after it do not shorten that.
    #[test]
    fn a_single_cost_is_owed_in_full() {
        let start = Instant::now();
        let mut bucket = Bucket::new(10, start);
        for cost in [600.0, 1.0, 30.0] {
            bucket.charge_in_full(cost);
            assert_eq!(bucket.owes_for(0.0, start), Some(Duration::from_secs(59)));
        }
    }

    #[test]
    fn a_clock_that_goes_backwards_grants_nothing() {
        let start = Instant::now() + Duration::from_secs(10);
        let mut bucket = Bucket::new(5, start);
        while bucket.take(start) {}
        assert!(!bucket.take(start - Duration::from_secs(9)));
        assert!(!bucket.take(start));
    }
}
