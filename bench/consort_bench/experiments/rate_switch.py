# SPDX-License-Identifier: MIT OR Apache-2.0
"""A switch between tasks three levels below the top, against one between tasks without reservations."""

from ..commits import RESERVATIONS
from ..model import Experiment, Row, Run, Samples, Scheduler, Target, of
from ..workloads import Length
from .rates import run


def experiment(_length: Length) -> Experiment:
    runs = (
        Run("flat", Scheduler.CONSORT, ("yielders",), 3),
        run("deep", Scheduler.CONSORT, 3, "switches"),
    )
    rows = (
        Row("rate.switch_cost.ratio", "ratio", _ratio, Target(at_most=1.1)),
        Row(
            "rate.switch_cost.us",
            "us",
            of("deep", "us_per_switch"),
            against={"flat": of("flat", "us_per_switch")},
        ),
    )
    return Experiment("rate_switch", "Switches between reservations", runs, rows, measures=RESERVATIONS)


def _ratio(samples: Samples) -> float:
    return samples.value("deep", "us_per_switch") / samples.value("flat", "us_per_switch")
