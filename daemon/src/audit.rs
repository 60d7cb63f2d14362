// SPDX-License-Identifier: MIT OR Apache-2.0
//! The audit trail: who reserved, released, lent, recollected and joined, and who was refused what. Its lines are events
//! of the target [`TARGET`], with a field for each part: the journal of systemd takes them as fields. A user gets so many
//! lines that nobody fills the log; how many were left out is said with the next one.

use std::time::Instant;

use tracing::{debug, info};

use crate::{peer::Peer, service::Service, Refusal};

pub const TARGET: &str = "consort::audit";

/// What somebody did, with its details.
pub(crate) fn done(service: &mut Service, peer: &Peer, doing: &'static str, details: &str) {
    if may_log(service, peer, Instant::now()) {
        info!(target: TARGET, doing, uid = peer.uid, pid = peer.pid, command = peer.command, details);
    }
}

pub(crate) fn refused(
    service: &mut Service,
    peer: &Peer,
    kind: u16,
    refusal: &Refusal,
    now: Instant,
) {
    debug!(pid = peer.pid, uid = peer.uid, %refusal, "refused");
    if may_log(service, peer, now) {
        let Refusal { errno, text } = refusal;
        info!(target: TARGET, doing = "refused", uid = peer.uid, pid = peer.pid, command = peer.command, request = kind, errno = %errno, details = text);
    }
}

fn may_log(service: &mut Service, peer: &Peer, now: Instant) -> bool {
    match service.users.may_log(peer.uid, now) {
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
