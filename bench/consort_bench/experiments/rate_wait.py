# SPDX-License-Identifier: MIT OR Apache-2.0
"""Somebody who has reserved, beside 1000 threads that have not (004, section 5)."""

from ..commits import RESERVATIONS
from ..model import Experiment, Row, Samples, Scheduler, Target, of
from ..workloads import Length
from .rates import against_cgroups, run

PATTERNS = ("greedy", "periodic")
START_S = 10


def experiment(length: Length) -> Experiment:
    def runs_of(name: str, scheduler: Scheduler, *options: str):
        return tuple(
            run(
                f"{name}.{pattern}",
                scheduler,
                length.seconds + START_S,
                *("wait", "--pattern", pattern, "--seconds", str(length.seconds), *options),
            )
            for pattern in PATTERNS
        )

    runs = against_cgroups(runs_of)
    rows = (
        Row(
            "rate.gr_beside_1000.wait_over_bound",
            "ratio",
            _worst("consort"),
            Target(at_most=1),
            {"eevdf": _worst("eevdf")},
        ),
        *(
            Row(
                f"rate.gr_beside_1000.{pattern}_wait_max_ms",
                "ms",
                of(f"consort.{pattern}", "longest_ms"),
                against={"eevdf": of(f"eevdf.{pattern}", "longest_ms")},
            )
            for pattern in PATTERNS
        ),
    )
    return Experiment(
        "rate_wait", "A reservation beside 1000 threads without", runs, rows, measures=RESERVATIONS
    )


def _worst(name: str):
    def value(samples: Samples) -> float:
        return max(samples.value(f"{name}.{pattern}", "over_bound") for pattern in PATTERNS)

    return value
