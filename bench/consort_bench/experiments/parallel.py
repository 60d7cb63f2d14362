# SPDX-License-Identifier: MIT OR Apache-2.0
"""Two CPUs that do run at the same time, as threads of this machine: messages, against EEVDF.

The clock is this machine's, so that nothing else may run beside it: a ratio of medians, over several starts.
"""

from __future__ import annotations

from ..commits import SCHEDULER
from ..model import COMPARED, Experiment, Row, Run, Settings, Target, over_stock
from ..workloads import Length
from .hackbench import of_one

TWO = Settings(cpus=2, counted=False)
LOOPS_PER_SECOND = 5
STARTS = 5


def experiment(length: Length) -> Experiment:
    loops = str(length.seconds * LOOPS_PER_SECOND)
    runs = tuple(
        Run(
            f"{scheduler.value}.messages",
            scheduler,
            ("hackbench", "--groups", "4", "--loops", loops),
            length.seconds,
            TWO,
            is_timed=True,
        )
        for scheduler in COMPARED
    )
    row = Row(
        "smp2.multi.hackbench.ratio",
        "ratio",
        over_stock("messages", "us_per_message"),
        Target(at_most=1.1),
        {"eevdf": of_one},
    )
    return Experiment("parallel", "Two CPUs at a time", runs, (row,), measures=SCHEDULER, starts=STARTS)
