// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tests, by what they are about. They run in this order.

mod cgroups;
mod command;
mod containers;
mod df;
mod effects;
mod ejection;
mod fairness;
mod faults;
mod groups;
mod gstreamer;
mod handover;
mod hostile;
mod inheritance;
mod late;
mod liars;
mod lifecycle;
mod limits;
mod load;
mod membership;
mod plugging;
mod policing;
mod rates;
mod trace;

use crate::suite::Test;

pub fn all() -> impl Iterator<Item = &'static Test> {
    [
        lifecycle::TESTS,
        handover::TESTS,
        command::TESTS,
        membership::TESTS,
        containers::TESTS,
        groups::TESTS,
        gstreamer::TESTS,
        df::TESTS,
        policing::TESTS,
        // One that ends the daemon before others that want none.
        trace::TESTS,
        late::TESTS,
        liars::TESTS,
        hostile::TESTS,
        fairness::TESTS,
        limits::TESTS,
        rates::TESTS,
        effects::TESTS,
        inheritance::TESTS,
        load::TESTS,
        plugging::TESTS,
        cgroups::TESTS,
        faults::TESTS,
        ejection::TESTS,
    ]
    .into_iter()
    .flatten()
}
