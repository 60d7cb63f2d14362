// SPDX-License-Identifier: MIT OR Apache-2.0
//! Players that cooperate through libconsort, and members that break the contract.

use crate::error::Error;
use crate::fleet::{FleetOptions, Schedule};
use crate::player::{Player, Record};
use clap::Args;
use serde::Serialize;

/// How members join.
#[derive(Clone, Debug, Args, Serialize)]
pub struct Membership {
    /// Cooperation domain to join, for --mode coop
    #[arg(long, default_value = "bench")]
    pub domain: String,
    /// Give every member a private domain instead
    #[arg(long)]
    pub private: bool,
}
pub fn play(
    _player: Player,
    _options: &FleetOptions,
    _schedule: Schedule,
) -> Result<Record, Error> {
    Err(Error::Cooperation("todo".into()))
}
pub fn lie_mutely(_options: &FleetOptions, _schedule: Schedule) -> Result<(), Error> {
    Err(Error::Cooperation("todo".into()))
}
pub fn lie_politely(_options: &FleetOptions, _schedule: Schedule) -> Result<(), Error> {
    Err(Error::Cooperation("todo".into()))
}
