# SPDX-License-Identifier: MIT OR Apache-2.0
"""Twelve players, a twofold overload, of a domain whose members are interrupted for others' due events.

Lateness then depends on what a switch takes, not on the length of a chunk. When its own frame is due, nobody
else can interrupt a player's chunk: it ends that by itself.
"""

from __future__ import annotations

from ..commits import COOPERATION
from ..model import Experiment, Extract, Row, Run, Samples, Target, of
from ..workloads import Length, fleet

PLAYERS = 12
# Name of the rows, and length of a chunk.
CHUNKS_US = {"preempt": 1000, "preempt5ms": 5000}
LATE_MAX_MS = {"mean": 0.1, "p99": 0.3}
USEFUL_MIN_PERCENT = 96.5
ANY = Target()


def experiment(length: Length) -> Experiment:
    def players(name: str, mode: str, chunk_us: int, *options: str) -> Run:
        words = ("--chunk-us", str(chunk_us), "--cut-chunks", *options)
        return fleet(name, mode, PLAYERS, length, *words)

    runs = []
    for name, chunk_us in CHUNKS_US.items():
        runs.append(players(f"eevdf.{name}", "plain", chunk_us))
        runs.append(players(f"asked.{name}", "coop", chunk_us))
        runs.append(players(name, "coop", chunk_us, "--preempt"))
    rows = [row for name in CHUNKS_US for row in rows_of(name)]
    title = "Players that are preempted at others' due times"
    # One that stands still loses its own guest only.
    return Experiment("preempt", title, tuple(runs), tuple(rows), measures=COOPERATION, runs_per_guest=1)


def rows_of(name: str) -> list[Row]:
    """`asked` is the same domain without `preempt`: members are asked to poll."""

    def row(id: str, unit: str, value, target: Target = ANY) -> Row:
        others = {it: value(f"{it}.{name}") for it in ("eevdf", "asked")}
        return Row(f"coop.{name}.n{PLAYERS}.{id}", unit, value(name), target, others)

    def plain(path: str):
        return lambda run: of(run, path)

    return [
        *(
            row(f"tardiness_{it}_ms", "ms", lambda run, it=it: late(run, it), Target(at_most=bound_ms))
            for it, bound_ms in LATE_MAX_MS.items()
        ),
        row("tardiness_max_ms", "ms", lambda run: late(run, "max")),
        row("useful_cpu_percent", "%", plain("useful_cpu_percent"), Target(at_least=USEFUL_MIN_PERCENT)),
        row("frames_per_s_mean", "1/s", plain("frames_per_s_mean")),
        row("switches_per_s", "1/s", plain("switches_per_s")),
    ]


def late(run: str, statistic: str) -> Extract:
    """Who serves no due event is late for none: that is no lateness of 0."""

    def value(samples: Samples) -> float:
        samples.require(run, "tardiness.count", "no due event was served")
        return samples.value(run, f"tardiness.{statistic}_ms")

    return value
