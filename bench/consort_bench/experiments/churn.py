# SPDX-License-Identifier: MIT OR Apache-2.0
"""Leaves its domain and joins the next, all the time, beside three hogs: what does a program gain by that?

It works for a millisecond, polls with a due event that is always there, leaves after a few of these, and
joins another domain, of which it is the only member. The gain is what it has above a quarter of what the four
have.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from ..commits import CLIENT, SCHEDULER, SERVICE, SIMULATOR
from ..model import GUEST_SCENARIO, Experiment, Extract, Row, Run, Samples, Scheduler, Target
from ..workloads import Length, simulated

HOGS = 3
# Domains; units of work in each; how long it sleeps before and after it joins.
PATTERNS = {"often": (8, 8, 0), "calm": (32, 6, 60)}
WORK_US = 1000
GAIN_MAX_PERCENT = 0.5
# Processes are started, and end.
AROUND_S = 3


def experiment(length: Length) -> Experiment:
    seconds = length.seconds // 2
    runs: list[Run] = []
    for pattern in PATTERNS:
        scenario = churn(pattern, seconds)
        runs.append(simulated(f"simulated.{pattern}", scenario, broken_rules_fail=False))
        runs.append(in_guest(f"guest.{pattern}", Scheduler.CONSORT, scenario, seconds))
        runs.append(in_guest(f"eevdf.{pattern}", Scheduler.EEVDF, scenario, seconds))
    rows = (
        Row(
            "churn.share_gain_percent",
            "%",
            gain("simulated", of_simulated),
            Target(at_most=GAIN_MAX_PERCENT),
        ),
        Row(
            "churn.guest.share_gain_percent",
            "%",
            gain("guest", of_guest),
            Target(at_most=GAIN_MAX_PERCENT),
            {"eevdf": gain("eevdf", of_guest)},
        ),
    )
    measures = (*SCHEDULER, *CLIENT, *SERVICE, *SIMULATOR)
    return Experiment("churn", "Leaving and joining", tuple(runs), rows, measures=measures)


def churn(pattern: str, seconds: int) -> dict:
    domains, units, sleep_us = PATTERNS[pattern]
    phases: dict[str, dict] = {}
    for number in range(domains):
        domain = f"d{number}"
        pause = {"sleep": sleep_us} if sleep_us else {}
        again = {"sleep1": sleep_us} if sleep_us else {}
        phases[f"j{number}"] = {"loop": 1, **pause, "join": domain, **again}
        phases[f"r{number}"] = {"loop": units, "run": WORK_US, "poll": {"due": 0}}
        phases[f"l{number}"] = {"loop": 1, "leave": domain}
    return {
        "global": {"duration": seconds},
        "machine": {"cpus": 1},
        "domains": {f"d{number}": {"event": f"{2 * WORK_US}us"} for number in range(domains)},
        "tasks": {"cheat": {"loop": -1, "phases": phases}, "hog": {"hog": True, "instance": HOGS}},
    }


def in_guest(name: str, scheduler: Scheduler, scenario: dict, seconds: int) -> Run:
    words = ("scenario", GUEST_SCENARIO, "--seed", "{seed}")
    moving = ("polls",) if scheduler is Scheduler.CONSORT else ()
    text = json.dumps(scenario)
    return Run(name, scheduler, words, seconds + AROUND_S, moving=moving, scenario=text)


def gain(where: str, shares_of: Callable[[dict], dict[str, float]]) -> Extract:
    """Points of a hundred, of the pattern that gains most."""

    def value(samples: Samples) -> float:
        return max(
            gained(shares_of(result))
            for pattern in PATTERNS
            for result in samples.results(f"{where}.{pattern}")
        )

    return value


def gained(shares: dict[str, float]) -> float:
    return 100 * shares["cheat"] / sum(shares.values()) - 100 / len(shares)


def of_simulated(result: dict) -> dict[str, float]:
    return {task["name"]: task["share_percent"] for task in result["tasks"]}


def of_guest(result: dict) -> dict[str, float]:
    return result["share_percent"]
