// SPDX-License-Identifier: MIT OR Apache-2.0
//! A player as programs are today: it knows only itself, and sleeps until its next frame is due.

use crate::clock::{now_ns, sleep_until_ns};
use crate::player::{Player, Record};

/// Plays to the end.
pub fn play(mut player: Player) -> Record {
    loop {
        let now = now_ns();
        player.finish_chunk(now);
        player.serve_due(now);
        if now >= player.stop_at_ns() {
            return player.into_record();
        }
        if player.wants_cpu() {
            player.decode_chunk(now);
        } else {
            sleep_until_ns(player.next_due_ns());
        }
    }
}
