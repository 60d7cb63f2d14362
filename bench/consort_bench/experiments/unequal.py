# SPDX-License-Identifier: MIT OR Apache-2.0
"""Players of 0.5 to 1.5 times the load in one domain: do all show as many frames?"""

from ..commits import COOPERATION
from ..model import Experiment, Row, Target, of
from ..workloads import Length, fleet, tardiness_row


def experiment(length: Length) -> Experiment:
    runs = (
        fleet("eevdf.n12", "plain", 12, length, "--unequal"),
        fleet("ideal.n12", "monolithic", 12, length, "--unequal"),
        fleet("coop.n12", "coop", 12, length, "--unequal"),
    )
    others = {"eevdf": "eevdf.n12", "ideal": "ideal.n12"}
    path = "frames_per_s_cv_percent"
    rows = (
        Row(
            "coop.unequal.fps_cv_percent",
            "%",
            of("coop.n12", path),
            Target(at_most=0.5),
            {name: of(run, path) for name, run in others.items()},
        ),
        tardiness_row("coop.unequal", "mean", "coop.n12", Target(), others),
    )
    return Experiment("unequal", "Players of unequal load", runs, rows, measures=COOPERATION)
