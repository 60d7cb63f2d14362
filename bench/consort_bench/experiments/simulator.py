# SPDX-License-Identifier: MIT OR Apache-2.0
"""The simulator itself: how fast it is, what it finds, and what of the scheduler it reaches."""

from __future__ import annotations

from ..commits import SIMULATION
from ..model import Experiment, Row, Run, Scheduler, Target, of
from ..workloads import Length

DECISIONS_MIN_PER_S = 500_000
HOUR_MAX_S = 60
LARGE_DECISIONS_MIN_PER_S = {"cpus256": 150_000, "cpus1024": 80_000}
LARGE_MEMORY_MAX_MIB = 4096
COVERAGE_MIN_PERCENT = 95


def experiment(length: Length) -> Experiment:
    runs = tuple(measure(what) for what in ("hour", *LARGE_DECISIONS_MIN_PER_S, "mutations", "coverage"))
    rows = (
        row("sim.decisions_per_s", "1/s", "hour", "decisions_per_s", Target(at_least=DECISIONS_MIN_PER_S)),
        row("sim.hour.seconds", "s", "hour", "seconds", Target(at_most=HOUR_MAX_S)),
        *(
            row(f"sim.{it}.decisions_per_s", "1/s", it, "decisions_per_s", Target(at_least=least))
            for it, least in LARGE_DECISIONS_MIN_PER_S.items()
        ),
        row(
            "sim.cpus256.memory_mib",
            "MiB",
            "cpus256",
            "memory_mib",
            Target(at_most=LARGE_MEMORY_MAX_MIB),
        ),
        row("sim.mutations.found_percent", "%", "mutations", "found_percent", Target(at_least=100)),
        row(
            "sim.coverage.lines_percent",
            "%",
            "coverage",
            "lines_percent",
            Target(at_least=COVERAGE_MIN_PERCENT),
        ),
    )
    return Experiment(
        "simulator",
        "The simulator itself",
        runs,
        rows,
        starts=1,
        measures=(*SIMULATION, "sim/measure", "sim/coverage"),
    )


def row(id: str, unit: str, run: str, path: str, target: Target) -> Row:
    return Row(id, unit, of(run, path), target)


def measure(what: str) -> Run:
    return Run(what, Scheduler.SIMULATOR, ("sim/measure", what), 0, is_timed=True)
