// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other schedulers to compare with, as models.
