// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUs that were not there when the scheduler was loaded: of a thousand possible ones four are, and others are plugged in.

use std::{fs, path::Path};

use crate::{
    check,
    suite::{
        consort::{await_members, consort, status, LOADING},
        machine::{attached, last_cpu, possible_cpus, present_cpus, set_cpu_online},
        process::{wait_until, Role, PATIENCE},
        Cpus, Needs, Outcome, Test,
    },
};

use super::load::{allow, progress_of_all};

pub const TESTS: &[Test] = &[Test {
    name: "plugging.cpus_come",
    cpus: Cpus::Growing,
    needs: Needs::Daemon,
    run: cpus_come,
}];

/// The guest's port to the emulator's monitor, see vm/run.
const MONITOR: &str = "/dev/ttyS3";
/// So many CPUs a socket, as vm/run has it.
const CORES: usize = 4;
/// So many has the scheduler room for that was loaded where there were four.
const ROOM: usize = 8;

/// Has the emulator plug in the next CPU, and brings it online.
fn plug(cpu: usize) -> Outcome {
    let (socket, core) = (cpu / CORES, cpu % CORES);
    let words = format!(
        "device_add max-x86_64-cpu,id=cpu{cpu},socket-id={socket},core-id={core},thread-id=0\n"
    );
    fs::write(MONITOR, words).map_err(|error| format!("cannot write {MONITOR}: {error}"))?;
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/online");
    wait_until(PATIENCE, &format!("CPU {cpu} to be plugged in"), || {
        Ok(Path::new(&path).exists())
    })?;
    set_cpu_online(cpu, true)
}

/// Has programs run on a CPU alone.
fn is_used(roles: &[Role], cpu: usize) -> Outcome {
    for role in roles {
        allow(role, &[cpu])?;
    }
    progress_of_all(roles)?;
    for role in roles {
        let on = last_cpu(role.pid())?;
        check!(on == cpu, "{:?} runs on CPU {on}, not on {cpu}", role.name);
    }
    Ok(())
}

/// There is room for some. For one more the scheduler is loaded anew, which is no ejection, and programs come back to it.
fn cpus_come() -> Outcome {
    check!(
        possible_cpus() > 1000 && present_cpus() == CORES,
        "{} CPUs of {}",
        present_cpus(),
        possible_cpus()
    );
    let mut roles = vec![Role::ready("ticker plugged 20")?, Role::ready("hog")?];
    let loads = attached()?;
    for cpu in CORES..ROOM {
        plug(cpu)?;
    }
    is_used(&roles, ROOM - 1)?;
    set_cpu_online(ROOM - 1, false)?;
    set_cpu_online(ROOM - 1, true)?;
    is_used(&roles, CORES)?;
    check!(
        attached()? == loads,
        "CPUs came for which there is room, and the scheduler was loaded anew"
    );
    // Whoever keeps its CPU busy makes loading slow in an emulator.
    roles.truncate(1);
    plug(ROOM)?;
    wait_until(LOADING, "the scheduler with more room", || {
        Ok(attached()? == loads + 1 && consort(&["status"])?.code == 0)
    })?;
    await_members(1)?;
    is_used(&roles, ROOM)?;
    let status = status()?;
    check!(
        status["ejections"]["count"] == 0 && status["scheduler"]["mode"] == "full",
        "{status}"
    );
    Ok(())
}
