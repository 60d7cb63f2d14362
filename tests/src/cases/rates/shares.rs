// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who has reserved gets its share, whatever all others do.

use super::*;
use crate::suite::machine::{to_root_cgroup, Cgroup};

/// Effective rates, all of them wanted: in each window of one second.
pub fn every_second() -> Outcome {
    await_no_reservations()?;
    let all = hogs(5)?;
    reserve(&all[0], "guaranteed", "0.3")?;
    reserve(&all[1], "guaranteed", "0.2")?;
    reserve(&all[2], "adaptive", "0.425")?;
    let roles: Vec<&Role> = all.iter().collect();
    std::thread::sleep(Duration::from_millis(300));
    for _ in 0..10 {
        expect_shares(&roles, SECOND, &[0.3, 0.2, 0.25, 0.125, 0.125])?;
    }
    for held in reservations()? {
        let (used, given) = (held["used"][0].as_f64(), held["given"].as_f64());
        let (used, given) = (used.unwrap_or_default(), given.unwrap_or_default());
        check!(
            (used - given).abs() < SLACK,
            "usage says that {used} of {given} are used: {held}"
        );
    }
    Ok(())
}

/// A hundred programs that have reserved nothing take nothing from one that has.
pub fn crowd() -> Outcome {
    await_no_reservations()?;
    let reserved = Role::ready("hog")?;
    reserve(&reserved, "guaranteed", "0.5")?;
    reserved.signal(Signal::SIGSTOP)?;
    let crowd = hogs(100)?;
    reserved.signal(Signal::SIGCONT)?;
    let mut roles: Vec<&Role> = crowd.iter().collect();
    roles.push(&reserved);
    std::thread::sleep(Duration::from_millis(300));
    let got = shares(&roles, WINDOW)?;
    let share = got.last().copied().unwrap_or_default();
    // The adaptive class sleeps: its quarter goes to the others in proportion.
    let expected = 0.5 / 0.75;
    check!(
        (share - expected).abs() < SLACK,
        "the share is {share:.4} instead of {expected:.4}"
    );
    Ok(())
}

pub fn change_and_release() -> Outcome {
    await_no_reservations()?;
    let all = hogs(3)?;
    let roles: Vec<&Role> = all.iter().collect();
    reserve(&all[0], "guaranteed", "0.25")?;
    reserve(&all[1], "guaranteed", "0.25")?;
    expect_shares(&roles, WINDOW, &[1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0])?;
    // Another rate, in one request.
    reserve(&all[1], "guaranteed", "0.125")?;
    expect_shares(&roles, WINDOW, &[4.0 / 9.0, 2.0 / 9.0, 3.0 / 9.0])?;
    // Another class: three classes are active.
    reserve(&all[1], "adaptive", "0.125")?;
    expect_shares(&roles, WINDOW, &[0.5, 0.25, 0.25])?;
    release(&all[0])?;
    expect_shares(&roles, WINDOW, &[0.25, 0.5, 0.25])?;
    release(&all[1])?;
    let third = 1.0 / 3.0;
    expect_shares(&roles, WINDOW, &[third, third, third])?;
    let left = reservations()?;
    check!(left.is_empty(), "there still are {left:?}");
    Ok(())
}

/// What a stopped program has reserved goes to the others in proportion, and is its own again when it goes on.
pub fn sleepers() -> Outcome {
    await_no_reservations()?;
    let all = hogs(3)?;
    let roles: Vec<&Role> = all.iter().collect();
    reserve(&all[0], "guaranteed", "0.5")?;
    reserve(&all[1], "adaptive", "0.25")?;
    for _ in 0..3 {
        all[0].signal(Signal::SIGSTOP)?;
        std::thread::sleep(Duration::from_millis(300));
        expect_shares(&roles, SECOND, &[0.0, 0.5, 0.5])?;
        all[0].signal(Signal::SIGCONT)?;
        std::thread::sleep(Duration::from_millis(300));
        expect_shares(&roles, SECOND, &[0.5, 0.25, 0.25])?;
    }
    Ok(())
}

/// A process' threads and its children share what it has reserved, those that come later too; released, none has it.
pub fn family() -> Outcome {
    await_no_reservations()?;
    let parent = Role::ready("family")?;
    let others = hogs(2)?;
    reserve(&parent, "guaranteed", "0.5")?;
    parent.command(1)?;
    let child = parent.get(Field::Extra) as u32;
    let measure = || -> Result<(f64, f64), String> {
        let times = || -> Result<[u64; 4], String> {
            let child = machine::cpu_time_ns(child)?;
            let [one, other] = [others[0].cpu_time_ns()?, others[1].cpu_time_ns()?];
            Ok([parent.cpu_time_ns()?, child, one, other])
        };
        std::thread::sleep(Duration::from_millis(300));
        let before = times()?;
        std::thread::sleep(WINDOW);
        let after = times()?;
        let got: Vec<f64> = (0..4).map(|i| (after[i] - before[i]) as f64).collect();
        let all: f64 = got.iter().sum();
        Ok((got[0] / all, got[1] / all))
    };
    // Two hog threads of the parent and one of the child.
    let (own, childs) = measure()?;
    let family = 0.5 / 0.75;
    check!(
        (own + childs - family).abs() < SLACK && (childs - family / 3.0).abs() < SLACK,
        "the parent got {own:.4} and the child {childs:.4}, of {family:.4}"
    );
    let held = reservations()?;
    check!(
        held[0]["threads"].as_u64() == Some(3),
        "three threads share it, not {held:?}"
    );
    release(&parent)?;
    let (own, childs) = measure()?;
    check!(
        (own - 0.4).abs() < SLACK && (childs - 0.2).abs() < SLACK,
        "released, the parent got {own:.4} and the child {childs:.4}"
    );
    Ok(())
}

/// A cooperating program that is always due borrows from nobody's reservation, and may have one of its own: its domain then
/// has a seat there.
pub fn beside_a_domain() -> Outcome {
    let reserved = Role::ready("hog")?;
    let liar = Role::ready("polite-liar rates due")?;
    reserve(&reserved, "guaranteed", "0.5")?;
    std::thread::sleep(Duration::from_millis(300));
    let expected = 0.5 / 0.75;
    expect_shares(&[&reserved, &liar], WINDOW, &[expected, 1.0 - expected])?;
    let pid = liar.pid().to_string();
    let said = consort(&["reserve", &pid, "--class", "adaptive", "--rate", "0.1"])?;
    said.expect(0, &[])?;
    expect_shares(&[&reserved, &liar], WINDOW, &[expected, 1.0 - expected])
}

/// A cgroup's reservation is for who is in it, at that time: those moved in and out, in cgroups below it, with the weights
/// that these have; it ends with the cgroup.
pub fn cgroup() -> Outcome {
    await_no_reservations()?;
    let films = Cgroup::create(None, "films")?;
    films.divide()?;
    let [heavy, light] = ["heavy", "light"].map(|name| Cgroup::create(Some(&films), name));
    let (heavy, light) = (heavy?, light?);
    heavy.set_weight(300)?;
    let all = hogs(3)?;
    let roles: Vec<&Role> = all.iter().collect();
    heavy.adopt(all[0].pid())?;
    light.adopt(all[1].pid())?;
    let reserve =
        |named: &str, rate| consort(&["reserve", named, "--class", "guaranteed", "--rate", rate]);
    reserve("films", "0.4")?.expect(0, &[])?;
    // The class has two thirds while the adaptive one sleeps.
    expect_shares(&roles, WINDOW, &[0.5, 1.0 / 6.0, 1.0 / 3.0])?;
    reserve("films/light", "0.1")?.expect(1, &["films/light", "has a reservation"])?;
    let said = consort_as(ALICE, &["release", "films"])?;
    said.expect(4, &["belongs to user 0"])?;
    light.adopt(all[2].pid())?;
    to_root_cgroup(all[1].pid())?;
    expect_shares(&roles, WINDOW, &[0.5, 1.0 / 3.0, 1.0 / 6.0])?;
    let held = reservations()?;
    let used = held[0]["used"][0].as_f64().unwrap_or_default();
    check!(
        held[0]["kind"] == "cgroup" && (used - 2.0 / 3.0).abs() < SLACK,
        "the cgroup's reservation is {held:?}"
    );
    consort(&["release", "/sys/fs/cgroup/films"])?.expect(0, &[])?;
    let half = 1.0 / 2.0;
    expect_shares(&roles, WINDOW, &[0.75 * half, half, 0.25 * half])?;
    reserve("films", "0.4")?.expect(0, &[])?;
    for role in &all {
        to_root_cgroup(role.pid())?;
    }
    drop((heavy, light, films));
    await_no_reservations()?;
    let third = 1.0 / 3.0;
    expect_shares(&roles, WINDOW, &[third, third, third])
}

/// On several CPUs who has reserved gets its rate wherever it runs, more hogs than CPUs beside it, however unequal the rates
/// of one class are. Emulated CPUs do not run at the same time: one good window of four will do.
pub fn many_cpus() -> Outcome {
    // Served alike, each of the four would have a sixth of the machine, as it did; without a rate, a tenth.
    const RATES: [f64; 4] = [0.75, 0.2, 0.2, 0.1];
    await_no_reservations()?;
    let all = hogs(10)?;
    let roles: Vec<&Role> = all.iter().collect();
    for (role, rate) in all.iter().zip(RATES) {
        reserve(role, "guaranteed", &rate.to_string())?;
    }
    let expected = RATES.map(|rate| rate / machine::possible_cpus() as f64);
    let mut got = Vec::new();
    for _ in 0..4 {
        got = shares(&roles, WINDOW)?;
        if got
            .iter()
            .zip(expected)
            .all(|(share, due)| *share > due - SLACK)
        {
            return Ok(());
        }
    }
    check!(
        false,
        "shares {got:.4?}: the first ones should be {expected:.4?} or more"
    );
    Ok(())
}
