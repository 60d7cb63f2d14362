// SPDX-License-Identifier: MIT OR Apache-2.0
//! A radio receiver: packets come over loopback, one a period, from a process that stands for the network, and so is
//! of a higher class than all that is measured.

use crate::clock::{no_timer_slack, now_ns, sleep_until_ns};
use crate::error::Error;
use crate::processes::{spawn, Child};
use consort_sim::setup::{Program, Step, Task};
use std::net::UdpSocket;
use std::time::Duration;

/// A tenth of a second of speech.
const PACKET_BYTES: usize = 800;
const PRIORITY: libc::c_int = 10;

pub struct Receiver {
    socket: UdpSocket,
    period: Duration,
    /// When the packet was sent that is worked on.
    sent_ns: Option<u64>,
}

/// A receiver for the task, and who sends to it from its start on, one packet for each multiple of its timer.
///
/// # Errors
/// The task has no timer; there is no loopback.
pub fn tune(task: &Task, begin_ns: u64, end_ns: u64) -> Result<(Receiver, Child<()>), Error> {
    let period_ns = period_ns(task)?;
    let failed = |source| Error::io("open a socket on loopback", source);
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(failed)?;
    let address = socket.local_addr().map_err(failed)?;
    let start_ns = begin_ns + task.start_ns.unwrap_or(0);
    let sender = spawn(|| {
        let out = UdpSocket::bind("127.0.0.1:0").map_err(failed)?;
        out.connect(address).map_err(failed)?;
        no_timer_slack();
        be_realtime()?;
        for number in 1.. {
            let due_ns = start_ns + number * period_ns;
            if due_ns >= end_ns {
                break;
            }
            sleep_until_ns(due_ns);
            let mut packet = [0; PACKET_BYTES];
            packet[..8].copy_from_slice(&now_ns().to_le_bytes());
            out.send(&packet)
                .map_err(|source| Error::io("send a packet", source))?;
        }
        Ok(())
    })?;
    let receiver = Receiver {
        socket,
        period: Duration::from_nanos(period_ns),
        sent_ns: None,
    };
    Ok((receiver, sender))
}

fn period_ns(task: &Task) -> Result<u64, Error> {
    fn find(steps: &[Step]) -> Option<u64> {
        steps.iter().find_map(|step| match step {
            Step::Timer { period_ns, .. } => Some(*period_ns),
            Step::Loop { steps, .. } => find(steps),
            _ => None,
        })
    }
    let found = match &task.program {
        Program::Steps(steps) => find(steps),
        _ => None,
    };
    found.ok_or_else(|| {
        let name = &task.name;
        Error::Usage(format!(
            "{name} has no timer, expected one: a receiver's packets are its timer's"
        ))
    })
}

fn be_realtime() -> Result<(), Error> {
    let parameters = libc::sched_param {
        sched_priority: PRIORITY,
    };
    // SAFETY: `parameters` is valid; changes only the calling process.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) } {
        0 => Ok(()),
        _ => Err(Error::last_os("become SCHED_FIFO")),
    }
}

impl Receiver {
    /// Waits for the next packet; false: none comes any more.
    pub fn wait(&mut self) -> Result<bool, Error> {
        let failed = |source| Error::io("receive a packet", source);
        self.socket
            .set_read_timeout(Some(2 * self.period))
            .map_err(failed)?;
        let mut packet = [0; PACKET_BYTES];
        match self.socket.recv(&mut packet) {
            Ok(_) => {
                let mut first = [0; 8];
                first.copy_from_slice(&packet[..8]);
                self.sent_ns = Some(u64::from_le_bytes(first));
                Ok(true)
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(failed(error)),
        }
    }

    /// How long ago the packet was sent that is done with now, if there is one.
    pub fn answered_after_ns(&mut self) -> Option<u64> {
        self.sent_ns.take().map(|sent_ns| now_ns() - sent_ns)
    }
}
