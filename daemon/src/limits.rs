// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one user can hold, and how fast one user may ask.

use std::time::{Duration, Instant};

/// Bounds for each user. Root has the same ones: a runaway service is no less of a nuisance.
#[derive(Debug, Clone, Copy)]
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
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            clients: 256,
            members: 2048,
            domains: 512,
            requests_per_s: 1000,
            pause: Duration::from_millis(50),
        }
    }
}

/// A token bucket: full at first, refilled at a constant rate, never above one second's worth.
#[derive(Debug, Clone)]
pub struct Bucket {
    per_s: f64,
    /// May be negative: what a request turned out to cost is charged after it was let in.
    tokens: f64,
    filled_at: Instant,
}

impl Bucket {
    pub fn new(per_s: u32, now: Instant) -> Self {
        let per_s = f64::from(per_s);
        Bucket {
            per_s,
            tokens: per_s,
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
    pub fn charge(&mut self, cost: u32) {
        self.tokens -= f64::from(cost);
    }

    /// True when forgetting this bucket would forgive nothing.
    pub fn is_full(&mut self, now: Instant) -> bool {
        self.refill(now);
        self.tokens >= self.per_s
    }

    fn refill(&mut self, now: Instant) {
        let passed_s = now.saturating_duration_since(self.filled_at).as_secs_f64();
        self.filled_at = self.filled_at.max(now);
        self.tokens = (self.tokens + passed_s * self.per_s).min(self.per_s);
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
    fn debt_is_paid_before_anything_is_granted() {
        let start = Instant::now();
        let mut bucket = Bucket::new(10, start);
        bucket.charge(30);
        assert!(!bucket.take(start + Duration::from_millis(1900)));
        assert!(bucket.take(start + Duration::from_millis(2200)));
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
