// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs connect: each is let in, is told why not, or is shut out without a word.
//!
//! To tell one why costs the daemon some time, for which there is a budget. When that is used up, those that are refused
//! are shut out: one user's crowd then neither keeps the daemon busy nor others waiting behind it.

use std::{
    os::fd::{AsRawFd, OwnedFd},
    time::{Duration, Instant},
};

use consort_abi::CONSORT_HELLO;
use consort_kernel::Thread;
use nix::sys::{
    epoll::{EpollEvent, EpollFlags},
    socket::{shutdown, Shutdown, UnixCredentials},
};
use tracing::{debug, warn};

use super::{Server, LISTENER};
use crate::{bills, clients::ConnectionId, limits::Bucket, listen, peer, wire::Reply, Refusal};

/// In seconds of CPU time: two percent of a CPU to tell why, and how much at once.
const TELLING_PER_S: f64 = 0.02;
const TELLING_BURST: f64 = 0.002;
/// The same to shut them out, for which their processes pay besides, if they live.
const SHUTTING_OUT_PER_S: f64 = 0.1;
const SHUTTING_OUT_BURST: f64 = 0.01;
/// So many are shut out per round.
const SHUT_OUT_PER_ROUND: usize = 64;

/// What refusing has cost, which nobody may have paid for: a process that has ended does not.
pub(super) struct Refused {
    telling: Bucket,
    shutting_out: Bucket,
}

impl Refused {
    pub fn new(now: Instant) -> Self {
        Refused {
            telling: Bucket::of_size(TELLING_PER_S, TELLING_BURST, now),
            shutting_out: Bucket::of_size(SHUTTING_OUT_PER_S, SHUTTING_OUT_BURST, now),
        }
    }
}

impl Server<'_> {
    /// Lets one in, or tells one why not, and shuts out some that are before it.
    pub(super) fn accept(&mut self) {
        for _ in 0..SHUT_OUT_PER_ROUND {
            let now = Instant::now();
            if let Some(wait) = self.refused.shutting_out.owes_for(0.0, now) {
                return self.pause_listening(LISTENER, now + wait.max(Duration::from_millis(1)));
            }
            let socket = match self.listener.accept() {
                Ok(Some(socket)) => socket,
                Ok(None) => return,
                Err(errno) => {
                    // Out of descriptors: wait for a program to end, without spinning.
                    warn!(%errno, "cannot accept a connection");
                    return self.pause_listening(LISTENER, now + self.tools.pause);
                }
            };
            if !self.is_shut_out(socket, now) {
                return;
            }
        }
    }

    /// False when it was let in or told why not. A program that connects pays for it, refused or not.
    fn is_shut_out(&mut self, socket: OwnedFd, now: Instant) -> bool {
        let id = self.next_id;
        self.next_id += 1;
        let seen = match peer::credentials(&socket) {
            Ok(seen) => seen,
            Err(refusal) => {
                self.turn_away(socket, &refusal);
                let spent = self.charge(None, now);
                self.refused.telling.charge(spent.as_secs_f64());
                return false;
            }
        };
        let admitted = self.service.connect_from(id, &socket, now);
        let payer = self.service.payer_at(id);
        let may_tell = self.refused.telling.owes_for(0.0, now).is_none();
        let is_admitted = admitted.is_ok();
        match admitted {
            Ok(()) => self.listen_to(id, socket, now),
            Err(refusal) if may_tell => self.turn_away(socket, &refusal),
            Err(_) => self.close_connection(socket),
        }
        let payer = payer.unwrap_or((seen.uid(), process(&seen)));
        let spent = self.charge(Some(payer), now);
        match (is_admitted, may_tell) {
            (true, _) => {}
            (false, true) => self.refused.telling.charge(spent.as_secs_f64()),
            (false, false) => self.refused.shutting_out.charge(spent.as_secs_f64()),
        }
        !is_admitted && !may_tell
    }

    fn turn_away(&mut self, socket: OwnedFd, refusal: &Refusal) {
        debug!(%refusal, "connection refused");
        // The program has not spoken yet; it will take this for the answer to its HELLO.
        let _ = listen::send(
            socket.as_raw_fd(),
            &Reply::refused(CONSORT_HELLO as u16, refusal),
        );
        if !self.closer.is_behind() {
            // With its HELLO unread the kernel would tell the program of a broken connection instead of the answer.
            let unread = listen::shut(socket.as_raw_fd(), &mut self.buffer);
            unread.into_iter().for_each(|file| self.closer.close(file));
        }
        self.close_connection(socket);
    }

    pub(super) fn close_connection(&self, socket: OwnedFd) {
        match listen::closes_at_once(&socket) {
            true => drop(socket),
            false => {
                // Its program is to know at once.
                let _ = shutdown(socket.as_raw_fd(), Shutdown::Both);
                self.closer.close(socket);
            }
        }
    }

    fn listen_to(&mut self, id: ConnectionId, socket: OwnedFd, now: Instant) {
        let event = EpollEvent::new(EpollFlags::EPOLLIN, id);
        match self.epoll.add(&socket, event) {
            Ok(()) => {
                self.connections.insert(id, socket);
            }
            Err(errno) => {
                warn!(%errno, "cannot watch a connection");
                self.service.disconnect(id, now);
            }
        }
    }
}

/// Who connected, as far as the kernel tells before anything is asked.
fn process(seen: &UnixCredentials) -> Thread {
    Thread {
        tid: seen.pid(),
        start: bills::ANY_START,
    }
}
