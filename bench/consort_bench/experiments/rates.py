# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the experiments with reserved rates share."""

from __future__ import annotations

from ..guest import built_static
from ..model import DEFAULTS, Run, Scheduler, Settings

PROGRAM = built_static("consort-bench-rates")
# Starting, and the end after the window.
OVERHEAD_S = 4


def run(
    name: str,
    scheduler: Scheduler,
    guest_s: float,
    *words: str,
    settings: Settings = DEFAULTS,
) -> Run:
    return Run(name, scheduler, words, guest_s + OVERHEAD_S, settings, program=PROGRAM)


# What the stock scheduler makes of the same promises.
BY_CGROUPS = ("--means", "cgroup")
BY_DEADLINE = ("--means", "deadline")


def against_cgroups(runs_of) -> tuple[Run, ...]:
    """What `runs_of(name, scheduler, *options)` makes for Consort, and for the stock one with weights."""
    return runs_of("consort", Scheduler.CONSORT) + runs_of("eevdf", Scheduler.EEVDF, *BY_CGROUPS)
