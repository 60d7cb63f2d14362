// SPDX-License-Identifier: MIT OR Apache-2.0
//! Daemons that are killed, and the operator's file.

use super::*;
use crate::suite::process::set_realtime;

/// The daemon is killed; the next one has the reservations of those that live.
pub fn killed_daemon() -> Outcome {
    let daemon = Daemon::start(&[])?;
    let all = hogs(4)?;
    let roles: Vec<&Role> = all[..3].iter().collect();
    for role in &all[..2] {
        reserve(role, "guaranteed", "0.25")?;
    }
    reserve(&all[3], "adaptive", "0.1")?;
    let riser = Role::ready("riser never")?;
    reserve(&riser, "adaptive", "0.05")?;
    set_realtime(riser.pid(), true)?;
    daemon.signal(Signal::SIGKILL)?;
    await_state("disabled")?;
    all[3].signal(Signal::SIGKILL)?;
    let again = Daemon::start(&[])?;
    let held: Vec<_> = reservations()?
        .into_iter()
        .map(|held| held["number"].as_u64())
        .collect();
    let expected = [&all[0], &all[1], &riser].map(|role| Some(u64::from(role.pid())));
    check!(held == expected, "restored are {held:?}");
    // The one that another class had comes back to what it has reserved.
    let threads = || -> Result<_, String> { Ok(reservations()?[2]["threads"].as_u64()) };
    check!(threads()? == Some(0), "{:?} threads are there", threads()?);
    set_realtime(riser.pid(), false)?;
    wait_until(PATIENCE, "the thread to come back", || {
        Ok(threads()? == Some(1))
    })?;
    drop(riser);
    std::thread::sleep(Duration::from_millis(300));
    let third = 1.0 / 3.0;
    expect_shares(&roles, WINDOW, &[third, third, third])?;
    release(&all[1])?;
    expect_shares(&roles, WINDOW, &[2.0 * third, third / 2.0, third / 2.0])?;
    drop(again);
    check!(
        !std::path::Path::new(SOCKET).exists(),
        "the daemon's socket is still there"
    );
    Ok(())
}

pub fn operators_file() -> Outcome {
    let path = "/tmp/classes.toml";
    let write = |text: &str| std::fs::write(path, text).map_err(|error| error.to_string());
    write("[class.gold]\ncapacity = '60%'\n[class.lead]\ncapacity = 0.05\noverbooking = 'unlimited'\n")?;
    let daemon = Daemon::start(&["--classes", path])?;
    let all = hogs(4)?;
    let roles: Vec<&Role> = all.iter().collect();
    reserve(&all[0], "gold", "0.6")?;
    reserve(&all[1], "lead", "0.9")?;
    reserve(&all[2], "lead", "0.3")?;
    std::thread::sleep(Duration::from_millis(300));
    expect_shares(&roles, WINDOW, &[0.6, 0.0375, 0.0125, 0.35])?;
    drop(daemon);
    write("[class.gold]\ncapacity = '60 %'\n\n[class.lead]\ncapacity = 0.4\n")?;
    consort(&["serve", "--classes", path])?.expect(2, &["lead", "at most 0.39"])?;
    write("[class.gold\n")?;
    consort(&["serve", "--classes", path])?.expect(2, &[path, "line 1"])?;
    await_state("disabled")
}
