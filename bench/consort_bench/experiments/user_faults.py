# SPDX-License-Identifier: MIT OR Apache-2.0
"""Members at user level, killed and stopped at random instants, in a guest that counts instructions."""

from __future__ import annotations

from ..model import Experiment, Row, Run, Scheduler, Target, of
from ..workloads import Length
from .user import USER_LEVEL

MEMBERS, TIMES = 12, 1000
# Between two casualties, on average.
GAP_S = 0.12
OVERHEAD_S = 13


def experiment(length: Length) -> Experiment:
    times = 100 if length == Length.quick() else TIMES
    words = ("casualties", "--members", str(MEMBERS), "--times", str(times), "--seed", "{seed}")
    runs = (Run("casualties", Scheduler.EEVDF, words, times * GAP_S + OVERHEAD_S),)
    rows = (
        Row("user.kill.stall_ms_max", "ms", of("casualties", "stall_ms_max"), Target(at_most=20)),
        Row("user.kill.leaks", "1", of("casualties", "leaks"), Target(at_most=0)),
    )
    return Experiment("user_faults", "Members at user level are lost", runs, rows, measures=USER_LEVEL)
