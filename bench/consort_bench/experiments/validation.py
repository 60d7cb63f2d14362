# SPDX-License-Identifier: MIT OR Apache-2.0
"""The simulator against the kernel: the players of the baseline, cooperating, in a guest and simulated."""

from __future__ import annotations

from ..commits import COOPERATION, SIMULATOR
from ..model import Experiment, Extract, Row, Run, Samples, Target, of
from ..workloads import Length, fleet, simulated

PLAYERS = tuple(range(4, 13))
STATISTICS = ("mean", "p99")
# As the player program does it: players begin after half a second, and play for two before they are measured.
BEGIN_S = 0.5
WARMUP_S = 2
ERROR_MAX_PERCENT = 10
# From the timer's interrupt to the program's first instruction takes so long on an idle CPU, with nobody else
# there. It is the machine's and the kernel's; tasks that are less than this apart are not apart.
FLOOR_MS = 0.01


def experiment(length: Length) -> Experiment:
    runs = [fleet(guest(players), "coop", players, length) for players in PLAYERS]
    runs += [scenario(players, length) for players in PLAYERS]
    rows = [
        Row(
            f"sim.validation.tardiness_{statistic}_error_percent",
            "%",
            worst_error(statistic),
            Target(at_most=ERROR_MAX_PERCENT),
        )
        for statistic in STATISTICS
    ]
    rows += [
        Row(
            f"sim.validation.n{players}.tardiness_{statistic}_ms",
            "ms",
            of(simulation(players), f"total.tardiness.{statistic}_ms"),
            against={"guest": of(guest(players), f"tardiness.{statistic}_ms")},
        )
        for players in PLAYERS
        for statistic in STATISTICS
    ]
    return Experiment(
        "validation",
        "The simulator against the kernel",
        tuple(runs),
        tuple(rows),
        measures=(*COOPERATION, *SIMULATOR),
    )


def guest(players: int) -> str:
    return f"guest.n{players}"


def simulation(players: int) -> str:
    return f"simulated.n{players}"


def scenario(players: int, length: Length) -> Run:
    """The same players from the same seed."""
    before_s = BEGIN_S + WARMUP_S
    return simulated(
        simulation(players),
        {
            "global": {"duration": f"{before_s + length.seconds}s", "warmup": f"{before_s}s"},
            # As the player declares it: its chunk, and a fifth for interrupts.
            "domains": {"bench": {"event": "1.2ms"}},
            "tasks": {
                "player": {"instance": players, "delay": f"{BEGIN_S}s", "player": {"domain": "bench"}},
            },
        },
    )


def worst_error(statistic: str) -> Extract:
    """The largest part that a simulated median is away from the guest's, of all numbers of players."""

    def worst(samples: Samples) -> float:
        return max(error_percent(samples, players, statistic) for players in PLAYERS)

    return worst


def error_percent(samples: Samples, players: int, statistic: str) -> float:
    measured = samples.value(guest(players), f"tardiness.{statistic}_ms")
    simulated_ms = samples.value(simulation(players), f"total.tardiness.{statistic}_ms")
    return 100 * max(0.0, abs(simulated_ms - measured) - FLOOR_MS) / measured
