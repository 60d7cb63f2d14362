# SPDX-License-Identifier: MIT OR Apache-2.0
"""Twelve players, a twofold overload, of a domain whose members are interrupted for others' due events.

Lateness then depends on what a switch takes, not on the length of a chunk. When its own frame is due, nobody
else can interrupt a player's chunk: it ends that by itself.
"""

from __future__ import annotations

from collections.abc import Callable

from ..commits import COOPERATION
from ..model import Experiment, Extract, Row, Run, Samples, Target, of
from ..workloads import Length, fleet

PLAYERS = 12
# Name of the rows, and length of a chunk.
CHUNKS_US = {"preempt": 1000, "preempt5ms": 5000}
# Beside them, those that are asked to poll instead. Chunks of 5 ms would break that contract: an event is
# 2 ms at most.
OTHERS = {"preempt": ("eevdf", "asked"), "preempt5ms": ("eevdf",)}
LATE_MAX_MS = {"mean": 0.1, "p99": 0.3}
USEFUL_MIN_PERCENT = 96.5
ANY = Target()


def experiment(length: Length) -> Experiment:
    def players(name: str, mode: str, chunk_us: int, *options: str) -> Run:
        words = ("--chunk-us", str(chunk_us), "--cut-chunks", *options)
        return fleet(name, mode, PLAYERS, length, *words)

    runs = []
    for name, chunk_us in CHUNKS_US.items():
        for other in OTHERS[name]:
            mode = "plain" if other == "eevdf" else "coop"
            runs.append(players(f"{other}.{name}", mode, chunk_us))
        runs.append(players(name, "coop", chunk_us, "--preempt"))
    rows = [row for name in CHUNKS_US for row in rows_of(name)]
    title = "Players that are preempted at others' due times"
    # One that stands still loses its own guest only.
    return Experiment("preempt", title, tuple(runs), tuple(rows), measures=COOPERATION, runs_per_guest=1)


def rows_of(name: str) -> list[Row]:
    def row(id: str, unit: str, value: Callable[[str], Extract], target: Target = ANY) -> Row:
        others = {it: value(f"{it}.{name}") for it in OTHERS[name]}
        return Row(f"coop.{name}.n{PLAYERS}.{id}", unit, value(name), target, others)

    def plain(path: str) -> Callable[[str], Extract]:
        return lambda run: of(run, path)

    return [
        *(
            row(f"tardiness_{it}_ms", "ms", late(it), Target(at_most=bound_ms))
            for it, bound_ms in LATE_MAX_MS.items()
        ),
        row("tardiness_max_ms", "ms", late("max")),
        row("useful_cpu_percent", "%", plain("useful_cpu_percent"), Target(at_least=USEFUL_MIN_PERCENT)),
        row("frames_per_s_mean", "1/s", plain("frames_per_s_mean")),
        row("switches_per_s", "1/s", plain("switches_per_s")),
    ]


def late(statistic: str) -> Callable[[str], Extract]:
    """Who serves no due event is late for none: that is no lateness of 0."""

    def of_run(run: str) -> Extract:
        def value(samples: Samples) -> float:
            samples.require(run, "tardiness.count", "no due event was served")
            return samples.value(run, f"tardiness.{statistic}_ms")

        return value

    return of_run
