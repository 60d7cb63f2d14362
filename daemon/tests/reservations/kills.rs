// SPDX-License-Identifier: MIT OR Apache-2.0
//! The daemon is killed a thousand times, in the middle of requests made up at random: nothing that it said yes to is lost,
//! and nothing else is in force.

use std::{
    collections::BTreeMap,
    panic::{catch_unwind, AssertUnwindSafe},
};

use consort_daemon::division::ReservationPage;

use crate::world::{World, ROOT, USER};

const KILLS: u32 = 1000;
/// The processes that requests are about.
const PROCESSES: u64 = 5;
/// Calls to the scheduler after which a daemon is killed, at most: more than any request makes here.
const CALLS: u64 = 8;

/// The same numbers each time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

#[derive(Debug, Clone, Copy)]
enum Request {
    Reserve {
        whose: i32,
        class: &'static str,
        rate: f64,
    },
    Release {
        whose: i32,
    },
    Lend {
        from: i32,
        to: i32,
        rate: f64,
    },
    TakeBack {
        from: i32,
        to: i32,
        rate: Option<f64>,
    },
}

impl Request {
    fn any(random: &mut Random) -> Request {
        let mut one = || USER + random.below(PROCESSES) as i32;
        let (whose, to) = (one(), one());
        let rate = (1 + random.below(5)) as f64 * 0.02;
        let class = ["guaranteed", "adaptive"][random.below(4) as usize / 3];
        match random.below(8) {
            0..=2 => Request::Reserve { whose, class, rate },
            3 => Request::Release { whose },
            4..=5 => Request::Lend {
                from: whose,
                to,
                rate,
            },
            _ => Request::TakeBack {
                from: whose,
                to,
                rate: (random.below(2) == 0).then_some(rate),
            },
        }
    }

    /// Whether it was granted.
    fn make(self, world: &mut World) -> bool {
        match self {
            Request::Reserve { whose, class, rate } => {
                world.reserve(ROOT, whose, class, rate).is_ok()
            }
            Request::Release { whose } => world.release(whose).is_ok(),
            Request::Lend { from, to, rate } => world.lend(from, to, rate).is_ok(),
            Request::TakeBack { from, to, rate } => world.take_back(from, to, rate).is_ok(),
        }
    }
}

/// What there is: by process its class and what it may use, and who has lent how much to whom, in millionths.
type Books = (BTreeMap<i32, (String, u64)>, BTreeMap<(i32, i32), u64>);

fn books(world: &World) -> Books {
    let page = ReservationPage::of(&world.service, None, None);
    assert!(!page.more);
    let held = page.reservations.iter();
    let process: BTreeMap<u32, i32> = held.map(|held| (held.reservation, held.number)).collect();
    let credits = page.reservations.iter().flat_map(|held| {
        let lent = held.lent.iter();
        lent.map(|credit| {
            let rate = (credit.rate * 1e6).round() as u64;
            ((held.number, process[&credit.reservation]), rate)
        })
    });
    (world.admitted(), credits.collect())
}

/// Beside a world that is never killed. The scheduler goes with the daemon, or goes on, by turns.
#[test]
fn a_thousand_kills_lose_nothing() {
    let mut random = Random(0x2545_f491);
    let (mut world, mut unharmed) = (World::new(), World::new());
    let (mut kills, mut undone, mut granted) = (0, 0, 0);
    while kills < KILLS {
        let request = Request::any(&mut random);
        world.host.record().dies_after = Some(random.below(CALLS) as u32);
        let made = catch_unwind(AssertUnwindSafe(|| request.make(&mut world)));
        let before = books(&unharmed);
        let expected = request.make(&mut unharmed);
        granted += u32::from(expected);
        match made {
            Ok(made) => {
                world.host.record().dies_after = None;
                assert_eq!(made, expected, "{request:?}");
            }
            Err(_) => {
                kills += 1;
                world = match random.below(2) {
                    0 => World::beside(world.killed()),
                    _ => world.taken_over(),
                };
                if books(&world) != books(&unharmed) {
                    undone += 1;
                    let text = format!("after {kills} kills, the last one in {request:?}");
                    assert_eq!(books(&world), before, "{text}");
                    assert_eq!(request.make(&mut world), expected, "{text}");
                }
            }
        }
        assert_eq!(books(&world), books(&unharmed), "{request:?}");
        assert_eq!(world.in_force(), world.admitted(), "{request:?}");
    }
    // Else it would show little.
    assert!(granted > KILLS && undone > KILLS / 10, "{granted} {undone}");
}
