# SPDX-License-Identifier: MIT OR Apache-2.0
"""The workloads that 000 (section 5.1.1) leaves to future work, against EEVDF."""

from ..commits import SCHEDULER
from ..model import COMPARED, Experiment, Row, Run, Target, of, over_stock
from ..workloads import Length
from .hackbench import of_one

RING = ("pipe", "--processes", "32", "--rounds", "2000")


def experiment(length: Length) -> Experiment:
    massive_intr = ("massive-intr", "--processes", "10", "--seconds", str(length.seconds))
    runs = tuple(
        Run(f"{scheduler.value}.{name}", scheduler, words, guest_s)
        for scheduler in COMPARED
        for name, words, guest_s in (
            ("ring", RING, 3),
            ("massive_intr", massive_intr, length.seconds + 1),
        )
    )
    rows = (
        Row("ring.ratio", "ratio", over_stock("ring", "us_per_hop"), Target(at_most=1), {"eevdf": of_one}),
    ) + tuple(
        Row(id, unit, of(f"consort.{run}", path), against={"eevdf": of(f"eevdf.{run}", path)})
        for id, unit, run, path in (
            ("ring.us_per_hop", "us", "ring", "us_per_hop"),
            ("massive_intr.rounds_mean", "rounds", "massive_intr", "rounds_mean"),
            ("massive_intr.rounds_cv_percent", "%", "massive_intr", "rounds_cv_percent"),
        )
    )
    return Experiment("pathological", "Ring and massive_intr", runs, rows, measures=SCHEDULER)
