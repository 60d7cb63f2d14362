// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenarios as data: rt-app's JSON, and what it cannot say.
