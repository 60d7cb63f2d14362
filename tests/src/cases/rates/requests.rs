// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is refused, by whom, and reservations that come and go.

use super::*;

pub fn refusals() -> Outcome {
    await_no_reservations()?;
    let role = Role::ready("hog")?;
    let pid = role.pid().to_string();
    reserve(&role, "guaranteed", "0.3")?;
    let before = reservations()?;
    for (number, class, rate, period, code, words) in [
        (
            &*pid,
            "guaranteed",
            "0",
            "30ms",
            2,
            &["rate 0", "0.0001"][..],
        ),
        (&pid, "guaranteed", "-0.5", "30ms", 2, &["out of range"]),
        (&pid, "guaranteed", "nan", "30ms", 2, &["nan", "no rate"]),
        (
            &pid,
            "guaranteed",
            "1.01",
            "30ms",
            2,
            &["out of range", "to 1"],
        ),
        (&pid, "golden", "0.1", "30ms", 1, &["golden", "guaranteed"]),
        (
            &pid,
            "flexible",
            "0.1",
            "30ms",
            1,
            &["flexible", "guaranteed"],
        ),
        (
            &pid,
            "guaranteed",
            "0.1",
            "999us",
            2,
            &["period", "1ms to 10s"],
        ),
        (
            &pid,
            "guaranteed",
            "0.1",
            "11s",
            2,
            &["period", "1ms to 10s"],
        ),
        ("4000000", "guaranteed", "0.1", "30ms", 1, &["4000000"]),
    ] {
        let said = consort(&[
            "reserve", number, "--class", class, "--rate", rate, "--period", period,
        ])?;
        said.expect(code, words)?;
    }
    let said = consort(&["release", "1"])?;
    said.expect(2, &["starts everything else"])?;
    let own = std::process::id().to_string();
    let said = consort(&["release", &own])?;
    said.expect(1, &[&*format!("{own} has no reservation")])?;
    let said = consort(&["class", "set", "guaranteed", "1%"])?;
    said.expect(1, &["has admitted rates of 0.3"])?;
    let said = consort(&["class", "remove", "guaranteed"])?;
    said.expect(1, &["release 0.3 first"])?;
    let fields = |list: &[Value]| -> Vec<String> {
        let show = |held: &Value| format!("{} {} {}", held["number"], held["asked"], held["class"]);
        list.iter().map(show).collect()
    };
    let after = reservations()?;
    check!(
        fields(&before) == fields(&after),
        "refusals changed {before:?} to {after:?}"
    );
    Ok(())
}

pub fn users() -> Outcome {
    await_no_reservations()?;
    let (alices, bobs) = (Role::ready_as(ALICE, "hog")?, Role::ready_as(BOB, "hog")?);
    let [alices_pid, bobs_pid] = [&alices, &bobs].map(|role| role.pid().to_string());
    let ask = |uid, pid: &str, rate| {
        consort_as(
            uid,
            &["reserve", pid, "--class", "adaptive", "--rate", rate],
        )
    };
    ask(ALICE, &alices_pid, "0.2")?.expect(0, &[])?;
    ask(ALICE, &bobs_pid, "0.1")?.expect(4, &["belongs to user 1001"])?;
    ask(BOB, &bobs_pid, "0.3")?.expect(1, &["are left"])?;
    consort_as(BOB, &["release", &alices_pid])?.expect(4, &["belongs to user 1000"])?;
    consort_as(BOB, &["class", "set", "adaptive", "10%"])?.expect(4, &["root"])?;
    let said = consort_as(BOB, &["usage"])?;
    check!(said.out.contains("no reservations"), "Bob sees {said:?}");
    // What has ended holds nothing.
    drop(alices);
    wait_until(PATIENCE, "the part of who has ended to be free", || {
        Ok(ask(BOB, &bobs_pid, "0.3")?.code == 0)
    })?;
    drop(bobs);
    await_no_reservations()
}

/// `consort run --class` starts a command that has its rate, and refuses one that cannot have it.
pub fn run_command() -> Outcome {
    await_no_reservations()?;
    let mut command = Command::new("consort");
    let words = "run --class guaranteed --rate 0.2 --period 33ms -- consort usage --json";
    command.args(words.split(' '));
    let said = run(command)?;
    said.expect(0, &[])?;
    let usage: Value = serde_json::from_str(&said.out).map_err(|error| error.to_string())?;
    let own = &usage["reservations"][0];
    check!(
        own["command"] == "consort" && own["asked"] == 0.2 && own["period_ns"] == 33_000_000,
        "the command sees {usage}"
    );
    await_no_reservations()?;
    let mut command = Command::new("consort");
    command.args("run --class guaranteed --rate 0.6 -- touch /tmp/was-started".split(' '));
    run(command)?.expect(1, &["0.5 are left"])?;
    check!(
        !std::path::Path::new("/tmp/was-started").exists(),
        "the command was started without its rate"
    );
    await_no_reservations()
}

/// Reservations are made, changed, moved and released while their programs run, fork and die.
pub fn come_and_go() -> Outcome {
    let hog = Role::ready("hog")?;
    for round in 0..15 {
        let mut busy = Role::ready("threads 2000 10")?;
        reserve(&busy, "guaranteed", "0.3")?;
        reserve(&hog, "guaranteed", "0.1")?;
        reserve(
            &busy,
            if round % 2 == 0 {
                "adaptive"
            } else {
                "guaranteed"
            },
            "0.2",
        )?;
        if round % 3 == 0 {
            release(&busy)?;
        }
        if round % 3 == 1 {
            busy.finish()?;
        }
        release(&hog)?;
    }
    await_no_reservations()?;
    let worked = hog.cpu_time_ns()?;
    std::thread::sleep(Duration::from_millis(300));
    check!(hog.cpu_time_ns()? > worked, "the hog stands still");
    Ok(())
}
