# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every player in a private domain: cooperation with the scheduler alone."""

from ..commits import COOPERATION
from ..model import Experiment, Row, Target, of
from ..workloads import Length, fleet, tardiness_row


def experiment(length: Length) -> Experiment:
    runs = (
        fleet("eevdf.n12", "plain", 12, length),
        fleet("private.n12", "coop", 12, length, "--private"),
    )
    others = {"eevdf": "eevdf.n12"}
    rows = (
        tardiness_row("private.n12", "mean", "private.n12", Target(at_most=1.0), others),
        tardiness_row("private.n12", "p99", "private.n12", Target(), others),
        tardiness_row("private.n12", "max", "private.n12", Target(), others),
        Row(
            "private.n12.switches_per_s",
            "1/s",
            of("private.n12", "switches_per_s"),
            against={"eevdf": of("eevdf.n12", "switches_per_s")},
        ),
    )
    return Experiment("private", "Every player in a private domain", runs, rows, measures=COOPERATION)
