// SPDX-License-Identifier: MIT OR Apache-2.0
//! Members that lie in their slots get no more than their share, and cost nobody else's.
//!
//! In a domain that orders by published keys, members trust each other's keys: there a liar may lie about its due
//! times only. A domain that orders by measured service trusts nothing.

use std::time::Duration;

use crate::{
    check,
    suite::{
        board::Field,
        process::{shares, shares_in_some_window, Role},
        Cpus, Needs, Outcome, Test,
    },
};

pub const TESTS: &[Test] = &[
    Test::on_one("liars.polite", Needs::Daemon, || {
        beside("assembly", "polite-liar assembly due")
    }),
    Test::on_one("liars.mute", Needs::Daemon, || {
        beside("assembly", "mute-liar assembly due")
    }),
    Test::on_one("liars.polite_among_strangers", Needs::Daemon, || {
        beside("strangers:service", "polite-liar strangers:service all")
    }),
    Test::on_one("liars.mute_among_strangers", Needs::Daemon, || {
        beside("strangers:service", "mute-liar strangers:service all")
    }),
    Test::on_one("liars.slot_of_ones", Needs::Daemon, || {
        beside("strangers:service", "scribbler strangers:service ones")
    }),
    Test::on_one("liars.random_slot", Needs::Daemon, || {
        beside("strangers:service", "scribbler strangers:service random")
    }),
    Test {
        name: "liars.on_many_cpus",
        cpus: Cpus::Many,
        needs: Needs::Daemon,
        run: many,
    },
];

const WINDOW: Duration = Duration::from_secs(3);
/// How far below the fair share an honest program may end, and a liar above it.
const SLACK: f64 = 0.25;

/// Two honest members and a liar in one domain, and a hog outside: a quarter each.
fn beside(domain: &str, liar: &str) -> Outcome {
    let member = format!("member {domain}");
    let honest = [Role::ready(&member)?, Role::ready(&member)?];
    let hog = Role::ready("hog")?;
    let liar = Role::ready(liar)?;
    std::thread::sleep(Duration::from_secs(1));
    let served = honest.each_ref().map(|member| member.get(Field::Served));
    let all = [&honest[0], &honest[1], &hog, &liar];
    let got = shares(&all, WINDOW)?;
    let fair = 1.0 / all.len() as f64;
    let shown = format!("shares of two honest members, the hog, the liar: {got:.3?}");
    check!(
        got[..3].iter().all(|share| *share > fair * (1.0 - SLACK)),
        "an honest program got too little; {shown}"
    );
    check!(
        got[3] < fair * (1.0 + SLACK),
        "the liar got too much; {shown}"
    );
    for (member, served) in honest.iter().zip(served) {
        let more = member.get(Field::Served) - served;
        // A due event every 20 ms; half of them is generous.
        check!(
            more >= 75,
            "an honest member was served {more} due events in {} s; {shown}",
            WINDOW.as_secs()
        );
    }
    Ok(())
}

/// On several CPUs: nobody starves, and the liars do not get more than the honest.
fn many() -> Outcome {
    let several = |number, words| {
        (0..number)
            .map(|_| Role::ready(words))
            .collect::<Result<Vec<_>, _>>()
    };
    let (honest, hogs) = (several(4, "member assembly")?, several(2, "hog")?);
    let liars = [
        Role::ready("polite-liar assembly due")?,
        Role::ready("mute-liar assembly due")?,
    ];
    std::thread::sleep(Duration::from_secs(1));
    let all: Vec<&Role> = honest.iter().chain(&hogs).chain(&liars).collect();
    let fair = 1.0 / all.len() as f64;
    shares_in_some_window(&all, WINDOW, |got| {
        let shown = format!("shares of four honest members, two hogs, two liars: {got:.3?}");
        check!(
            got.iter().all(|share| *share > fair * 0.4),
            "somebody starves; {shown}"
        );
        check!(
            got[6..].iter().all(|share| *share < fair * 1.6),
            "a liar got too much; {shown}"
        );
        Ok(())
    })
}
