# SPDX-License-Identifier: MIT OR Apache-2.0
"""Domains whose best-effort events the scheduler orders: by CPU time, or by due events served.

`service`: twelve players that always want the CPU are to have the same of it. `progress`: here only a frame
that was decoded is a due event, so who has decoded less has served fewer, and is to go first. Beside them, as
`program`, the order by the players' own keys.
"""

from __future__ import annotations

from collections.abc import Callable

from ..commits import COOPERATION
from ..model import Experiment, Extract, Row, Run, Samples, Target, of
from ..workloads import Length, fleet

PLAYERS = 12
SHARE_CV_MAX_PERCENT = 0.5
SPREAD_MAX = 1


def experiment(length: Length) -> Experiment:
    def players(name: str, *options: str, mode: str = "coop") -> Run:
        return fleet(name, mode, PLAYERS, length, *options)

    runs = (
        players("service.eevdf", mode="plain"),
        players("service.program"),
        players("service", "--order", "service"),
        players("progress.eevdf", "--only-shown", mode="plain"),
        players("progress.program", "--only-shown"),
        players("progress", "--only-shown", "--order", "progress"),
    )
    rows = (
        row("service", "share_cv_percent", "%", shown("share_cv_percent"), at_most=SHARE_CV_MAX_PERCENT),
        row("service", "useful_cpu_percent", "%", shown("useful_cpu_percent")),
        row("service", "tardiness_mean_ms", "ms", shown("tardiness.mean_ms")),
        row("progress", "served_spread", "due events", worst_spread, at_most=SPREAD_MAX),
        row("progress", "useful_cpu_percent", "%", shown("useful_cpu_percent")),
        row("progress", "frames_per_s_mean", "1/s", shown("frames_per_s_mean")),
    )
    return Experiment("orders", "Orders that the scheduler computes", runs, rows, measures=COOPERATION)


def row(order: str, id: str, unit: str, value: Callable[[str], Extract], at_most: float | None = None) -> Row:
    others = {it: value(f"{order}.{it}") for it in ("eevdf", "program")}
    return Row(f"coop.{order}.n{PLAYERS}.{id}", unit, value(order), Target(at_most=at_most), others)


def shown(path: str) -> Callable[[str], Extract]:
    """Of players that show frames at all: twelve that do nothing are equal, too."""

    def of_run(run: str) -> Extract:
        def value(samples: Samples) -> float:
            samples.require(run, "frames_per_s_mean", "no frame was shown")
            return of(run, path)(samples)

        return value

    return of_run


def worst_spread(run: str) -> Extract:
    """Between the players with the most and the fewest: of all starts the worst, as it counts events."""

    def value(samples: Samples) -> float:
        samples.require(run, "frames_per_s_mean", "no frame was shown")
        return max(samples.values(run, "served_spread"))

    return value
