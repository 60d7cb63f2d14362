# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs that several experiments use."""

from __future__ import annotations

import json
from dataclasses import dataclass

from .model import DEFAULTS, Row, Run, Scheduler, Settings, Target, of

# Starting, joining and warming up, and the end after the window.
FLEET_OVERHEAD_S = 3.5


@dataclass(frozen=True)
class Length:
    """Guest seconds of a measured window: all of it, or less for a quick look."""

    seconds: int = 20

    @staticmethod
    def quick() -> Length:
        return Length(5)


def fleet(
    name: str,
    mode: str,
    players: int,
    length: Length,
    *options: str,
    scheduler: Scheduler | None = None,
    settings: Settings = DEFAULTS,
) -> Run:
    """Players in a mode of the player program: `coop` under Consort, the others under EEVDF unless said."""
    if scheduler is None:
        scheduler = Scheduler.CONSORT if mode == "coop" else Scheduler.EEVDF
    words = ("fleet", "--mode", mode, "-n", str(players), "--seconds", str(length.seconds))
    moving = ("polls",) if mode == "coop" else ()
    return Run(
        name,
        scheduler,
        (*words, "--seed", "{seed}", *options),
        length.seconds + FLEET_OVERHEAD_S,
        settings,
        moving,
    )


def simulated(
    name: str,
    scenario: dict,
    configuration: str = "coop",
    traced: bool = False,
    broken_rules_fail: bool = True,
) -> Run:
    """A scenario in the simulator, with the number of the start as its seed."""
    return Run(
        name,
        Scheduler.SIMULATOR,
        (),
        0,
        scenario=json.dumps(scenario),
        configuration=configuration,
        traced=traced,
        broken_rules_fail=broken_rules_fail,
    )


def tardiness_row(id: str, statistic: str, run: str, target: Target, against: dict[str, str]) -> Row:
    """A row of tardiness in ms; `against` maps a name to a run."""
    path = f"tardiness.{statistic}_ms"
    others = {name: of(other, path) for name, other in against.items()}
    return Row(f"{id}.tardiness_{statistic}_ms", "ms", of(run, path), target, others)
