# SPDX-License-Identifier: MIT OR Apache-2.0
"""Players under EEVDF and in one process: what everything else is compared with. No targets."""

from ..model import Experiment, Row, of
from ..workloads import Length, fleet

PLAYERS = (4, 6, 8, 10, 12)


def experiment(length: Length) -> Experiment:
    runs = tuple(
        fleet(f"{name}.n{players}", mode, players, length)
        for players in PLAYERS
        for name, mode in (("eevdf", "plain"), ("ideal", "monolithic"))
    )
    rows = tuple(
        Row(f"{name}.n{players}.tardiness_{statistic}_ms", "ms", of(f"{name}.n{players}", path))
        for name in ("eevdf", "ideal")
        for players in PLAYERS
        for statistic in ("mean", "p99", "max")
        for path in (f"tardiness.{statistic}_ms",)
    )
    return Experiment(
        "baseline", "Players under EEVDF, and the ideal", runs, rows, measures=("bench/player",)
    )
