# SPDX-License-Identifier: MIT OR Apache-2.0
"""stress-ng's stressors of the scheduler, against EEVDF (000, section 5.1.1 leaves it to future work)."""

from __future__ import annotations

import shutil
from pathlib import Path

from ..commits import SCHEDULER
from ..model import COMPARED, Experiment, GuestFile, Row, Run, Target, of, stock_over
from ..workloads import Length
from .hackbench import of_one

# Those that make the scheduler work: hand-overs, sleeps and wake-ups, births and deaths, plain running.
STRESSORS = ("cpu", "switch", "pipe", "yield", "futex", "sem", "poll", "mq", "nanosleep", "fork", "pthread")
# Those that do little else than hand over, and how much slower they may be.
HAND_OVERS = ("futex", "mq", "pipe", "sem", "yield")
RATIO_MAX = 1.1
OPERATIONS = "operations_per_s"
SECONDS_MAX = 3
# To start and to end.
OVERHEAD_S = 0.5
PROGRAM = GuestFile(
    Path(shutil.which("stress-ng") or "/usr/bin/stress-ng"), "/usr/bin/stress-ng", "install stress-ng"
)


def experiment(length: Length) -> Experiment:
    seconds = min(SECONDS_MAX, length.seconds)
    runs = tuple(
        Run(
            f"{scheduler.value}.{stressor}",
            scheduler,
            ("stress", "--stressor", stressor, "--seconds", str(seconds)),
            seconds + OVERHEAD_S,
            files=(PROGRAM,),
        )
        for scheduler in COMPARED
        for stressor in STRESSORS
    )
    rows = tuple(
        Row(
            f"stressng.{stressor}.ratio",
            "ratio",
            stock_over(stressor, OPERATIONS),
            target(stressor),
            {"eevdf": of_one},
        )
        for stressor in STRESSORS
    ) + tuple(
        Row(
            f"stressng.{stressor}.operations_per_s",
            "1/s",
            of(f"consort.{stressor}", OPERATIONS),
            against={"eevdf": of(f"eevdf.{stressor}", OPERATIONS)},
        )
        for stressor in STRESSORS
    )
    return Experiment("stress", "stress-ng", runs, rows, measures=SCHEDULER)


def target(stressor: str) -> Target:
    return Target(at_most=RATIO_MAX) if stressor in HAND_OVERS else Target()
