# SPDX-License-Identifier: MIT OR Apache-2.0
"""The simulator itself: how fast it is, what it finds, and what of the scheduler it reaches."""

from __future__ import annotations

from ..model import Experiment, Row, Run, Scheduler, Target, of
from ..workloads import Length

DECISIONS_MIN_PER_S = 500_000
HOUR_MAX_S = 60
LARGE_DECISIONS_MIN_PER_S = 100_000
LARGE_MEMORY_MAX_MIB = 4096
COVERAGE_MIN_PERCENT = 90


def experiment(length: Length) -> Experiment:
    runs = tuple(measure(what) for what in ("hour", "cpus256", "mutations", "coverage"))
    rows = (
        Row("sim.decisions_per_s", "1/s", of("hour", "decisions_per_s"), Target(at_least=DECISIONS_MIN_PER_S)),
        Row("sim.hour.seconds", "s", of("hour", "seconds"), Target(at_most=HOUR_MAX_S)),
        Row(
            "sim.cpus256.decisions_per_s",
            "1/s",
            of("cpus256", "decisions_per_s"),
            Target(at_least=LARGE_DECISIONS_MIN_PER_S),
        ),
        Row("sim.cpus256.memory_mib", "MiB", of("cpus256", "memory_mib"), Target(at_most=LARGE_MEMORY_MAX_MIB)),
        Row("sim.mutations.found_percent", "%", of("mutations", "found_percent"), Target(at_least=100)),
        Row("sim.coverage.lines_percent", "%", of("coverage", "lines_percent"), Target(at_least=COVERAGE_MIN_PERCENT)),
    )
    return Experiment("simulator", "The simulator itself", runs, rows, starts=1)


def measure(what: str) -> Run:
    return Run(what, Scheduler.SIMULATOR, ("sim/measure", what), 0)
