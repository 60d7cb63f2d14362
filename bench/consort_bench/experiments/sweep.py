# SPDX-License-Identifier: MIT OR Apache-2.0
"""The thesis' own sweep (000, sections 3.6 to 3.9): the period against the number of players."""

from __future__ import annotations

from ..commits import COOPERATION
from ..model import Experiment, Run, Samples, Scheduler, Settings
from ..workloads import Length, fleet

PERIODS_MS = (1, 5, 10, 15, 20)
PLAYERS = tuple(range(4, 13))
# Window of one point, in guest seconds: 24 due events a second and player are plenty.
POINT_S = 4
# Length of the run that is drawn over time.
OVER_TIME_S = 30

# How the players are scheduled: the figure that it is drawn like, the mode, its options.
KINDS = {
    "fair": ("3.12", "plain", ()),
    "domain": ("3.19", "coop", ()),
    "private": ("3.24", "coop", ("--private",)),
}


def experiment(length: Length) -> Experiment:
    point = Length(min(POINT_S, length.seconds))
    runs: list[Run] = []
    for players in PLAYERS:
        runs.append(fleet(reference("eevdf", players), "plain", players, point))
        runs.append(fleet(reference("ideal", players), "monolithic", players, point))
    for period_ms in PERIODS_MS:
        settings = Settings(granularity=f"{period_ms}ms")
        for kind, (_figure, mode, options) in KINDS.items():
            runs += [
                fleet(
                    point_name(kind, period_ms, players),
                    mode,
                    players,
                    point,
                    *options,
                    scheduler=Scheduler.CONSORT,
                    settings=settings,
                )
                for players in PLAYERS
            ]
    over_time = Length(OVER_TIME_S if length.seconds > Length.quick().seconds else length.seconds)
    period = Settings(granularity="10ms")
    runs.append(fleet("time.eevdf", "plain", 12, over_time))
    runs.append(fleet("time.domain", "coop", 12, over_time, settings=period))
    return Experiment(
        "sweep",
        "Period against players",
        tuple(runs),
        (),
        plot,
        starts=1,
        runs_per_guest=len(PLAYERS),
        measures=COOPERATION,
    )


def point_name(kind: str, period_ms: int, players: int) -> str:
    return f"{kind}.p{period_ms}.n{players}"


def reference(kind: str, players: int) -> str:
    return f"{kind}.n{players}"


def plot(samples: Samples, folder) -> list[str]:
    # Only here, so that everything but plots works without matplotlib.
    from .. import plots

    files = [plots.sweep_figure(samples, folder, kind, figure) for kind, (figure, _, _) in KINDS.items()]
    files.append(plots.over_time_figure(samples, folder, ("time.eevdf", "time.domain")))
    return files
