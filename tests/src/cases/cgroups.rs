// SPDX-License-Identifier: MIT OR Apache-2.0
//! More cgroups than the scheduler has room for.

use crate::{
    check,
    suite::{
        board::Field,
        consort::{consort, counter},
        machine::Cgroup,
        process::Role,
        Cpus, Needs, Outcome, Test,
    },
};

pub const TESTS: &[Test] = &[Test {
    name: "cgroups.more_than_fit",
    cpus: Cpus::One,
    needs: Needs::Daemon,
    run: more_than_fit,
}];

/// Some more than the scheduler's map holds.
const NUMBER: usize = 16_400;

/// Each can be made; tasks in one that found no room run on, and only reserving for it is refused.
fn more_than_fit() -> Outcome {
    let shared = counter("shared_cgroups")?;
    let parent = Cgroup::create(None, "many")?;
    parent.divide()?;
    let mut children: Vec<Cgroup> = (0..NUMBER)
        .map(|number| Cgroup::create(Some(&parent), &format!("child{number}")))
        .collect::<Result<_, _>>()?;
    let more = counter("shared_cgroups")? - shared;
    check!(
        (1..100).contains(&more),
        "{more} of {NUMBER} cgroups found no room"
    );
    let last = children.pop().ok_or("there is no last cgroup")?;
    let hog = Role::ready("hog")?;
    last.adopt(hog.pid())?;
    last.set_weight(300)?;
    hog.await_progress(Field::Work, 10)?;
    let path = format!("many/child{}", NUMBER - 1);
    consort(&["reserve", &path, "--class", "guaranteed", "--rate", "0.1"])?
        .expect(1, &["no queue of its own", &path])?;
    // It ends while somebody has just left it, and those that have groups of their own with it.
    let other = children.pop().ok_or("there is no other cgroup")?;
    other.adopt(hog.pid())?;
    drop(last);
    hog.await_progress(Field::Work, 10)?;
    drop(hog);
    drop(other);
    children.iter().try_for_each(Cgroup::remove)?;
    std::mem::forget(children);
    // Where there is room again, a new one has groups of its own.
    let before = counter("shared_cgroups")?;
    let fresh = Cgroup::create(Some(&parent), "fresh")?;
    check!(
        counter("shared_cgroups")? == before,
        "a cgroup shares though others have gone"
    );
    drop(fresh);
    drop(parent);
    Ok(())
}
