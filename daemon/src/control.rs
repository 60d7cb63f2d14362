// SPDX-License-Identifier: MIT OR Apache-2.0
//! CONTROL requests: what the consort command says, in JSON.
//!
//! | request | who | answer |
//! | --- | --- | --- |
//! | `{"command": "status"}` | anybody | [`crate::status::Status`] |
//! | `{"command": "domains", "after": N}` | anybody; strangers' only for root | [`crate::status::DomainPage`] |
//! | `{"command": "clients", "after": N}` | anybody; strangers' only for root | [`crate::status::ClientPage`] |
//! | `{"command": "set", "granularity_ns": N, "min_slice_ns": N}` | root, or the daemon's user | the tunables that hold now |
//!
//! `after` and each value of `set` may be left out. Lists come in pages, since an answer is one message.

use consort_kernel::TunablesChange;
use nix::{errno::Errno, unistd::geteuid};
use serde::Deserialize;
use tracing::info;

use crate::{
    clients::ConnectionId,
    peer::Peer,
    service::Service,
    status::{ClientPage, DomainPage, Status},
    Refusal,
};

#[derive(Debug, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
enum Command {
    Status {},
    Domains { after: Option<u32> },
    Clients { after: Option<ConnectionId> },
    Set(TunablesChange),
}

/// Does what `text` asks and returns the answer in JSON.
///
/// # Errors
/// EINVAL for text that is no command, EPERM, or what the scheduler refused.
pub fn answer(service: &mut Service, peer: &Peer, text: &str) -> Result<Vec<u8>, Refusal> {
    let command: Command = serde_json::from_str(text).map_err(|error| {
        let text = format!("not a control command: {error}");
        Refusal::new(Errno::EINVAL, text)
    })?;
    let may_control = peer.uid == 0 || peer.uid == geteuid().as_raw();
    let shown_uid = (!may_control).then_some(peer.uid);
    let json = match command {
        Command::Status {} => serde_json::to_vec(&Status::of(service)?),
        Command::Domains { after } => {
            serde_json::to_vec(&DomainPage::of(service, shown_uid, after))
        }
        Command::Clients { after } => {
            serde_json::to_vec(&ClientPage::of(service, shown_uid, after))
        }
        Command::Set(_) if !may_control => {
            let text = "only root may change how everybody is scheduled: use sudo";
            return Err(Refusal::new(Errno::EPERM, text));
        }
        Command::Set(change) => {
            let tunables = change.apply(service.host.tunables())?;
            service.host.set_tunables(tunables)?;
            info!(?tunables, uid = peer.uid, "tunables set");
            serde_json::to_vec(&tunables)
        }
    };
    json.map_err(|error| Refusal::new(Errno::EIO, format!("cannot write the answer: {error}")))
}
