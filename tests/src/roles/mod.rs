// SPDX-License-Identifier: MIT OR Apache-2.0
//! The programs that tests start: honest ones, liars and vandals. Each shows on its board what it does.

pub mod attack;
mod by_header;
mod container;
mod crowd;
pub mod errant;
mod header;
mod honest;
mod large;
mod late;
mod lock;
mod memory;
mod named;
mod player;
mod rising;
mod storm;
mod teller;
mod vandal;

use std::{process::ExitCode, sync::mpsc, thread};

use nix::sys::{prctl, signal::Signal};

use crate::suite::{
    board::{Board, Field},
    client::gettid,
};

type Role = fn(&Board, &[&str]) -> Result<(), String>;

const ROLES: &[(&str, Role)] = &[
    ("hog", honest::hog),
    ("player", player::player),
    ("asker", player::asker),
    ("attack", attack::attack),
    ("member", honest::member),
    ("ticker", honest::ticker),
    ("steady", honest::steady),
    ("obedient", honest::obedient),
    ("forker", honest::forker),
    ("family", crowd::family),
    ("joiner", honest::joiner),
    ("polite-liar", vandal::polite_liar),
    ("mute-liar", vandal::mute_liar),
    ("scribbler", vandal::scribbler),
    ("remapper", vandal::remapper),
    ("container", container::container),
    ("fifo-hog", vandal::fifo_hog),
    ("join-storm", storm::joins),
    ("connections", storm::connections),
    ("deaf", storm::deaf),
    ("noise", storm::noise),
    ("deserter", crowd::deserter),
    ("executes", crowd::executes),
    ("threads", crowd::threads),
    ("members", crowd::members),
    ("ping-pong", crowd::ping_pong),
    ("holder", lock::holder),
    ("mapper", memory::mapper),
    ("served", lock::served),
    ("waits-for", lock::waits_for),
    ("calls", lock::calls),
    ("lock-storm", lock::storm),
    ("riser", rising::riser),
    ("large", large::large),
    ("sufferer", late::sufferer),
    ("bursts", late::bursts),
    ("interrupts", late::interrupts),
    ("events", late::events),
    ("teller", teller::teller),
    ("speaker", by_header::speaker),
    ("punctual", by_header::punctual),
    ("looper", by_header::looper),
    ("patron", by_header::patron),
    ("errant", errant::errant),
    ("named", named::named),
    ("polling", named::polling),
];

pub fn run(name: &str, arguments: &[&str]) -> ExitCode {
    let Some((_, role)) = ROLES.iter().find(|(known, _)| *known == name) else {
        eprintln!("there is no role {name}");
        return ExitCode::from(2);
    };
    // A role whose test was killed ends, too.
    let _ = prctl::set_pdeathsig(Signal::SIGKILL);
    match Board::of_this_role().and_then(|board| role(&board, arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            println!("role {name}: {text}");
            ExitCode::FAILURE
        }
    }
}

/// An argument by its place, parsed.
fn argument<T: std::str::FromStr>(arguments: &[&str], index: usize) -> Result<T, String> {
    let text = arguments
        .get(index)
        .ok_or_else(|| format!("argument {index} is missing"))?;
    text.parse()
        .map_err(|_| format!("argument {index} is {text:?}"))
}

/// Joins the domain `NAME`, or `NAME:service`: one that orders by measured service and trusts no published key.
fn join(domain: &str) -> Result<consort::Member, String> {
    let (name, order) = match domain.strip_suffix(":service") {
        Some(name) => (name, consort::Order::Service),
        None => (domain, consort::Order::Program),
    };
    let joined = consort::Domain::named(name).order(order).join();
    joined.map_err(|error| format!("cannot join {domain:?}: {error}"))
}

/// Works without a system call for a time on the clock.
fn work_ns(ns: u64) {
    let until_ns = consort::now_ns() + ns;
    while consort::now_ns() < until_ns {
        std::hint::spin_loop();
    }
}

/// The number of a thread that does nothing.
fn sleeping_thread() -> u32 {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let _ = tell.send(gettid() as u32);
        loop {
            thread::park();
        }
    });
    // It says so before anything else.
    told.recv().unwrap_or_default()
}

/// Shows what a poll returned.
fn show(board: &Board, others: &consort::Others) {
    let standing = match others.standing() {
        consort::Standing::Outside => 1,
        consort::Standing::Member => 2,
        consort::Standing::Demoted => 3,
    };
    board.add(Field::Polls, 1);
    board.set(Field::Standing, standing);
    if standing == 3 {
        board.add(Field::Demotions, 1);
    }
}
