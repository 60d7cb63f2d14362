// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who is real-time for a while has its reservation, and its domain, when it is back.

use super::*;
use crate::suite::{
    client::{gettid, Client},
    consort::{await_members, members},
    process::set_realtime,
};

/// Beside six hogs: two thirds of the CPU while it is ours, and what it has as a real-time thread. Without its reservation
/// it would have a quarter.
fn keeps_its_share(how: &str) -> Outcome {
    await_no_reservations()?;
    let riser = Role::ready(&format!("riser {how}"))?;
    reserve(&riser, "guaranteed", "0.3")?;
    let crowd = hogs(6)?;
    let mut roles: Vec<&Role> = crowd.iter().collect();
    roles.push(&riser);
    riser.await_progress(Field::Work, 5)?;
    let share = shares(&roles, WINDOW)?.last().copied().unwrap_or_default();
    check!(
        share > 0.5,
        "who is raised by {how} has {share:.4} of the CPU"
    );
    drop(riser);
    await_no_reservations()
}

pub fn raised_by_itself() -> Outcome {
    keeps_its_share("itself")
}

pub fn raised_by_a_lock() -> Outcome {
    keeps_its_share("lock")
}

/// What has been reserved for a thread that is away is released, and ends with it.
pub fn ends_while_away() -> Outcome {
    await_no_reservations()?;
    for dies in [false, true] {
        let role = Role::ready("riser never")?;
        reserve(&role, "guaranteed", "0.5")?;
        set_realtime(role.pid(), true)?;
        check!(
            reservations()?.len() == 1,
            "a reservation ended when its thread became real-time"
        );
        if dies {
            drop(role);
        } else {
            release(&role)?;
            await_no_reservations()?;
            set_realtime(role.pid(), false)?;
            // All of the class is there again.
            reserve(&role, "guaranteed", "0.5")?;
            drop(role);
        }
        await_no_reservations()?;
    }
    Ok(())
}

/// A member that was raised is a member again, and may leave meanwhile.
pub fn member() -> Outcome {
    let role = Role::ready("ticker away 10")?;
    let stands = |standing| {
        wait_until(PATIENCE, "a member's standing to change", || {
            Ok(role.get(Field::Standing) == standing)
        })
    };
    set_realtime(role.pid(), true)?;
    stands(1)?;
    check!(members()? == 1, "a raised member is forgotten");
    set_realtime(role.pid(), false)?;
    stands(2)?;
    set_realtime(role.pid(), true)?;
    stands(1)?;
    drop(role);
    await_members(0)?;
    let client = Client::hello()?;
    for _ in 0..3 {
        let joined = client.join(gettid(), 0, "away")?;
        check!(joined.error == 0, "cannot join: {joined:?}");
        set_realtime(0, true)?;
        let left = client.leave(gettid(), 0)?;
        set_realtime(0, false)?;
        check!(left.error == 0, "cannot leave: {left:?}");
    }
    Ok(())
}
