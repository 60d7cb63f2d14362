// SPDX-License-Identifier: MIT OR Apache-2.0
//! A daemon follows another one, and programs notice nothing: by `consort serve --replace`, and where a service manager
//! keeps what a killed one had.

use consort_abi::CONSORT_HELLO;
use nix::sys::signal::Signal;

use super::rates::{hogs, reserve};
use crate::{
    check,
    suite::{
        board::Field,
        client::{request, Client},
        consort::{
            await_members, await_state, check_that_the_scheduler_goes_before_its_timers, consort,
            members, reservations, slice_ns, status, Daemon, SOCKET,
        },
        machine::{attached, possible_cpus, scheduler_state},
        manager::Manager,
        process::Role,
        Cpus, Needs, Outcome, Test,
    },
};

pub const TESTS: &[Test] = &[
    Test {
        name: "handover.replace",
        cpus: Cpus::Any,
        needs: Needs::NoDaemon,
        run: replace,
    },
    Test {
        name: "handover.exchange",
        cpus: Cpus::One,
        needs: Needs::NoDaemon,
        run: exchange,
    },
    Test {
        name: "handover.killed",
        cpus: Cpus::One,
        needs: Needs::NoDaemon,
        run: killed,
    },
];

/// Programs that must not notice: members of one domain, of which two have reservations, and hogs.
struct Programs {
    members: Vec<Role>,
    _hogs: Vec<Role>,
}

/// How many members have reservations.
const RESERVED: usize = 2;

impl Programs {
    fn start(hogs_beside: usize) -> Result<Programs, String> {
        let members = (0..4).map(|_| Role::ready("steady film 20 1"));
        let members = members.collect::<Result<Vec<_>, _>>()?;
        reserve(&members[0], "guaranteed", "0.2")?;
        reserve(&members[1], "adaptive", "0.1")?;
        let programs = Programs {
            members,
            _hogs: hogs(hogs_beside)?,
        };
        programs.forget_lateness();
        Ok(programs)
    }

    fn forget_lateness(&self) {
        for member in &self.members {
            member.board.set(Field::Extra, 0);
            member.board.set(Field::Errors, 0);
        }
    }

    /// All are there as before, and go on.
    fn check(&self) -> Outcome {
        check!(members()? == 4, "{} members instead of 4", members()?);
        let held = reservations()?;
        let mut numbers: Vec<_> = held.iter().map(|held| held["number"].as_u64()).collect();
        numbers.sort();
        let reserved = self.members.iter().take(RESERVED);
        let mut expected: Vec<_> = reserved.map(|role| Some(u64::from(role.pid()))).collect();
        expected.sort();
        check!(
            numbers == expected,
            "reserved is for {numbers:?} instead of {expected:?}"
        );
        self.members
            .iter()
            .try_for_each(|role| role.await_progress(Field::Served, 10))
    }

    /// The worst lateness of all.
    fn lateness_ns(&self) -> u64 {
        let late = self.members.iter().map(|role| role.get(Field::Extra)).max();
        late.unwrap_or_default()
    }

    /// The same scheduler has been in charge all the time, and the members were its members.
    fn check_undisturbed(&self, attached_before: u64) -> Outcome {
        check!(
            attached()? == attached_before,
            "the scheduler was attached anew"
        );
        let members = self.members.iter();
        let outside: u64 = members.map(|role| role.get(Field::Errors)).sum();
        check!(
            outside == 0,
            "members were told {outside} times that they are none"
        );
        Ok(())
    }
}

/// Members leave the domain with their programs, and others join it by its name.
fn comes_and_goes(programs: &mut Programs) -> Outcome {
    programs.members.pop();
    await_members(3)?;
    programs.members.push(Role::ready("steady film 20 1")?);
    await_members(4)?;
    let domains = status()?["domains"].as_array().map_or(0, Vec::len);
    check!(domains == 1, "there are {domains} domains");
    Ok(())
}

fn end(daemon: Daemon) -> Outcome {
    drop(daemon);
    await_state("disabled")?;
    check!(
        !std::path::Path::new(SOCKET).exists(),
        "the daemon's socket is still there"
    );
    Ok(())
}

/// The same scheduler goes on: no due event is later than without.
fn replace() -> Outcome {
    let first = Daemon::start(&[])?;
    let mut programs = Programs::start(2)?;
    programs.check()?;
    let before_ns = programs.lateness_ns();
    programs.forget_lateness();
    let attached_before = attached()?;
    let second = first.replaced(&[])?;
    programs.check()?;
    let third = second.replaced(&[])?;
    programs.check()?;
    // A second daemon is told of the one that serves.
    let serving = third.pid().to_string();
    consort(&["serve"])?.expect(6, &["another consort daemon", &serving])?;
    let late_ns = programs.lateness_ns();
    println!("late by at most {late_ns} ns, without a replacement {before_ns} ns");
    programs.check_undisturbed(attached_before)?;
    check!(
        // With several CPUs the emulator decides when a program runs.
        possible_cpus() > 1 || late_ns < before_ns + slice_ns()?,
        "an event was {late_ns} ns late, without a replacement {before_ns} ns"
    );
    comes_and_goes(&mut programs)?;
    end(third)
}

/// Another scheduler follows, for its options differ: programs keep their pages and domains, and what was set at run time
/// holds but for what the next daemon is told.
fn exchange() -> Outcome {
    let first = Daemon::start(&["--watchdog", "20s"])?;
    let mut programs = Programs::start(0)?;
    consort(&["set", "granularity", "3ms"])?.expect(0, &[])?;
    consort(&["set", "min-slice", "300us"])?.expect(0, &[])?;
    let attached_before = attached()?;
    let second = first.replaced(&["--min-slice", "250us"])?;
    programs.check()?;
    check!(
        attached()? == attached_before + 1,
        "the scheduler was not exchanged"
    );
    let tunables = &status()?["tunables"];
    check!(
        tunables["granularity_ns"] == 3_000_000 && tunables["min_slice_ns"] == 250_000,
        "{tunables} is set instead of 3 ms, as it was before, and 250 us, as the next daemon was told"
    );
    comes_and_goes(&mut programs)?;
    end(second)
}

/// Killed while a service manager has its descriptors: the scheduler goes on without a daemon, and the next one takes up
/// all. Without them everything is back under the stock scheduler.
fn killed() -> Outcome {
    let manager = Manager::start()?;
    let mut daemon = manager.start_daemon(&[])?;
    let mut programs = Programs::start(2)?;
    check!(
        manager.keeps("client-") == 4,
        "{} programs are kept",
        manager.keeps("client-")
    );
    let attached_before = attached()?;
    for _ in 0..3 {
        daemon.signal(Signal::SIGKILL)?;
        daemon.exit_code()?;
        check!(
            scheduler_state() == "enabled",
            "the scheduler is {}",
            scheduler_state()
        );
        programs
            .members
            .iter()
            .try_for_each(|role| role.await_progress(Field::Served, 10))?;
        // A program that comes meanwhile waits for the next one.
        let early = Client::connect()?;
        daemon = manager.start_daemon(&[])?;
        check_that_the_scheduler_goes_before_its_timers(daemon.pid())?;
        let answer = early.ask(&request(CONSORT_HELLO))?;
        check!(
            answer.error == 0,
            "a program that came meanwhile is told {answer:?}"
        );
        programs.check()?;
    }
    programs.check_undisturbed(attached_before)?;
    comes_and_goes(&mut programs)?;
    // A member that ends while there is no daemon is not there afterwards.
    daemon.signal(Signal::SIGKILL)?;
    daemon.exit_code()?;
    programs.members.pop();
    daemon = manager.start_daemon(&[])?;
    await_members(3)?;
    consort(&["status"])?.expect(0, &[])?;
    // A restart is the same, in peace.
    daemon.signal(Signal::SIGTERM)?;
    daemon.exit_code()?;
    check!(
        scheduler_state() == "enabled",
        "a restart has given the scheduler up"
    );
    manager.let_go();
    await_state("disabled")
}
