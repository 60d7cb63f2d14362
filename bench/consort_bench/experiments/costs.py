# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a poll, a switch and a pipe round trip cost."""

from ..commits import COOPERATION
from ..model import Experiment, Row, Run, Scheduler, Target, of
from ..workloads import Length

POLLED = ("polls",)


def experiment(length: Length) -> Experiment:
    runs = (
        Run("eevdf.yield", Scheduler.EEVDF, ("yielders",), 3),
        Run("eevdf.pipe", Scheduler.EEVDF, ("pipe",), 3),
        Run("yield", Scheduler.CONSORT, ("yielders",), 3),
        Run("pipe", Scheduler.CONSORT, ("pipe",), 3),
        # A poll without a system call moves no counter of the scheduler.
        Run("poll", Scheduler.CONSORT, ("poll-cost",), 1),
        Run("domain", Scheduler.CONSORT, ("domain-switch",), 3, moving=POLLED),
    )
    rows = (
        Row(
            "cost.poll_instructions",
            "instructions",
            of("poll", "instructions_per_poll"),
            Target(at_most=190),
        ),
        Row(
            "cost.yield_switch_us",
            "us",
            of("yield", "us_per_switch"),
            Target(at_most=8.0),
            {"eevdf": of("eevdf.yield", "us_per_switch")},
        ),
        Row("cost.domain_switch_us", "us", of("domain", "us_per_switch"), Target(at_most=9.0)),
        Row(
            "cost.pipe_roundtrip_us",
            "us",
            of("pipe", "us_per_round"),
            Target(at_most=28),
            {"eevdf": of("eevdf.pipe", "us_per_round")},
        ),
    )
    return Experiment("costs", "Costs of polls and switches", runs, rows, measures=COOPERATION)
