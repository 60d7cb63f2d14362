# SPDX-License-Identifier: MIT OR Apache-2.0
"""Hackbench: many short messages between many processes."""

from ..commits import SCHEDULER
from ..model import COMPARED, Experiment, Row, Run, Samples, Target, of, over_stock
from ..workloads import Length

TRANSPORTS = ("sockets", "pipes")


def experiment(length: Length) -> Experiment:
    loops = str(max(5, length.seconds * 2))
    runs = tuple(
        Run(
            f"{scheduler.value}.{transport}",
            scheduler,
            ("hackbench", "--transport", transport, "--loops", loops),
            6,
        )
        for scheduler in COMPARED
        for transport in TRANSPORTS
    )
    rows = tuple(
        Row(
            f"hackbench.{transport}.ratio",
            "ratio",
            over_stock(transport, "us_per_message"),
            Target(at_most=1.05),
            {"eevdf": of_one},
        )
        for transport in TRANSPORTS
    ) + tuple(
        Row(
            f"hackbench.{transport}.us_per_message",
            "us",
            of(f"consort.{transport}", "us_per_message"),
            against={"eevdf": of(f"eevdf.{transport}", "us_per_message")},
        )
        for transport in TRANSPORTS
    )
    return Experiment("hackbench", "Hackbench", runs, rows, measures=SCHEDULER)


def of_one(_samples: Samples) -> float:
    """EEVDF's own ratio to itself."""
    return 1.0
