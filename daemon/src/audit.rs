// SPDX-License-Identifier: MIT OR Apache-2.0
//! The audit trail: who reserved, released, lent, recollected and joined, what the operator changed, and who was refused
//! what. Its lines are events of the target [`TARGET`], with a field for each part: the journal of systemd takes them as
//! fields. A user gets so many lines, and each is so short, that nobody fills the log; how many were left out is said with the
//! next one.

use std::time::Instant;

use consort_abi::message::cut_text;
use tracing::{debug, info};

use crate::{peer::Peer, service::Service, Refusal};

pub const TARGET: &str = "consort::audit";

/// Of what a line says of somebody's request, which may be as long as a message.
const DETAILS_BYTES_MAX: usize = 512;

/// What somebody did, with its details.
pub(crate) fn done(service: &mut Service, peer: &Peer, doing: &'static str, details: &str) {
    if may_log(service, peer.uid, Instant::now()) {
        let details = cut_text(details, DETAILS_BYTES_MAX);
        info!(target: TARGET, doing, uid = peer.uid, pid = peer.pid, command = peer.command, details);
    }
}

/// A request that was not granted, or a message that is none.
pub(crate) fn refused(
    service: &mut Service,
    peer: &Peer,
    kind: u16,
    refusal: &Refusal,
    now: Instant,
) {
    debug!(pid = peer.pid, uid = peer.uid, %refusal, "refused");
    if may_log(service, peer.uid, now) {
        let (errno, details) = (refusal.errno, cut_text(&refusal.text, DETAILS_BYTES_MAX));
        info!(target: TARGET, doing = "refused", uid = peer.uid, pid = peer.pid, command = peer.command, request = kind, errno = %errno, details);
    }
}

/// A program that was not let in: of it only that is known which the kernel tells.
pub(crate) fn turned_away(
    service: &mut Service,
    (uid, pid): (u32, i32),
    refusal: &Refusal,
    now: Instant,
) {
    if may_log(service, uid, now) {
        let (errno, details) = (refusal.errno, cut_text(&refusal.text, DETAILS_BYTES_MAX));
        info!(target: TARGET, doing = "turn away", uid, pid, errno = %errno, details);
    }
}

/// The operator's file was read again. The kernel lets nobody else send the signal for that, so these lines are not counted.
pub(crate) fn reloaded((uid, pid): (u32, i32), outcome: &Result<&str, String>) {
    let details = match outcome {
        Ok(applied) => applied,
        Err(text) => text.as_str(),
    };
    info!(target: TARGET, doing = "reload", uid, pid, details);
}

fn may_log(service: &mut Service, uid: u32, now: Instant) -> bool {
    match service.users.may_log(uid, now) {
        true => {
            let left_out = std::mem::take(&mut service.left_out);
            if left_out > 0 {
                info!(target: TARGET, doing = "left out", lines = left_out);
            }
            true
        }
        false => {
            service.left_out += 1;
            false
        }
    }
}
