# SPDX-License-Identifier: MIT OR Apache-2.0
"""A process that wakes every 10 ms beside hogs, and does not cooperate: how late does it run?"""

from ..commits import SCHEDULER
from ..model import COMPARED, Experiment, Row, Run, Scheduler, Target, of
from ..workloads import Length


def experiment(length: Length) -> Experiment:
    def wake(name: str, scheduler: Scheduler, hogs: int) -> Run:
        words = ("wake", "--hogs", str(hogs), "--seconds", str(length.seconds))
        return Run(name, scheduler, words, length.seconds + 2)

    runs = tuple(
        wake(f"{scheduler.value}.{hogs}", scheduler, hogs) for scheduler in COMPARED for hogs in (1, 4)
    )
    rows = tuple(
        Row(
            f"wake.{hogs}hog{'s' if hogs > 1 else ''}.lateness_{statistic}_us",
            "us",
            of(f"consort.{hogs}", f"{statistic}_us"),
            Target(at_most=18) if statistic == "mean" else Target(),
            {"eevdf": of(f"eevdf.{hogs}", f"{statistic}_us")},
        )
        for hogs in (1, 4)
        for statistic in ("mean", "max")
    )
    return Experiment("wake", "Waking beside hogs", runs, rows, measures=SCHEDULER)
