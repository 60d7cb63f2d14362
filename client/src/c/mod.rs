// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `consort.h` declares. The header is the documentation; these are thin.
#![allow(clippy::missing_safety_doc)] // the header says what callers must keep

mod announced;
mod error;
mod event_loop;
mod member;
mod reservation;
mod thread;
mod trace;
mod train;
mod usage;
mod waker;
