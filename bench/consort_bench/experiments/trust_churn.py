# SPDX-License-Identifier: MIT OR Apache-2.0
"""Members that leave their domain and join it again, all the time, beside honest ones that decode.

All of them always want the CPU. What leaving and joining costs the daemon is taken from the honest, unless
those who ask pay for it. What the honest lose is counted beyond the parts that the restless would have as
quiet members.
"""

from __future__ import annotations

import json

from ..commits import RESERVATIONS, SIMULATOR
from ..model import GUEST_SCENARIO, Experiment, Row, Run, Samples, Scheduler, Target, reading
from ..workloads import Length

HONEST = 10
RESTLESS = 3
DOMAIN = "films"
WORK_US = 1000
# Polls between joining and leaving.
STAYS = 2
PRIORITY = 1
# Processes are started, and end.
AROUND_S = 3
WARMUP_S = 1


def experiment(length: Length) -> Experiment:
    seconds = length.seconds + WARMUP_S
    runs = (
        in_guest("restless", churn(seconds, True), seconds),
        in_guest("quiet", churn(seconds, False), seconds),
    )
    rows = (
        Row(
            "trust.churn.decode_percent_lost",
            "%",
            lost("restless"),
            Target(at_most=1),
            {"quiet": lost("quiet")},
        ),
    )
    measures = (*RESERVATIONS, *SIMULATOR)
    return Experiment(
        "trust_churn", "Leaving and joining beside the honest", runs, rows, measures=measures, starts=1
    )


def churn(seconds: int, are_restless: bool) -> dict:
    poll = {"poll": {"due": "never", "priority": PRIORITY}}
    decode = {"run": WORK_US, **poll}
    honest = {"join": {"loop": 1, "join": DOMAIN}, "decode": {"loop": -1, **decode}}
    phases = {
        "join": {"loop": 1, "join": DOMAIN},
        "decode": {"loop": STAYS, **decode},
        "leave": {"loop": 1, "leave": DOMAIN},
    }
    others = {"loop": -1, "phases": phases} if are_restless else {"loop": 1, "phases": honest}
    return {
        "global": {"duration": seconds, "warmup": WARMUP_S},
        "machine": {"cpus": 1},
        "domains": {DOMAIN: {"event": f"{2 * WORK_US}us", "order": "service"}},
        "tasks": {
            "honest": {"loop": 1, "phases": honest, "instance": HONEST},
            "other": {**others, "instance": RESTLESS},
        },
    }


def in_guest(name: str, scenario: dict, seconds: int) -> Run:
    words = ("scenario", GUEST_SCENARIO, "--seed", "{seed}")
    text = json.dumps(scenario)
    return Run(name, Scheduler.CONSORT, words, seconds + AROUND_S, moving=("polls",), scenario=text)


def lost(run: str):
    """Points of a hundred of the CPU that the honest have less than their parts."""

    def value(samples: Samples) -> float:
        return max(100 * HONEST / (HONEST + RESTLESS) - honest(it) for it in samples.results(run))

    return reading((run,), value)


def honest(result: dict) -> float:
    return sum(percent for name, percent in result["share_percent"].items() if name.startswith("honest"))
