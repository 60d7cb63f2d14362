// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who gets how much: nice values, cgroup weights, and changes of both while programs run. Only ratios within one run are
//! asserted, with room for an emulator that is not alone on its machine.

use std::time::Duration;

use crate::{
    check,
    suite::{
        machine::{to_root_cgroup, Cgroup},
        process::{set_policy, shares, shares_in_some_window, Role},
        Cpus, Needs, Outcome, Test,
    },
};

pub const TESTS: &[Test] = &[
    Test {
        name: "fairness.nice",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: nice,
    },
    Test {
        name: "fairness.idle_policy",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: idle_policy,
    },
    Test {
        name: "fairness.renice",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: renice,
    },
    Test {
        name: "fairness.cpu_weight",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: cpu_weight,
    },
    Test {
        name: "fairness.weight_changes",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: weight_changes,
    },
    Test {
        name: "fairness.nested",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: nested,
    },
    Test {
        name: "fairness.joining_gains_nothing",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: joining,
    },
    Test {
        name: "fairness.domain_over_cgroups",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: domain_over_cgroups,
    },
    Test {
        name: "fairness.moved",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: moved,
    },
    Test {
        name: "fairness.domain_gets_its_members_sum",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: domain_sum,
    },
    Test {
        name: "fairness.cgroups_come_and_go",
        cpus: Cpus::Any,
        needs: Needs::Daemon,
        run: come_and_go,
    },
    Test {
        name: "fairness.many_hogs",
        cpus: Cpus::Many,
        needs: Needs::Daemon,
        run: many_hogs,
    },
    Test {
        name: "fairness.many_weights",
        cpus: Cpus::Many,
        needs: Needs::Daemon,
        run: many_weights,
    },
];

const WINDOW: Duration = Duration::from_secs(3);
const SLACK: f64 = 0.15;

/// Fails unless each role's share is as expected, within the slack.
fn expect_shares(roles: &[&Role], expected: &[f64]) -> Outcome {
    std::thread::sleep(Duration::from_millis(300));
    let got = shares(roles, WINDOW)?;
    let fits = |(got, expected): (&f64, &f64)| (got / expected - 1.0).abs() < SLACK;
    check!(
        got.iter().zip(expected).all(fits),
        "shares {got:.3?} instead of {expected:.3?}"
    );
    Ok(())
}

pub(super) fn set_nice(role: &Role, nice: i32) -> Outcome {
    // SAFETY: no memory is involved.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, role.pid(), nice) };
    check!(
        result == 0,
        "cannot renice: {}",
        std::io::Error::last_os_error()
    );
    Ok(())
}

/// Weights of nice 0 and 5, as in the kernel's table.
const NICE_0: f64 = 1024.0;
const NICE_5: f64 = 335.0;

fn nice() -> Outcome {
    let hogs = [
        Role::ready("hog")?,
        Role::ready("hog")?,
        Role::ready("hog")?,
    ];
    set_nice(&hogs[2], 5)?;
    let sum = 2.0 * NICE_0 + NICE_5;
    expect_shares(
        &[&hogs[0], &hogs[1], &hogs[2]],
        &[NICE_0 / sum, NICE_0 / sum, NICE_5 / sum],
    )
}

/// A task of SCHED_IDLE weighs 3, whatever its nice value, and what it weighed before when it is none any more.
fn idle_policy() -> Outcome {
    let hogs = [Role::ready("hog")?, Role::ready("hog")?];
    let idle = hogs[0].pid();
    set_nice(&hogs[0], -5)?;
    set_policy(idle, libc::SCHED_IDLE, 0)?;
    let got = shares(&[&hogs[0], &hogs[1]], Duration::from_secs(3))?;
    check!(
        (0.0005..0.006).contains(&got[0]),
        "of a weight of 3 beside 1024: {got:.4?}"
    );
    set_policy(idle, libc::SCHED_OTHER, 0)?;
    set_nice(&hogs[0], 0)?;
    expect_shares(&[&hogs[0], &hogs[1]], &[0.5, 0.5])
}

fn renice() -> Outcome {
    let hogs = [Role::ready("hog")?, Role::ready("hog")?];
    let (major, minor) = (NICE_0 / (NICE_0 + NICE_5), NICE_5 / (NICE_0 + NICE_5));
    set_nice(&hogs[0], 5)?;
    expect_shares(&[&hogs[0], &hogs[1]], &[minor, major])?;
    set_nice(&hogs[0], 0)?;
    set_nice(&hogs[1], 5)?;
    expect_shares(&[&hogs[0], &hogs[1]], &[major, minor])?;
    set_nice(&hogs[1], 0)?;
    expect_shares(&[&hogs[0], &hogs[1]], &[0.5, 0.5])
}

/// Two groups of unequal weight and unequal size: the weight counts, not the size.
fn cpu_weight() -> Outcome {
    let (light, heavy) = (
        Cgroup::create(None, "light")?,
        Cgroup::create(None, "heavy")?,
    );
    light.set_weight(100)?;
    heavy.set_weight(300)?;
    let hogs = [
        Role::ready("hog")?,
        Role::ready("hog")?,
        Role::ready("hog")?,
    ];
    light.adopt(hogs[0].pid())?;
    light.adopt(hogs[1].pid())?;
    heavy.adopt(hogs[2].pid())?;
    expect_shares(&[&hogs[0], &hogs[1], &hogs[2]], &[0.125, 0.125, 0.75])
}

fn weight_changes() -> Outcome {
    let (one, other) = (Cgroup::create(None, "one")?, Cgroup::create(None, "other")?);
    let hogs = [Role::ready("hog")?, Role::ready("hog")?];
    one.adopt(hogs[0].pid())?;
    other.adopt(hogs[1].pid())?;
    expect_shares(&[&hogs[0], &hogs[1]], &[0.5, 0.5])?;
    one.set_weight(400)?;
    expect_shares(&[&hogs[0], &hogs[1]], &[0.8, 0.2])?;
    one.set_weight(25)?;
    expect_shares(&[&hogs[0], &hogs[1]], &[0.2, 0.8])
}

fn nested() -> Outcome {
    let top = [
        Cgroup::create(None, "left")?,
        Cgroup::create(None, "right")?,
    ];
    top[0].divide()?;
    let inner = [
        Cgroup::create(Some(&top[0]), "small")?,
        Cgroup::create(Some(&top[0]), "large")?,
    ];
    inner[1].set_weight(300)?;
    let hogs = [
        Role::ready("hog")?,
        Role::ready("hog")?,
        Role::ready("hog")?,
    ];
    inner[0].adopt(hogs[0].pid())?;
    inner[1].adopt(hogs[1].pid())?;
    top[1].adopt(hogs[2].pid())?;
    let outcome = expect_shares(&[&hogs[0], &hogs[1], &hogs[2]], &[0.125, 0.375, 0.5]);
    drop(hogs);
    drop(inner);
    outcome
}

/// A member takes its share of its cgroup along into a domain, and leaves the rest to the cgroup.
fn joining() -> Outcome {
    let light = Cgroup::create(None, "light")?;
    let heavy = Cgroup::create(None, "heavy")?;
    light.set_weight(50)?;
    let member = Role::ready("member escape")?;
    let hogs = [Role::ready("hog")?, Role::ready("hog")?];
    light.adopt(member.pid())?;
    light.adopt(hogs[0].pid())?;
    heavy.adopt(hogs[1].pid())?;
    expect_shares(
        &[&member, &hogs[0], &hogs[1]],
        &[1.0 / 6.0, 1.0 / 6.0, 2.0 / 3.0],
    )
}

/// Members of one domain in two cgroups: one that is always late takes nothing of the other's part, nor of the plain programs'.
fn domain_over_cgroups() -> Outcome {
    let light = Cgroup::create(None, "light")?;
    let heavy = Cgroup::create(None, "heavy")?;
    light.set_weight(50)?;
    let late = Role::ready("steady spans 2 1")?;
    let busy = Role::ready("member spans")?;
    let hogs = [Role::ready("hog")?, Role::ready("hog")?];
    light.adopt(late.pid())?;
    light.adopt(hogs[0].pid())?;
    heavy.adopt(busy.pid())?;
    heavy.adopt(hogs[1].pid())?;
    let (sixth, third) = (1.0 / 6.0, 1.0 / 3.0);
    expect_shares(
        &[&late, &hogs[0], &busy, &hogs[1]],
        &[sixth, sixth, third, third],
    )
}

/// Running programs that move take their weight along and get their new group's share.
fn moved() -> Outcome {
    let group = Cgroup::create(None, "destination")?;
    group.set_weight(200)?;
    let hogs = [Role::ready("hog")?, Role::ready("hog")?];
    let neighbour = Cgroup::create(None, "neighbour")?;
    neighbour.adopt(hogs[1].pid())?;
    group.adopt(hogs[0].pid())?;
    expect_shares(&[&hogs[0], &hogs[1]], &[2.0 / 3.0, 1.0 / 3.0])?;
    neighbour.adopt(hogs[0].pid())?;
    expect_shares(&[&hogs[0], &hogs[1]], &[0.5, 0.5])?;
    group.remove()?;
    to_root_cgroup(hogs[0].pid())?;
    to_root_cgroup(hogs[1].pid())?;
    neighbour.remove()?;
    expect_shares(&[&hogs[0], &hogs[1]], &[0.5, 0.5])
}

/// Joining gains no CPU time: two members and a hog are three thirds, whoever cooperates.
fn domain_sum() -> Outcome {
    let members = [Role::ready("member sum")?, Role::ready("member sum")?];
    let hog = Role::ready("hog")?;
    let third = 1.0 / 3.0;
    expect_shares(&[&members[0], &members[1], &hog], &[third, third, third])?;
    set_nice(&hog, 5)?;
    let sum = 2.0 * NICE_0 + NICE_5;
    expect_shares(
        &[&members[0], &members[1], &hog],
        &[NICE_0 / sum, NICE_0 / sum, NICE_5 / sum],
    )
}

/// Groups are made, moved into, reweighted and removed, with running hogs and members inside.
fn come_and_go() -> Outcome {
    let roles = [
        Role::ready("hog")?,
        Role::ready("member nomads")?,
        Role::ready("ticker nomads 5")?,
    ];
    let worked = roles.each_ref().map(|role| role.cpu_time_ns());
    for round in 0..25 {
        let outer = Cgroup::create(None, &format!("outer{round}"))?;
        outer.divide()?;
        let inner = Cgroup::create(Some(&outer), "inner")?;
        for role in &roles {
            inner.adopt(role.pid())?;
        }
        inner.set_weight(1 + round * 390)?;
        std::thread::sleep(Duration::from_millis(20));
        for role in &roles {
            to_root_cgroup(role.pid())?;
        }
        inner.remove()?;
        outer.remove()?;
    }
    std::thread::sleep(Duration::from_millis(300));
    for (role, before) in roles.iter().zip(worked) {
        check!(
            role.cpu_time_ns()? > before?,
            "{:?} stands still",
            role.name
        );
    }
    // Nothing of the journey is left in the shares.
    expect_share_of_pair(&roles[0], &roles[1])
}

/// On one CPU a hog and a member get the same; on several both get what they want.
fn expect_share_of_pair(one: &Role, other: &Role) -> Outcome {
    let got = shares(&[one, other], WINDOW)?;
    check!(
        got[0] > 0.35 && got[0] < 0.65,
        "the hog got {:.3} and the member {:.3}",
        got[0],
        got[1]
    );
    Ok(())
}

/// Three times as many hogs as CPUs: each gets about the same, whichever cache it began at.
fn many_hogs() -> Outcome {
    let hogs: Vec<Role> = (0..12)
        .map(|_| Role::ready("hog"))
        .collect::<Result<_, _>>()?;
    let hogs: Vec<&Role> = hogs.iter().collect();
    std::thread::sleep(Duration::from_secs(1));
    shares_in_some_window(&hogs, Duration::from_secs(5), |got| {
        let least = got.iter().copied().fold(1.0, f64::min);
        let most = got.iter().copied().fold(0.0, f64::max);
        check!(
            most < 1.8 * least,
            "one hog got {:.2} times as much as another: {got:.3?}",
            most / least
        );
        Ok(())
    })
}

/// On many CPUs, too, a heavier program gets more.
fn many_weights() -> Outcome {
    let hogs: Vec<Role> = (0..12)
        .map(|_| Role::ready("hog"))
        .collect::<Result<_, _>>()?;
    for hog in &hogs[..6] {
        set_nice(hog, 5)?;
    }
    let hogs: Vec<&Role> = hogs.iter().collect();
    std::thread::sleep(Duration::from_secs(1));
    let expected = NICE_5 / (NICE_0 + NICE_5);
    shares_in_some_window(&hogs, Duration::from_secs(5), |got| {
        let light: f64 = got[..6].iter().sum();
        check!(
            (light / expected - 1.0).abs() < 0.4,
            "the light half got {light:.3} instead of {expected:.3}: {got:.3?}"
        );
        Ok(())
    })
}
