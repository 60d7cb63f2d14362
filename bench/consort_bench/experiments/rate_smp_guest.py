# SPDX-License-Identifier: MIT OR Apache-2.0
"""Hogs with reservations in two classes, beside hogs without, on four CPUs of a guest: see rate_smp.py.

The guest's clock counts the instructions of all CPUs, which take turns: only shares of the whole time count.
"""

from __future__ import annotations

from dataclasses import replace

from .. import papers
from ..model import Experiment, Row, Run
from ..papers import Tasks, instances
from ..workloads import Length
from .rate_smp import CPUS, HOG_PERCENT, HOGS, RESERVED, WARMUP_S, scenario


def experiment(length: Length) -> Experiment:
    runs = tuple(in_guest(it, length) for it in ("coop", "eevdf"))
    end = WARMUP_S + length.seconds

    def row(id: str, unit: str, value) -> Row:
        return papers.row(f"rate.guest_smp4.{id}", unit, "smp4", lambda tasks: value(tasks, end), ("eevdf",))

    rows = (row("error_percent", "%", worst_error), row("reserved_over_hog", "ratio", reserved_over_hog))
    return Experiment("rate_smp_guest", "Reserved shares on four CPUs, in the guest", runs, rows, starts=1)


def in_guest(scheduler: str, length: Length) -> Run:
    run = papers.in_guest("smp4", scheduler, with_cgroups(scenario(length)))
    return replace(run, settings=replace(run.settings, cpus=CPUS))


def with_cgroups(made: dict) -> dict:
    """A cgroup for each kind, with the weight of what its members are to have together."""
    percent = {name: rate * CPUS for name, (_, rate) in RESERVED.items()} | {"hog": HOG_PERCENT * HOGS}
    made["cgroups"] = {f"/{name}": {"weight": int(weight)} for name, weight in percent.items()}
    for name, task in made["tasks"].items():
        task["taskgroup"] = f"/{name}"
    return made


def shares_percent(tasks: Tasks, name: str, end: float) -> list[float]:
    """What each has of a CPU, of all that any of them had."""
    window = (WARMUP_S, end)
    whole = sum(line.share_percent(*window) for line in tasks.values())
    return [100 * CPUS * line.share_percent(*window) / whole for line in instances(tasks, name)]


def expected() -> dict[str, float]:
    return {name: rate for name, (_, rate) in RESERVED.items()} | {"hog": HOG_PERCENT}


def worst_error(tasks: Tasks, end: float) -> float:
    """How far any share is from what it is to be, in percent of a CPU."""
    return max(
        abs(share - percent)
        for name, percent in expected().items()
        for share in shares_percent(tasks, name, end)
    )


def reserved_over_hog(tasks: Tasks, end: float) -> float:
    """The least share of those with the highest rate, over the largest of those without."""
    return min(shares_percent(tasks, "third", end)) / max(shares_percent(tasks, "hog", end))
