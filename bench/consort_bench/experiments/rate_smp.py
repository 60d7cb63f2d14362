# SPDX-License-Identifier: MIT OR Apache-2.0
"""Hogs with reservations in two classes, beside hogs without, on four simulated CPUs: see rate_shares.py."""

from ..commits import SIMULATION
from ..model import Experiment, Extract, Row, Samples, Target
from ..workloads import Length, simulated

CPUS = 4
WARMUP_S = 2
# What each reserves, in percent of a CPU; so many of each as there are CPUs. Both classes are full, and so
# each is given what it asked for.
RESERVED = {
    "third": ("guaranteed", 30.0),
    "sixth": ("guaranteed", 15.0),
    "twentieth": ("guaranteed", 5.0),
    "quarter": ("adaptive", 25.0),
}
HOGS = 8
# The quarter of the machine that nobody has reserved, divided by them.
HOG_PERCENT = 100.0 * CPUS / 4 / HOGS
ERROR_MAX_PERCENT = 1.0


def experiment(length: Length) -> Experiment:
    row = Row("rate.smp4.error_percent", "%", worst_error("smp4"), Target(at_most=ERROR_MAX_PERCENT))
    run = simulated("smp4", scenario(length))
    return Experiment(
        "rate_smp", "Reserved shares on four CPUs, simulated", (run,), (row,), starts=1, measures=SIMULATION
    )


def scenario(length: Length) -> dict:
    tasks = {
        name: {"instance": CPUS, "hog": True, "reserve": {"class": part, "rate": percent / 100}}
        for name, (part, percent) in RESERVED.items()
    }
    return {
        "global": {"duration": f"{WARMUP_S + length.seconds}s", "warmup": f"{WARMUP_S}s"},
        "machine": {"cpus": CPUS},
        "tasks": {**tasks, "hog": {"instance": HOGS, "hog": True}},
    }


def worst_error(run: str) -> Extract:
    """How far any task's share of any second is from what it is given, in percent of a CPU."""

    def worst(samples: Samples) -> float:
        (result,) = samples.results(run)
        return max(error_percent(row) for row in result["tasks"])

    return worst


def error_percent(row: dict) -> float:
    name = row["name"].split("-")[0]
    expected = RESERVED[name][1] if name in RESERVED else HOG_PERCENT
    least, most = row["any_second_percent"]
    return max(expected - least, most - expected)
