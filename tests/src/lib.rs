// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole-system tests: see `main.rs`.
