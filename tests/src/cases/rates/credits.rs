// SPDX-License-Identifier: MIT OR Apache-2.0
//! Credits, and rates that follow demand.

use super::*;

/// 001 Figures 4.4 and 4.5: a client lends its server most of what it has, and takes it back; and what is lent on comes
/// back when its holder ends.
pub fn credits() -> Outcome {
    await_no_reservations()?;
    let all = hogs(3)?;
    let roles: Vec<&Role> = all.iter().collect();
    let [client, server, other] = [0, 1, 2].map(|i: usize| all[i].pid().to_string());
    reserve(&all[0], "guaranteed", "0.4")?;
    reserve(&all[1], "guaranteed", "0.1")?;
    // The adaptive class sleeps: its quarter goes to the others in proportion.
    let expect = |client: f64, server: f64, other: f64| {
        expect_shares(
            &roles,
            WINDOW,
            &[client / 0.75, server / 0.75, other / 0.75],
        )
    };
    expect(0.4, 0.1, 0.25)?;
    consort(&["lend", &client, &server, "0.3"])?.expect(0, &[])?;
    expect(0.1, 0.4, 0.25)?;
    consort(&["lend", &server, &client, "0.1"])?.expect(1, &["circle"])?;
    consort(&["lend", &client, &server, "0.1"])?.expect(1, &["at most 0.0999"])?;
    consort(&["recollect", &client, &server, "0.1"])?.expect(0, &[])?;
    expect(0.2, 0.3, 0.25)?;
    // Lent on, to one that has reserved nothing: two hogs are in the class with what three had.
    consort(&["lend", &server, &other, "0.2"])?.expect(0, &[])?;
    expect_shares(&roles, WINDOW, &[0.4, 0.2, 0.4])?;
    release(&all[1])?;
    // The server's end brings the client its own back, and leaves the other without any.
    expect_shares(&roles, WINDOW, &[0.5 / 0.75, 0.125 / 0.75, 0.125 / 0.75])?;
    let left = reservations()?;
    check!(
        left.len() == 1 && left[0]["lent"].as_array().is_some_and(Vec::is_empty),
        "there are {left:?}"
    );
    Ok(())
}

/// An automatic rate grows while its program uses all that it is given, up to its limit and what the class has.
pub fn automatic() -> Outcome {
    await_no_reservations()?;
    let all = hogs(2)?;
    reserve(&all[0], "guaranteed", "auto:0.05-0.4")?;
    // Else the class would give it all from the beginning.
    reserve(&all[1], "guaranteed", "0.1")?;
    wait_until(2 * PATIENCE, "the rate to be 0.4", || {
        let asked = reservations()?[0]["asked"].as_f64();
        match asked {
            Some(0.4) => Ok(true),
            _ => Err(format!("it is {asked:?}")),
        }
    })?;
    all[0].signal(Signal::SIGSTOP)?;
    wait_until(2 * PATIENCE, "the rate to be 0.05", || {
        Ok(reservations()?[0]["asked"].as_f64() == Some(0.05))
    })
}
