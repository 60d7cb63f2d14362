// SPDX-License-Identifier: MIT OR Apache-2.0
//! Members that lie about their due times get no more than their share, and cost nobody else's.

use std::time::Duration;

use crate::{
    check,
    suite::{
        board::Field,
        process::{shares, Role},
        Cpus, Needs, Outcome, Test,
    },
};

pub const TESTS: &[Test] = &[
    Test { name: "liars.polite", cpus: Cpus::One, needs: Needs::Daemon, run: polite },
    Test { name: "liars.mute", cpus: Cpus::One, needs: Needs::Daemon, run: mute },
    Test { name: "liars.slot_of_ones", cpus: Cpus::One, needs: Needs::Daemon, run: ones },
    Test { name: "liars.random_slot", cpus: Cpus::One, needs: Needs::Daemon, run: random },
    Test { name: "liars.on_many_cpus", cpus: Cpus::Many, needs: Needs::Daemon, run: many },
];

/// Shares are of the guest's clock, which stands still now and then on a busy host.
const WINDOW: Duration = Duration::from_secs(4);
/// How far from the fair share an honest program may end, and a liar above it.
const SLACK: f64 = 0.35;

/// Two honest members and a liar in one domain, and a hog outside: a quarter each.
fn beside(liar: &str) -> Outcome {
    let honest = [Role::ready("member assembly")?, Role::ready("member assembly")?];
    let hog = Role::ready("hog")?;
    let liar = Role::ready(liar)?;
    std::thread::sleep(Duration::from_secs(1));
    let served = honest.each_ref().map(|member| member.get(Field::Served));
    let all = [&honest[0], &honest[1], &hog, &liar];
    let got = shares(&all, WINDOW)?;
    let fair = 1.0 / all.len() as f64;
    for (role, share) in all.iter().zip(&got).take(3) {
        check!(*share > fair * (1.0 - SLACK), "{:?} got {share:.3} of the CPU, fair is {fair:.3}; all: {got:.3?}", role.name);
    }
    check!(got[3] < fair * (1.0 + SLACK), "the liar got {:.3} of the CPU, fair is {fair:.3}; all: {got:.3?}", got[3]);
    for (member, served) in honest.iter().zip(served) {
        let more = member.get(Field::Served) - served;
        // A due event every 20 ms; half of them is generous.
        check!(more >= 100, "an honest member was served {more} due events in {} s", WINDOW.as_secs());
    }
    Ok(())
}

fn polite() -> Outcome {
    beside("polite-liar assembly")
}

fn mute() -> Outcome {
    beside("mute-liar assembly")
}

/// The vandal sleeps now and then, so it may get less than its share; the others share what it leaves.
fn ones() -> Outcome {
    beside("scribbler assembly ones")
}

fn random() -> Outcome {
    beside("scribbler assembly random")
}

/// On several CPUs: nobody starves, and the liars do not get more than the honest.
fn many() -> Outcome {
    let honest: Vec<Role> = (0..4).map(|_| Role::ready("member assembly")).collect::<Result<_, _>>()?;
    let hogs: Vec<Role> = (0..2).map(|_| Role::ready("hog")).collect::<Result<_, _>>()?;
    let liars = [Role::ready("polite-liar assembly")?, Role::ready("mute-liar assembly")?];
    std::thread::sleep(Duration::from_secs(1));
    let all: Vec<&Role> = honest.iter().chain(&hogs).chain(&liars).collect();
    let got = shares(&all, WINDOW)?;
    let fair = 1.0 / all.len() as f64;
    for (role, share) in all.iter().zip(&got) {
        check!(*share > fair * 0.4, "{:?} got {share:.3}, fair is {fair:.3}; all: {got:.3?}", role.name);
    }
    for share in &got[6..] {
        check!(*share < fair * 1.6, "a liar got {share:.3}, fair is {fair:.3}; all: {got:.3?}");
    }
    Ok(())
}
