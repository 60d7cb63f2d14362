# SPDX-License-Identifier: MIT OR Apache-2.0
"""Finer events: players that poll every 100 us."""

from ..commits import COOPERATION
from ..model import Experiment, Row, Target, of
from ..workloads import Length, fleet, tardiness_row

FINE = ("--chunk-us", "100")


def experiment(length: Length) -> Experiment:
    runs = (
        fleet("eevdf.n12", "plain", 12, length, *FINE),
        fleet("ideal.n12", "monolithic", 12, length, *FINE),
        fleet("coop.n12", "coop", 12, length, *FINE),
    )
    others = {"eevdf": "eevdf.n12", "ideal": "ideal.n12"}
    rows = (
        tardiness_row("coop100us.n12", "mean", "coop.n12", Target(at_most=0.07), others),
        tardiness_row("coop100us.n12", "max", "coop.n12", Target(at_most=0.25), others),
        Row(
            "coop100us.n12.decode_cpu_percent",
            "%",
            of("coop.n12", "decode_cpu_percent"),
            against={name: of(run, "decode_cpu_percent") for name, run in others.items()},
        ),
    )
    return Experiment("chunks", "Players that poll every 100 us", runs, rows, measures=COOPERATION)
