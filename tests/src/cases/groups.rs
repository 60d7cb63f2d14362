// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups from files: who has which name, what the group gets, and what is refused.

use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

use nix::sys::signal::{kill, Signal};
use serde_json::Value;

use crate::{
    check,
    suite::{
        board::Field,
        consort::{await_state, consort, consort_as, Daemon},
        process::{shares, wait_until, Role, ALICE, BOB, PATIENCE},
        Cpus, Needs, Outcome, Test,
    },
};

pub const TESTS: &[Test] = &[
    Test {
        name: "groups.names_before_threads",
        cpus: Cpus::Any,
        needs: Needs::Daemon,
        run: names,
    },
    Test {
        name: "groups.found_by_rule",
        cpus: Cpus::Any,
        needs: Needs::Daemon,
        run: rules,
    },
    Test {
        name: "groups.cooperate_by_file",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: cooperates,
    },
    Test {
        name: "groups.rate_is_shared",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: rate,
    },
    Test {
        name: "groups.plan",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: plan,
    },
    Test {
        name: "groups.daemon_killed",
        cpus: Cpus::Any,
        needs: Needs::NoDaemon,
        run: killed,
    },
    Test {
        name: "groups.hostile",
        cpus: Cpus::One,
        needs: Needs::Daemon,
        run: hostile,
    },
];

const WINDOW: Duration = Duration::from_secs(2);
const SLACK: f64 = 0.02;

/// Removes what a test has applied, however it ends.
pub struct Applied(&'static str, u32);

impl Drop for Applied {
    fn drop(&mut self) {
        let _ = consort_as(self.1, &["delete", self.0]);
    }
}

/// A file that every user can read.
pub fn file(name: &str, text: &str) -> Result<String, String> {
    let path = format!("/tmp/{name}");
    let written = fs::write(&path, text)
        .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o644)));
    written.map_err(|error| format!("cannot write {path}: {error}"))?;
    Ok(path)
}

pub fn apply(uid: u32, name: &'static str, text: &str) -> Result<Applied, String> {
    let path = file(&format!("{name}.toml"), text)?;
    consort_as(uid, &["apply", &path])?.expect(0, &[])?;
    Ok(Applied(name, uid))
}

fn shown() -> Result<Value, String> {
    let said = consort(&["show", "--json"])?;
    said.expect(0, &[])?;
    serde_json::from_str(&said.out).map_err(|error| format!("show is no JSON: {error}"))
}

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value[name].as_array().into_iter().flatten()
}

/// What `consort show` says of the members of that name.
pub fn members(member: &str) -> Result<Vec<Value>, String> {
    let shown = shown()?;
    let groups = list(&shown, "files").flat_map(|file| list(file, "groups"));
    let members = groups.flat_map(|group| list(group, "members"));
    Ok(members
        .filter(|one| one["name"] == member)
        .cloned()
        .collect())
}

/// The threads that are bound to a member.
pub fn bound(member: &str) -> Result<Vec<Value>, String> {
    let members = members(member)?;
    let threads = members.iter().flat_map(|one| list(one, "threads"));
    Ok(threads
        .filter(|one| one["bound"] == true)
        .cloned()
        .collect())
}

pub fn await_bound(member: &str, role: &Role) -> Outcome {
    wait_until(PATIENCE, &format!("{member} to be bound"), || {
        let threads = bound(member)?;
        match threads.iter().any(|one| one["pid"] == role.pid()) {
            true => Ok(true),
            false => Err(format!("bound are {threads:?}")),
        }
    })
}

fn names() -> Outcome {
    let early = Role::ready_as(ALICE, "named early")?;
    let text = "[group.a]\nmembers = [\"early\", \"late\"]\nstate = { work = 0 }";
    let _applied = apply(ALICE, "film", text)?;
    await_bound("early", &early)?;
    let late = Role::ready_as(ALICE, "named late")?;
    await_bound("late", &late)?;
    // Another user's thread of that name is another one.
    let other = Role::ready_as(BOB, "named late")?;
    other.await_progress(Field::Work, 2)?;
    check!(bound("late")?.len() == 1, "bound are {:?}", bound("late")?);
    // What it publishes is seen.
    wait_until(PATIENCE, "its state to be seen", || {
        let thread = bound("late")?.into_iter().next().unwrap_or_default();
        let work = thread["role"]["state"][0][1].as_i64();
        Ok(work.is_some_and(|work| work > 0))
    })?;
    // The name waits for the next one that has it.
    drop(late);
    wait_until(PATIENCE, "the name to be free", || {
        Ok(bound("late")?.is_empty())
    })?;
    let next = Role::ready_as(ALICE, "named late")?;
    await_bound("late", &next)?;
    consort_as(ALICE, &["delete", "film"])?.expect(0, &[])?;
    check!(
        list(&shown()?, "files").next().is_none(),
        "it is not deleted: {:?}",
        shown()?
    );
    early.await_progress(Field::Work, 4)
}

fn rules() -> Outcome {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let before = Role::ready_as(ALICE, "hog")?;
    let text = format!(
        "[group.a]\nmembers = [{{ name = \"found\", count = 2, rule = {{ executable = {:?}, user = \"{ALICE}\" }} }}, \"tool\"]",
        program.to_str().unwrap_or_default()
    );
    let _applied = apply(0, "found", &text)?;
    await_bound("found", &before)?;
    let after = Role::ready_as(ALICE, "hog")?;
    await_bound("found", &after)?;
    let started = Role::ready_by("consort run --name tool --", "hog")?;
    await_bound("tool", &started)?;
    for role in [&before, &after, &started] {
        role.await_progress(Field::Work, 4)?;
    }
    Ok(())
}

fn cooperates() -> Outcome {
    let text = "[group.talk]\nfunction = \"coop\"\norder = \"service\"\nmembers = [{ name = \"speaker\", count = 2 }]";
    let _applied = apply(ALICE, "talk", text)?;
    let all = [
        Role::ready_as(ALICE, "polling speaker")?,
        Role::ready_as(ALICE, "polling speaker")?,
    ];
    for role in &all {
        await_bound("speaker", role)?;
        wait_until(PATIENCE, "a member of the domain", || {
            Ok(role.get(Field::Standing) == 2)
        })?;
    }
    let got = shares(&[&all[0], &all[1]], WINDOW)?;
    check!((got[0] - 0.5).abs() < SLACK, "the shares are {got:?}");
    Ok(())
}

/// Two threads have what one group has reserved, beside two that have not; and no more once the file has gone.
fn rate() -> Outcome {
    let all = [
        Role::ready_as(ALICE, "named a")?,
        Role::ready_as(ALICE, "named b")?,
        Role::ready("hog")?,
        Role::ready("hog")?,
    ];
    let roles: Vec<&Role> = all.iter().collect();
    let text = |rate: f64| {
        format!("[group.both]\nclass = \"guaranteed\"\nrate = {rate}\nmembers = [\"a\", \"b\"]")
    };
    let applied = apply(ALICE, "both", &text(0.3))?;
    await_bound("a", &all[0])?;
    await_bound("b", &all[1])?;
    let expect = |expected: &[f64]| -> Outcome {
        std::thread::sleep(Duration::from_millis(300));
        let got = shares(&roles, WINDOW)?;
        let fits = got
            .iter()
            .zip(expected)
            .all(|(got, expected)| (got - expected).abs() < SLACK);
        check!(fits, "the shares are {got:.3?} instead of {expected:.3?}");
        Ok(())
    };
    // The class has half of the machine, and the adaptive one's quarter is divided.
    let (two, one) = (1.0 / 3.0, 1.0 / 6.0);
    expect(&[two, two, one, one])?;
    let usage = consort(&["usage", "--json"])?;
    check!(usage.out.contains("\"kind\": \"group\""), "{}", usage.out);
    drop(applied);
    let quarter = 0.25;
    expect(&[quarter, quarter, quarter, quarter])
}

/// Beside two that always want the CPU, a member has it in its intervals.
fn plan() -> Outcome {
    const FRAMES: u64 = 50;
    let _hogs = [Role::ready("hog")?, Role::ready("hog")?];
    let show = Role::ready_as(ALICE, "named show")?;
    let text =
        "[group.film]\nfunction = \"plan\"\nmembers = [{ name = \"show\", interval = \"4ms\" }]\n\
                state = { work = 0 }\ncontrol = { begins = 0 }";
    let _applied = apply(ALICE, "film", text)?;
    await_bound("show", &show)?;
    let frames = file(
        "frames.csv",
        &format!("delay_ms\n{}", "20\n".repeat(FRAMES as usize)),
    )?;
    let done = |words: &[&str]| consort_as(ALICE, words)?.expect(0, &[]);
    done(&["plan", "load", &frames, "--member", "show"])?;
    done(&["plan", "trigger", "show"])?;
    std::thread::sleep(Duration::from_millis(20 * FRAMES + 500));
    let thread = bound("show")?.into_iter().next().unwrap_or_default();
    let role = &thread["role"];
    let kept = role["kept"].as_u64().unwrap_or_default();
    let missed: u64 = ["vacant", "asleep", "outside", "share", "others"]
        .iter()
        .filter_map(|cause| role["missed"][cause].as_u64())
        .sum();
    check!(
        kept + missed == FRAMES,
        "{kept} kept and {missed} missed of {FRAMES}: {role}"
    );
    check!(
        kept >= FRAMES - 1,
        "only {kept} of {FRAMES} were kept: {role}"
    );
    let told = show.get(Field::Extra);
    check!(told > 0, "the function has told it nothing");
    done(&["plan", "unload", "show"])
}

/// Killed and started again, the daemon has its files, and those who announce themselves come back.
fn killed() -> Outcome {
    let daemon = Daemon::start(&[])?;
    let text = "[group.a]\nclass = \"guaranteed\"\nrate = 0.2\nmembers = [\"again\", \"tool\"]";
    let _applied = apply(ALICE, "again", text)?;
    let role = Role::ready_as(ALICE, "named again")?;
    await_bound("again", &role)?;
    let pid = nix::unistd::Pid::from_raw(Daemon::running_pid()? as i32);
    kill(pid, Signal::SIGKILL).map_err(|errno| errno.to_string())?;
    await_state("disabled")?;
    role.await_progress(Field::Work, 4)?;
    drop(daemon);
    let daemon = Daemon::start(&[])?;
    await_bound("again", &role)?;
    let usage = consort(&["usage", "--json"])?;
    check!(usage.out.contains("\"again/a\""), "{}", usage.out);
    drop(role);
    consort_as(ALICE, &["delete", "again"])?.expect(0, &[])?;
    drop(daemon);
    Ok(())
}

fn hostile() -> Outcome {
    let refused = |uid: u32, text: &str, code: i32, words: &[&str]| -> Outcome {
        let path = file("hostile.toml", text)?;
        consort_as(uid, &["apply", &path])?.expect(code, words)
    };
    let names: Vec<String> = (0..10_000).map(|number| format!("\"m{number}\"")).collect();
    let many = format!("[group.a]\nmembers = [{}]", names.join(", "));
    refused(ALICE, &many, 2, &["10000 members", "at most 2048"])?;
    let strangers =
        "[group.a]\nmembers = [{ name = \"x\", rule = { user = \"root\", thread = \"consort\" } }]";
    refused(ALICE, strangers, 4, &["as root"])?;
    let greedy = "[group.a]\nclass = \"guaranteed\"\nrate = 0.6\nmembers = [\"x\"]";
    refused(0, greedy, 1, &["guaranteed"])?;
    let text = "[group.a]\nmembers = [\"x\"]";
    let _applied = apply(ALICE, "mine", text)?;
    consort_as(BOB, &["delete", "mine"])?.expect(1, &["no group file"])?;
    let alice = ALICE.to_string();
    consort_as(BOB, &["delete", "mine", "--user", &alice])?.expect(4, &["not yours"])?;
    refused(
        ALICE,
        "name = \"other\"\n[group.b]\nmembers = [\"x\"]",
        1,
        &["of the file mine"],
    )?;
    // As many as may be, in a file of a user's who has none of the others' patience.
    let members: Vec<String> = (0..2_000).map(|number| format!("\"n{number}\"")).collect();
    let text = format!(
        "name = \"big\"\n[group.a]\nmembers = [{}]",
        members.join(", ")
    );
    refused(BOB, &text, 0, &[])?;
    consort_as(BOB, &["delete", "big"])?.expect(0, &[])?;
    Ok(())
}
