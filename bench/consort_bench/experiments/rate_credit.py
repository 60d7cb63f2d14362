# SPDX-License-Identifier: MIT OR Apache-2.0
"""A client lends most of its rate to its server, and takes it back (001, Figures 4.4 and 4.5)."""

from ..commits import RESERVATIONS
from ..model import Experiment, Row, Scheduler, Target, of
from ..workloads import Length
from .rates import run

ROUNDS = 20
ROUND_S = 0.8


def experiment(_length: Length) -> Experiment:
    runs = (run("consort", Scheduler.CONSORT, ROUNDS * ROUND_S, "credit", "--rounds", str(ROUNDS)),)
    rows = (
        # How far a task is off the new shares at most, from a call on; and from a time without one.
        Row(
            "rate.credit.settle_slices",
            "slices",
            of("consort", "settle_slices"),
            Target(at_most=2),
            {"settled": of("consort", "settled_slices")},
        ),
        Row("rate.credit.call_mean_ms", "ms", of("consort", "call_mean_ms")),
        Row("rate.credit.call_max_ms", "ms", of("consort", "call_max_ms")),
    )
    return Experiment("rate_credit", "Credits", runs, rows, measures=RESERVATIONS)
