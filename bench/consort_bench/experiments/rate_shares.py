# SPDX-License-Identifier: MIT OR Apache-2.0
"""Hogs with reservations in two classes, beside hogs without: the share of each in any window of a second."""

from ..commits import RESERVATIONS
from ..model import Experiment, Row, Scheduler, Target, of
from ..workloads import Length
from .rates import BY_CGROUPS, BY_DEADLINE, run


def experiment(length: Length) -> Experiment:
    words = ("shares", "--seconds", str(length.seconds))
    runs = (
        run("consort", Scheduler.CONSORT, length.seconds, *words),
        run("eevdf", Scheduler.EEVDF, length.seconds, *words, *BY_CGROUPS),
        run("deadline", Scheduler.EEVDF, length.seconds, *words, *BY_DEADLINE),
    )
    rows = (
        Row(
            "rate.window1s.error_percent",
            "%",
            of("consort", "window_error_percent"),
            Target(at_most=0.5),
            {name: of(name, "window_error_percent") for name in ("eevdf", "deadline")},
        ),
    )
    return Experiment(
        "rate_shares", "Reserved shares, in any window of a second", runs, rows, measures=RESERVATIONS
    )
