// SPDX-License-Identifier: MIT OR Apache-2.0
//! Players and bystanders started together, measured over a common window, and merged.

use crate::clock::{now_ns, sleep_until_ns, NS_PER_MS, NS_PER_S};
use crate::counters;
use crate::error::Error;
use crate::player::{Player, Record, Settings, FRAMES_PER_S, FRAME_PERIOD_NS};
use crate::processes::{spawn, Child};
use crate::statistics::{mean, variation_percent, Distribution};
use crate::{cooperative, monolithic, plain, work};
use clap::{Args, ValueEnum};
use consort_sim::random::Random;
use serde::Serialize;

/// The load of baseline measurements: six players just fit one CPU.
pub const DEFAULT_LOAD: f64 = 1.0 / 6.5;
/// Time for all processes to be started, and to join.
const START_DELAY_NS: u64 = 500 * NS_PER_MS;
/// Phases are spread evenly, and moved from there by up to this part of the gap, by the seed.
const PHASE_JITTER: f64 = 0.25;
/// Counters are read this long outside the window, so that reading them is not in it.
const COUNTER_MARGIN_NS: u64 = 50 * NS_PER_MS;
/// Late due events that a result lists.
const WORST_COUNT: usize = 5;
/// How long a hog works between looks at the clock.
const HOG_PIECE_NS: u64 = 200_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// One process each, which know nothing of each other
    Plain,
    /// One process each, cooperating through libconsort
    Coop,
    /// All in one process with an earliest-due dispatcher: the ideal
    Monolithic,
}

#[derive(Clone, Debug, Args, Serialize)]
pub struct FleetOptions {
    #[arg(long, value_enum)]
    pub mode: Mode,
    /// Number of players
    #[arg(long, short = 'n')]
    pub players: usize,
    /// Mean load of a player as a fraction of the CPU
    #[arg(long, default_value_t = DEFAULT_LOAD)]
    pub load: f64,
    /// Spread the players' loads from 0.5 to 1.5 times --load
    #[arg(long)]
    pub unequal: bool,
    /// Longest piece of decoding between two looks at the clock, in us
    #[arg(long, default_value_t = 1000)]
    pub chunk_us: u64,
    /// End a chunk when the player's own next frame is due
    #[arg(long)]
    pub cut_chunks: bool,
    /// A frame that is skipped is no due event
    #[arg(long)]
    pub only_shown: bool,
    /// Length of the measured window
    #[arg(long, default_value_t = 20)]
    pub seconds: u64,
    /// Playing before the window
    #[arg(long, default_value_t = 2)]
    pub warmup_seconds: u64,
    /// Chooses films and phases
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub membership: cooperative::Membership,
    /// CPU hogs outside
    #[arg(long, default_value_t = 0)]
    pub hogs: usize,
    /// Members that never poll
    #[arg(long, default_value_t = 0)]
    pub mute_liars: usize,
    /// Members that poll every ms, with a due time that is always past
    #[arg(long, default_value_t = 0)]
    pub polite_liars: usize,
}

impl FleetOptions {
    /// From when to when is measured, of a fleet that is started now.
    pub fn window_ns(&self, now_ns: u64) -> (u64, u64) {
        let start_ns = now_ns + START_DELAY_NS + self.warmup_seconds * NS_PER_S;
        (start_ns, start_ns + self.seconds * NS_PER_S)
    }
}

/// The common times of all processes.
#[derive(Clone, Copy)]
pub struct Schedule {
    pub begin_ns: u64,
    pub window_start_ns: u64,
    pub window_end_ns: u64,
}

impl Schedule {
    /// Counts for so many seconds, from a second after the begin on.
    pub fn after_a_second(begin_ns: u64, seconds: u64) -> Self {
        let window_start_ns = begin_ns + NS_PER_S;
        Self {
            begin_ns,
            window_start_ns,
            window_end_ns: window_start_ns + seconds * NS_PER_S,
        }
    }

    /// When processes that are not players end: after the last counter was read.
    pub fn stop_at_ns(&self) -> u64 {
        self.window_end_ns + 2 * COUNTER_MARGIN_NS
    }
}

#[derive(Serialize)]
struct PlayerSummary {
    load: f64,
    frames_per_s: f64,
    decode_percent: f64,
    wasted_percent: f64,
    polls_per_s: f64,
    served: u64,
    /// Of the CPU, all work included; null where players share a process.
    share_percent: Option<f64>,
    shown_per_s: Vec<u64>,
}

#[derive(Serialize)]
struct Bystander {
    kind: &'static str,
    share_percent: f64,
}

/// A late due event: which player's, and when it was due on CLOCK_MONOTONIC, to find it in a trace.
#[derive(Serialize)]
struct Late {
    player: usize,
    due_s: f64,
    tardiness_ms: f64,
}

#[derive(Serialize)]
pub struct FleetResult {
    options: FleetOptions,
    tardiness: Distribution,
    #[serde(skip)]
    tardiness_ns: Vec<u64>,
    /// The latest due events, for whoever looks for the cause.
    worst: Vec<Late>,
    frames_per_s_mean: f64,
    frames_per_s_cv_percent: f64,
    decode_cpu_percent: f64,
    useful_cpu_percent: f64,
    switches_per_s: f64,
    /// Of the players alone.
    own_switches_per_s: f64,
    polls_per_s: f64,
    /// Turns that members at user level gave to each other.
    handovers_per_s: Option<f64>,
    /// The machine's, for each turn that members at user level gave to each other.
    switches_per_handover: Option<f64>,
    /// Of the players' CPU time.
    share_cv_percent: Option<f64>,
    /// Between the players with the most and the fewest due events served, from the beginning on.
    served_spread: u64,
    bystanders: Vec<Bystander>,
    players: Vec<PlayerSummary>,
}

impl FleetResult {
    pub fn tardiness_mean_ms(&self) -> f64 {
        self.tardiness.mean_ms
    }

    pub fn decode_cpu_percent(&self) -> f64 {
        self.decode_cpu_percent
    }

    /// Due events that were served later than that.
    pub fn later_than(&self, ms: f64) -> u64 {
        let is_later = |tardiness_ns: &&u64| **tardiness_ns as f64 > ms * NS_PER_MS as f64;
        self.tardiness_ns.iter().filter(is_later).count() as u64
    }
}

/// Counters of the machine, of the players' processes and of the bystanders at one instant.
struct Snapshot {
    at_ns: u64,
    switches: u64,
    own_switches: u64,
    handovers: Option<u64>,
    players_cpu_ns: Vec<u64>,
    cpu_ns: Vec<u64>,
}

impl Snapshot {
    fn take(
        domain: &str,
        players: &[Child<Vec<Record>>],
        bystanders: &[(&'static str, Child<()>)],
    ) -> Result<Self, Error> {
        let players = players.iter().map(|child| child.pid);
        let bystanders = bystanders.iter().map(|(_, child)| child.pid);
        Ok(Self {
            at_ns: now_ns(),
            switches: counters::context_switches()?,
            own_switches: players
                .clone()
                .map(|pid| counters::switches_of(pid).map(|(own, others)| own + others))
                .sum::<Result<_, _>>()?,
            handovers: counters::handovers(domain),
            players_cpu_ns: players
                .map(counters::cpu_time_ns)
                .collect::<Result<_, _>>()?,
            cpu_ns: bystanders
                .map(counters::cpu_time_ns)
                .collect::<Result<_, _>>()?,
        })
    }

    /// None where nobody gives turns away at user level.
    fn handovers(&self, before: &Self) -> Option<u64> {
        self.handovers?.checked_sub(before.handovers?)
    }

    fn switches_per_handover(&self, before: &Self) -> Option<f64> {
        let handovers = self.handovers(before)?;
        let switches = (self.switches - before.switches) as f64;
        (handovers > 0).then(|| switches / handovers as f64)
    }

    /// Parts of the CPU since `before`, in percent.
    fn shares_percent(&self, before: &Self, of: fn(&Self) -> &[u64]) -> Vec<f64> {
        let counted_ns = (self.at_ns - before.at_ns) as f64;
        let pairs = of(before).iter().zip(of(self));
        pairs
            .map(|(from_ns, to_ns)| 100.0 * (to_ns - from_ns) as f64 / counted_ns)
            .collect()
    }
}

/// Runs a fleet and merges what its processes report.
pub fn run(options: FleetOptions) -> Result<FleetResult, Error> {
    if options.players == 0 || options.seconds == 0 || options.chunk_us == 0 {
        return Err(Error::Usage(
            "--players, --seconds and --chunk-us must be at least 1".into(),
        ));
    }
    if options.only_shown && options.mode == Mode::Monolithic {
        return Err(Error::Usage(
            "--only-shown is for players with a process each, expected another --mode".into(),
        ));
    }
    let begin_ns = now_ns() + START_DELAY_NS;
    let (window_start_ns, window_end_ns) = options.window_ns(begin_ns - START_DELAY_NS);
    let schedule = Schedule {
        begin_ns,
        window_start_ns,
        window_end_ns,
    };
    let players = start_players(&options, schedule)?;
    let bystanders = start_bystanders(&options, schedule)?;

    sleep_until_ns(schedule.window_start_ns - COUNTER_MARGIN_NS);
    let before = Snapshot::take(&options.membership.domain, &players, &bystanders)?;
    sleep_until_ns(schedule.window_end_ns + COUNTER_MARGIN_NS);
    let after = Snapshot::take(&options.membership.domain, &players, &bystanders)?;

    let kinds: Vec<&'static str> = bystanders.iter().map(|(kind, _)| *kind).collect();
    let mut records = Vec::new();
    for child in players {
        records.extend(child.wait()?);
    }
    for (_, child) in bystanders {
        child.wait()?;
    }
    Ok(merge(options, records, &kinds, &before, &after))
}

fn start_players(
    options: &FleetOptions,
    schedule: Schedule,
) -> Result<Vec<Child<Vec<Record>>>, Error> {
    let settings = player_settings(options, schedule);
    let start = |settings: Vec<Settings>| {
        let options = options.clone();
        spawn(move || {
            crate::clock::no_timer_slack();
            crate::processes::lock_memory();
            let mut players = settings.into_iter().map(Player::new);
            match options.mode {
                Mode::Monolithic => {
                    sleep_until_ns(schedule.begin_ns);
                    Ok(monolithic::play(players.collect()))
                }
                Mode::Plain => {
                    sleep_until_ns(schedule.begin_ns);
                    Ok(players.next().map(plain::play).into_iter().collect())
                }
                Mode::Coop => players
                    .next()
                    .map(|player| cooperative::play(player, &options, schedule))
                    .into_iter()
                    .collect(),
            }
        })
    };
    if options.mode == Mode::Monolithic {
        return Ok(vec![start(settings)?]);
    }
    settings.into_iter().map(|one| start(vec![one])).collect()
}

fn player_settings(options: &FleetOptions, schedule: Schedule) -> Vec<Settings> {
    let mut random = Random::new(options.seed);
    let gap_ns = FRAME_PERIOD_NS as f64 / options.players as f64;
    (0..options.players)
        .map(|index| {
            let jitter = (random.unit() * 2.0 - 1.0) * PHASE_JITTER;
            let phase_ns = ((index as f64 + 1.0 + jitter) * gap_ns) as u64;
            let place = index as f64 / (options.players.max(2) - 1) as f64;
            Settings {
                seed: random.next_u64(),
                load: options.load * if options.unequal { 0.5 + place } else { 1.0 },
                chunk_ns: options.chunk_us * 1000,
                cuts_chunks: options.cut_chunks,
                only_shown: options.only_shown,
                first_due_ns: schedule.begin_ns + FRAME_PERIOD_NS + phase_ns,
                window_start_ns: schedule.window_start_ns,
                window_end_ns: schedule.window_end_ns,
            }
        })
        .collect()
}

fn start_bystanders(
    options: &FleetOptions,
    schedule: Schedule,
) -> Result<Vec<(&'static str, Child<()>)>, Error> {
    let mut bystanders = Vec::new();
    for _ in 0..options.hogs {
        bystanders.push(("hog", spawn(move || hog(schedule))?));
    }
    for _ in 0..options.mute_liars {
        let options = options.clone();
        let lie = move || cooperative::lie_mutely(&options, schedule);
        bystanders.push(("mute_liar", spawn(lie)?));
    }
    for _ in 0..options.polite_liars {
        let options = options.clone();
        let lie = move || cooperative::lie_politely(&options, schedule);
        bystanders.push(("polite_liar", spawn(lie)?));
    }
    Ok(bystanders)
}

/// Uses all the CPU it is given.
pub fn hog(schedule: Schedule) -> Result<(), Error> {
    sleep_until_ns(schedule.begin_ns);
    while now_ns() < schedule.stop_at_ns() {
        work::burn_ns(HOG_PIECE_NS);
    }
    Ok(())
}

fn merge(
    options: FleetOptions,
    records: Vec<Record>,
    kinds: &[&'static str],
    before: &Snapshot,
    after: &Snapshot,
) -> FleetResult {
    let window_s = options.seconds as f64;
    let percent_of_window = |time_ns: u64| 100.0 * time_ns as f64 / (window_s * NS_PER_S as f64);
    let counted_ns = (after.at_ns - before.at_ns) as f64;
    let per_s = |count: u64| count as f64 * NS_PER_S as f64 / counted_ns;
    let shares = after.shares_percent(before, |it| &it.players_cpu_ns);
    let is_each_alone = shares.len() == records.len();
    let players: Vec<PlayerSummary> = records
        .iter()
        .enumerate()
        .map(|(index, record)| PlayerSummary {
            load: record.load,
            frames_per_s: record.shown as f64 / window_s,
            decode_percent: percent_of_window(record.decode_ns),
            wasted_percent: percent_of_window(record.wasted_ns),
            polls_per_s: record.polls as f64 / window_s,
            served: record.served,
            share_percent: is_each_alone.then(|| shares[index]),
            shown_per_s: record.shown_per_s.clone(),
        })
        .collect();
    let frame_rates: Vec<f64> = players.iter().map(|player| player.frames_per_s).collect();
    let sum = |value: fn(&PlayerSummary) -> f64| players.iter().map(value).sum::<f64>();
    let decode_cpu_percent = sum(|player| player.decode_percent);
    let bystanders = kinds
        .iter()
        .zip(after.shares_percent(before, |it| &it.cpu_ns))
        .map(|(&kind, share_percent)| Bystander {
            kind,
            share_percent,
        })
        .collect();
    let tardiness_ns = records
        .iter()
        .flat_map(|it| it.tardiness_ns.iter().copied());
    let tardiness_ns: Vec<u64> = tardiness_ns.collect();
    let served = || players.iter().map(|player| player.served);
    FleetResult {
        worst: worst(&records),
        tardiness: Distribution::of_ns(tardiness_ns.clone()),
        tardiness_ns,
        frames_per_s_mean: mean(&frame_rates),
        frames_per_s_cv_percent: variation_percent(&frame_rates),
        decode_cpu_percent,
        useful_cpu_percent: decode_cpu_percent - sum(|player| player.wasted_percent),
        switches_per_s: per_s(after.switches - before.switches),
        own_switches_per_s: per_s(after.own_switches.saturating_sub(before.own_switches)),
        handovers_per_s: after.handovers(before).map(per_s),
        polls_per_s: sum(|player| player.polls_per_s),
        switches_per_handover: after.switches_per_handover(before),
        share_cv_percent: is_each_alone.then(|| variation_percent(&shares)),
        served_spread: served().max().unwrap_or(0) - served().min().unwrap_or(0),
        bystanders,
        players,
        options,
    }
}

fn worst(records: &[Record]) -> Vec<Late> {
    let mut late: Vec<Late> = Vec::new();
    for (player, record) in records.iter().enumerate() {
        for (index, &tardiness_ns) in record.tardiness_ns.iter().enumerate() {
            late.push(Late {
                player,
                due_s: record.first_due_ns as f64 / NS_PER_S as f64
                    + index as f64 / FRAMES_PER_S as f64,
                tardiness_ms: tardiness_ns as f64 / NS_PER_MS as f64,
            });
        }
    }
    late.sort_by(|one, other| other.tardiness_ms.total_cmp(&one.tardiness_ms));
    late.truncate(WORST_COUNT);
    late
}
