// SPDX-License-Identifier: MIT OR Apache-2.0
//! All players inside one process with one dispatcher: an earliest-due event first, else the best
//! best-effort event. No scheduler across processes can be expected to do better.

use crate::clock::{now_ns, sleep_until_ns};
use crate::player::{Player, Record};

/// Plays all to the end. Each record's `polls` counts the dispatcher's changes to that player.
pub fn play(mut players: Vec<Player>) -> Vec<Record> {
    let mut current = 0;
    loop {
        let now = now_ns();
        players[current].finish_chunk(now);
        serve_all_due(&mut players, now);
        if now >= players[0].stop_at_ns() {
            return players.into_iter().map(Player::into_record).collect();
        }
        let best = (0..players.len())
            .filter(|&index| players[index].wants_cpu())
            .min_by_key(|&index| players[index].progress_key());
        match best {
            Some(index) => {
                if index != current {
                    players[index].count_poll(now);
                }
                current = index;
                players[index].decode_chunk(now);
            }
            None => {
                let due_ns = players.iter().map(Player::next_due_ns).min();
                sleep_until_ns(due_ns.unwrap_or(now));
            }
        }
    }
}

/// Serves due events in the order of their due times.
fn serve_all_due(players: &mut [Player], now: u64) {
    while let Some(player) = players.iter_mut().min_by_key(|it| it.next_due_ns()) {
        if player.next_due_ns() > now {
            return;
        }
        player.serve_due(now);
    }
}
