# SPDX-License-Identifier: MIT OR Apache-2.0
"""Members that move to the kernel's scheduler and back to user level while they play."""

from __future__ import annotations

from ..guest import CONSORT
from ..model import Experiment, Missing, Row, Run, Samples, Scheduler, Target, of, reading
from ..workloads import Length
from .user import USER_LEVEL

MOVES, PLAYERS = 100, 3
# Loading takes most of it: the kernel verifies the program, in a guest of 500 instructions to the us.
MOVE_S = 14


def experiment(length: Length) -> Experiment:
    moves = 4 if length == Length.quick() else MOVES
    seconds = moves * MOVE_S
    words = ("moves", "--mode", "coop", "-n", str(PLAYERS), "--seconds", str(seconds))
    words += ("--moves", str(moves), "--daemon", CONSORT.guest_path, "--seed", "{seed}")
    runs = (Run("moves", Scheduler.EEVDF, words, seconds + 5, files=(CONSORT,)),)
    rows = (
        Row("user.move.late_events", "1", reading(("moves",), _late(moves)), Target(at_most=0)),
        Row("user.move.tardiness_max_ms", "ms", of("moves", "fleet.tardiness.max_ms")),
        Row("user.move.slowest_ms", "ms", of("moves", "slowest_move_ms")),
    )
    return Experiment("user_moves", "Members move between hosts", runs, rows, measures=USER_LEVEL, starts=1)


def _late(moves: int):
    def value(samples: Samples) -> float:
        made = samples.value("moves", "moves")
        if made < moves:
            raise Missing(f"moves: {made:g} moves were made, expected {moves}")
        return samples.value("moves", "late_events")

    return value
