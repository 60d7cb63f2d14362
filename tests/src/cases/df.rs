// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decision functions of users' own: who runs is theirs to say, and nothing else.

use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

use nix::sys::signal::{kill, Signal};
use serde_json::Value;

use crate::{
    check,
    suite::{
        board::Field,
        consort::{await_state, consort, consort_as, Daemon},
        process::{wait_until, Role, ALICE, BOB, PATIENCE},
        Cpus, Needs, Outcome, Test,
    },
};

pub const TESTS: &[Test] = &[
    Test {
        name: "df.decides_for_its_group",
        cpus: Cpus::One,
        needs: Needs::SteadyDaemon,
        run: decides,
    },
    Test {
        name: "df.swapped_while_it_runs",
        cpus: Cpus::Any,
        needs: Needs::NoDaemon,
        run: swapped,
    },
    Test {
        name: "df.refused",
        cpus: Cpus::One,
        needs: Needs::NoDaemon,
        run: refused,
    },
    Test {
        name: "df.daemon_killed",
        cpus: Cpus::One,
        needs: Needs::NoDaemon,
        run: killed,
    },
];

const OBJECTS: [(&str, &[u8]); 4] = [
    (
        "first",
        include_bytes!(concat!(env!("OUT_DIR"), "/first.o")),
    ),
    ("last", include_bytes!(concat!(env!("OUT_DIR"), "/last.o"))),
    (
        "wrong",
        include_bytes!(concat!(env!("OUT_DIR"), "/wrong.o")),
    ),
    (
        "endless",
        include_bytes!(concat!(env!("OUT_DIR"), "/endless.o")),
    ),
];
const GROUP: &str =
    "[group.own]\nfunction = \"user:own\"\nmembers = [\"one\", \"two\"]\nstate = { work = 0 }";
const WINDOW: Duration = Duration::from_secs(2);

/// Removes what a test has applied and loaded, however it ends.
struct Own;

impl Drop for Own {
    fn drop(&mut self) {
        let _ = consort_as(ALICE, &["delete", "own"]);
        let _ = consort_as(ALICE, &["df", "remove", "own"]);
    }
}

fn written(name: &str, bytes: &[u8]) -> Result<String, String> {
    let path = format!("/tmp/{name}");
    let written = fs::write(&path, bytes)
        .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o644)));
    written.map_err(|error| format!("cannot write {path}: {error}"))?;
    Ok(path)
}

fn object(name: &str) -> Result<String, String> {
    let (_, bytes) = OBJECTS
        .iter()
        .find(|(known, _)| *known == name)
        .ok_or("no such object")?;
    written(&format!("{name}.o"), bytes)
}

/// `consort df load` or `replace` of one of the objects.
fn put(doing: &str, name: &str) -> Outcome {
    consort_as(ALICE, &["df", doing, &object(name)?, "--name", "own"])?.expect(0, &[])
}

fn apply() -> Outcome {
    let path = written("own.toml", GROUP.as_bytes())?;
    consort_as(ALICE, &["apply", &path])?.expect(0, &[])
}

/// What the function does for the group.
fn told() -> Result<Value, String> {
    let said = consort(&["df", "list", "--json"])?;
    said.expect(0, &[])?;
    let list: Value = serde_json::from_str(&said.out).map_err(|error| error.to_string())?;
    Ok(list["functions"][0]["groups"][0].clone())
}

fn count(name: &str) -> Result<u64, String> {
    told()?[name].as_u64().ok_or(format!("no {name}"))
}

/// Both members, bound and busy.
fn members() -> Result<[Role; 2], String> {
    let both = [
        Role::ready_as(ALICE, "named one")?,
        Role::ready_as(ALICE, "named two")?,
    ];
    wait_until(PATIENCE, "both members to be bound", || {
        let said = consort(&["show", "own", "--json"])?.out;
        Ok(said.matches("\"bound\": true").count() == 2)
    })?;
    Ok(both)
}

/// What each has done within a while.
fn done(both: &[Role; 2]) -> [u64; 2] {
    let before = [0, 1].map(|index| both[index].get(Field::Work));
    std::thread::sleep(WINDOW);
    [0, 1].map(|index| both[index].get(Field::Work) - before[index])
}

/// Whoever its function puts first has nearly all that the group has; and a stranger has no less for that.
fn decides() -> Outcome {
    let _own = Own;
    let outsider = Role::ready("hog")?;
    put("load", "first")?;
    apply()?;
    let both = members()?;
    let had = outsider.get(Field::Work);
    let [one, two] = done(&both);
    check!(one > 10 * two, "first: {one} and {two}");
    let outsiders = outsider.get(Field::Work) - had;
    check!(outsiders > 0, "the outsider has had nothing");
    put("replace", "last")?;
    let [one, two] = done(&both);
    check!(two > 10 * one, "last: {one} and {two}");
    let said = both[1].get(Field::Extra);
    check!(said > 0, "the function has told its member nothing");
    // What is wrong is counted, and the order of the file holds.
    put("replace", "wrong")?;
    let [one, two] = done(&both);
    check!(one > 10 * two, "wrong: {one} and {two}");
    check!(
        count("corrected")? > 0,
        "nothing was corrected: {}",
        told()?
    );
    let busy = consort_as(ALICE, &["df", "remove", "own"])?;
    busy.expect(1, &["group own of the file own"])
}

/// Verifying is paid for by the user, and an emulated CPU takes long for it: the user may have more of the daemon's time here.
fn patient_daemon() -> Result<Daemon, String> {
    let limits = written("limits.toml", b"[limits]\ncpu_percent = 30\n")?;
    Daemon::start(&["--classes", &limits])
}

/// No choice is without an answer while a function is exchanged again and again.
fn swapped() -> Outcome {
    let _daemon = patient_daemon()?;
    let _own = Own;
    put("load", "first")?;
    apply()?;
    let both = members()?;
    for turn in 0..10 {
        put("replace", if turn % 2 == 0 { "last" } else { "first" })?;
    }
    let asked = count("asked")?;
    wait_until(PATIENCE, "the function to be asked", || {
        Ok(count("asked")? > asked)
    })?;
    check!(count("missing")? == 0, "nobody answered: {}", told()?);
    check!(told()?["off"] == false, "it is off: {}", told()?);
    for role in &both {
        role.await_progress(Field::Work, 4)?;
    }
    Ok(())
}

fn refused() -> Outcome {
    let _daemon = patient_daemon()?;
    let _own = Own;
    let endless = object("endless")?;
    let said = consort_as(ALICE, &["df", "load", &endless])?;
    said.expect(1, &["endless was not loaded", "loop without an end"])?;
    let none = written("none.o", b"\x7fELF")?;
    consort_as(ALICE, &["df", "load", &none])?.expect(2, &["no object file"])?;
    let path = written("own.toml", GROUP.as_bytes())?;
    consort_as(ALICE, &["apply", &path])?.expect(1, &["no decision function of yours", "own"])?;
    put("load", "first")?;
    let again = consort_as(ALICE, &["df", "load", &object("last")?, "--name", "own"])?;
    again.expect(1, &["is loaded", "replace"])?;
    // Another user's functions are its own.
    consort_as(BOB, &["apply", &path])?.expect(1, &["no decision function of yours"])?;
    consort_as(BOB, &["df", "remove", "own", "--user", &ALICE.to_string()])?
        .expect(4, &["not yours"])
}

/// Killed and started again, the daemon has its functions, and the groups that they decide for.
fn killed() -> Outcome {
    let daemon = Daemon::start(&[])?;
    put("load", "last")?;
    let own = Own;
    apply()?;
    let both = members()?;
    let pid = nix::unistd::Pid::from_raw(Daemon::running_pid()? as i32);
    kill(pid, Signal::SIGKILL).map_err(|errno| errno.to_string())?;
    await_state("disabled")?;
    drop(daemon);
    let daemon = Daemon::start(&[])?;
    wait_until(PATIENCE, "the function to be verified anew", || {
        let said = consort(&["df", "list", "--json"])?.out;
        Ok(said.contains("\"steps\"") && !said.contains("\"steps\": null"))
    })?;
    wait_until(PATIENCE, "both members to be bound again", || {
        let said = consort(&["show", "own", "--json"])?.out;
        Ok(said.matches("\"bound\": true").count() == 2)
    })?;
    let [one, two] = done(&both);
    check!(two > 10 * one, "{one} and {two}");
    drop(both);
    drop(own);
    drop(daemon);
    Ok(())
}
