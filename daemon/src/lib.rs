// SPDX-License-Identifier: MIT OR Apache-2.0
//! The service between programs and the scheduler: it loads the scheduler, tells who may do what, hands out
//! the pages, names the domains, and bounds what one user can hold.
//!
//! One thread serves a Unix socket. What arrives there is hostile until checked: [`wire`] checks its shape,
//! [`peer`] who sent it, [`limits`] how much of it there is, and [`requests`] what it asks for. What happens when the
//! kernel ejects the scheduler is in [`ejection`].

mod absent;
pub mod admission;
mod adopt;
pub mod audit;
mod bills;
pub mod clients;
pub mod config;
pub mod control;
mod descriptors;
mod divide;
pub mod division;
pub mod domains;
mod dumps;
pub mod ejection;
pub mod estate;
mod executed;
mod force;
pub mod functions;
pub mod groups;
pub mod handover;
pub mod host;
pub mod journal;
mod keep;
mod known;
pub mod lending;
pub mod limits;
pub mod listen;
pub mod lock;
pub mod notify;
mod pages;
pub mod peer;
mod priority;
mod privileges;
mod procfs;
pub mod refusal;
pub mod requests;
pub mod reservations;
mod restore;
pub mod root;
mod safe;
mod search;
mod serve;
mod server;
pub mod service;
mod signals;
pub mod status;
pub mod store;
pub mod targets;
mod terms;
mod upkeep;
pub mod usage;
pub mod users;
pub mod wire;
mod written;

pub use consort_rates::{classes, credits, duration, rate, ClassTable};
pub use host::{Heir, Host, Loader, Running};
pub use refusal::Refusal;
pub use serve::{serve, Config, End, ServeError};
