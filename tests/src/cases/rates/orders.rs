// SPDX-License-Identifier: MIT OR Apache-2.0
//! Classes of other orders than the default one.

use super::*;

const ALONE: Duration = SECOND;

/// 004's punishment phenomenon: in a class that goes by the clock, a task that was alone on the CPU waits when another one comes,
/// until that has had as much for its rate. By the other orders both have the same at once.
pub fn punishment() -> Outcome {
    await_no_reservations()?;
    let done = ["rc", "period", "frc"].map(after_being_alone);
    consort(&["class", "remove", "study"])?.expect(0, &[])?;
    let [rc, period, frc] = done;
    let (rc, period, frc) = (rc?, period?, frc?);
    check!(
        rc.first < SLACK && (rc.later - 0.5).abs() < 2.0 * SLACK,
        "by rc, who was alone has {:.4} of the CPU, later {:.4}",
        rc.first,
        rc.later
    );
    for (order, had) in [("period", period), ("frc", frc)] {
        check!(
            (had.first - 0.5).abs() < 2.0 * SLACK,
            "by {order}, who was alone has {:.4} of the CPU",
            had.first
        );
    }
    Ok(())
}

/// The part of the CPU of one who was alone, beside another of its rate.
struct Had {
    first: f64,
    later: f64,
}

fn after_being_alone(order: &str) -> Result<Had, String> {
    consort(&["class", "set", "study", "20%", "--order", order])?.expect(0, &[])?;
    let all = hogs(2)?;
    all[1].signal(Signal::SIGSTOP)?;
    for role in &all {
        reserve(role, "study", "0.1")?;
    }
    std::thread::sleep(ALONE);
    all[1].signal(Signal::SIGCONT)?;
    let roles: Vec<&Role> = all.iter().collect();
    // It is ahead by nine times what it has had alone, for which the other one needs a tenth of that.
    let first = shares(&roles, ALONE / 2)?[0];
    std::thread::sleep(ALONE);
    let later = shares(&roles, ALONE)?[0];
    drop(all);
    await_no_reservations()?;
    Ok(Had { first, later })
}
