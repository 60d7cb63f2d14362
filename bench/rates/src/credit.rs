// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client lends to its server and takes back, again and again, while both and a stranger want the CPU: how soon do
//! the new shares hold? (001 Figures 4.4 and 4.5)

use crate::promise::Division;
use crate::trace::{work_until, Ran};
use clap::Args;
use consort_bench_player::clock::{now_ns, sleep_until_ns, NS_PER_MS, NS_PER_S};
use consort_bench_player::error::Error;
use consort_bench_player::fleet::{hog, Schedule};
use consort_bench_player::processes::{spawn, Child};
use serde::{Deserialize, Serialize};

const CLASS: &str = "guaranteed";
/// How long shares are watched after each transfer, and how long they hold.
const WATCHED_NS: u64 = 200 * NS_PER_MS;
const BETWEEN_NS: u64 = 400 * NS_PER_MS;
/// Long after a transfer, and watched until before the next one.
const SETTLED_AFTER_NS: u64 = 150 * NS_PER_MS;

#[derive(Args, Serialize)]
pub struct Options {
    #[command(flatten)]
    division: Division,
    #[arg(long, default_value_t = 0.4)]
    client: f64,
    #[arg(long, default_value_t = 0.1)]
    server: f64,
    #[arg(long, default_value_t = 0.3)]
    lent: f64,
    /// Each lends and recollects
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// The slice beside reservations of this period
    #[arg(long, default_value_t = 500)]
    slice_us: u64,
}

/// When the client called, and how long that took.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Transfer {
    lends: bool,
    asked_ns: u64,
    took_ns: u64,
}

#[derive(Serialize)]
pub struct Credit {
    /// By how many slices of CPU time client and server are off their new parts of what both receive, counted from
    /// the begin of a call, at any time after it: the most of all transfers.
    settle_slices: f64,
    /// The same counted from times at which nothing changes: what slices alone make of shares.
    settled_slices: f64,
    call_mean_ms: f64,
    call_max_ms: f64,
    transfers: usize,
    options: Options,
}

pub fn run(options: Options) -> Result<Credit, Error> {
    let prepared = options.division.prepare(&[])?;
    let begin_ns = now_ns() + NS_PER_S;
    let end_ns = begin_ns + (2 * options.rounds as u64 + 1) * BETWEEN_NS;
    let schedule = Schedule {
        begin_ns,
        window_start_ns: begin_ns,
        window_end_ns: end_ns,
    };
    let server = spawn(|| {
        reserve(options.server)?;
        sleep_until_ns(schedule.begin_ns);
        Ok(work(end_ns))
    })?;
    let server_pid = server.pid as u32;
    let client = spawn(|| {
        reserve(options.client)?;
        sleep_until_ns(schedule.begin_ns);
        be_client(&options, server_pid, schedule)
    })?;
    let stranger: Child<()> = spawn(|| {
        prepared.take_none()?;
        hog(schedule)
    })?;
    let (transfers, clients) = client.wait()?;
    let servers = server.wait()?;
    stranger.wait()?;
    Ok(summary(options, &transfers, &clients, &servers))
}

fn reserve(rate: f64) -> Result<(), Error> {
    let wanted = consort::Reservation::in_class(CLASS).rate(rate);
    wanted.reserve().map_err(Error::Cooperation)
}

fn work(until_ns: u64) -> Vec<Ran> {
    let mut ran = Vec::new();
    work_until(until_ns, &mut ran);
    ran
}

fn be_client(
    options: &Options,
    server: u32,
    schedule: Schedule,
) -> Result<(Vec<Transfer>, Vec<Ran>), Error> {
    let mut ran = Vec::new();
    let mut transfers = Vec::new();
    for index in 0..2 * options.rounds {
        work_until(
            schedule.begin_ns + (index as u64 + 1) * BETWEEN_NS,
            &mut ran,
        );
        let lends = index % 2 == 0;
        let asked_ns = now_ns();
        if lends {
            consort::lend(server, options.lent)
        } else {
            consort::recollect(server, None)
        }
        .map_err(Error::Cooperation)?;
        transfers.push(Transfer {
            lends,
            asked_ns,
            took_ns: now_ns() - asked_ns,
        });
    }
    work_until(schedule.window_end_ns, &mut ran);
    Ok((transfers, ran))
}

/// By how much what the client received differs at most from its `part` of what both did, at any time after `from_ns`.
/// It is most off where a run begins or ends.
fn off_ns(clients: &[Ran], servers: &[Ran], from_ns: u64, part: f64) -> f64 {
    let until_ns = from_ns + WATCHED_NS;
    let within = |ran: &[Ran]| -> Vec<Ran> {
        ran.iter()
            .filter(|one| one.to_ns > from_ns && one.from_ns < until_ns)
            .map(|one| Ran {
                from_ns: one.from_ns.max(from_ns),
                to_ns: one.to_ns.min(until_ns),
            })
            .collect()
    };
    let mut runs: Vec<(Ran, bool)> = within(clients).into_iter().map(|ran| (ran, true)).collect();
    runs.extend(within(servers).into_iter().map(|ran| (ran, false)));
    runs.sort_by_key(|(ran, _)| ran.from_ns);
    let (mut clients_ns, mut both_ns, mut off_ns) = (0, 0, 0.0f64);
    for (ran, is_clients) in runs {
        let ran_ns = ran.to_ns - ran.from_ns;
        both_ns += ran_ns;
        clients_ns += if is_clients { ran_ns } else { 0 };
        off_ns = off_ns.max((clients_ns as f64 - part * both_ns as f64).abs());
    }
    off_ns
}

fn summary(options: Options, transfers: &[Transfer], clients: &[Ran], servers: &[Ran]) -> Credit {
    let slice_ns = options.slice_us as f64 * 1000.0;
    let off = |transfer: &Transfer, after_ns: u64| {
        let lent = if transfer.lends { options.lent } else { 0.0 };
        let part = (options.client - lent) / (options.client + options.server);
        off_ns(clients, servers, transfer.asked_ns + after_ns, part) / slice_ns
    };
    let most = |after_ns: u64| {
        let all = transfers.iter().map(|transfer| off(transfer, after_ns));
        all.fold(0.0, f64::max)
    };
    let took = |transfer: &Transfer| transfer.took_ns as f64 / NS_PER_MS as f64;
    Credit {
        settle_slices: most(0),
        settled_slices: most(SETTLED_AFTER_NS),
        call_mean_ms: transfers.iter().map(took).sum::<f64>() / transfers.len().max(1) as f64,
        call_max_ms: transfers.iter().map(took).fold(0.0, f64::max),
        transfers: transfers.len(),
        options,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Turns of 4 ms each.
    fn turns(first_ns: u64) -> Vec<Ran> {
        let begin = |turn: u64| first_ns + turn * 8_000_000;
        (0..100)
            .map(|turn| Ran {
                from_ns: begin(turn),
                to_ns: begin(turn) + 4_000_000,
            })
            .collect()
    }

    #[test]
    fn off_by_half_a_turn_where_parts_are_equal() {
        let (one, other) = (turns(0), turns(4_000_000));
        assert_eq!(off_ns(&one, &other, 0, 0.5), 2_000_000.0);
        assert_eq!(off_ns(&other, &one, 0, 0.5), 2_000_000.0);
        assert_eq!(off_ns(&one, &other, 2_000_000, 0.5), 1_000_000.0);
        assert!(off_ns(&one, &other, 0, 0.6) > 19_000_000.0);
    }
}
