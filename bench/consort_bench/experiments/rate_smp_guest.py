# SPDX-License-Identifier: MIT OR Apache-2.0
"""Hogs with reservations in two classes, beside hogs without, on four CPUs of a guest: see rate_smp.py.

The guest's clock counts the instructions of all its CPUs: a quarter of that time is each one's.
"""

from __future__ import annotations

from dataclasses import replace

from ..commits import RESERVATIONS
from ..model import Experiment, Extract, Row, Run, Samples, Scheduler, Target
from ..workloads import Length
from .rate_smp import CPUS, HOGS, RESERVED
from .rates import against_cgroups, run

ERROR_MAX_PERCENT = 1


def experiment(length: Length) -> Experiment:
    def runs_of(name: str, scheduler: Scheduler, *options: str) -> tuple[Run, ...]:
        promised = [f"{part}={percent / 100}" for part, percent in RESERVED.values() for _ in range(CPUS)]
        words = ("shares", "--promised", ",".join(promised), "--hogs", str(HOGS))
        made = run(name, scheduler, length.seconds, *words, "--seconds", str(length.seconds), *options)
        return (replace(made, settings=replace(made.settings, cpus=CPUS)),)

    rows = tuple(
        Row(f"rate.guest_smp4.{name}_error_percent", "%", value("consort"), target, {"eevdf": value("eevdf")})
        for name, value, target in (
            ("reserved", reserved_error, Target(at_most=ERROR_MAX_PERCENT)),
            ("any", any_error, Target()),
        )
    )
    title = "Reserved shares on four CPUs, in the guest"
    return Experiment(
        "rate_smp_guest", title, against_cgroups(runs_of), rows, starts=1, measures=RESERVATIONS
    )


def errors_percent(samples: Samples, name: str) -> list[float]:
    """How far each share is from what it is to be, in percent of a CPU; reservations come first."""
    (result,) = samples.results(name)
    pairs = zip(result["share_percent"], result["expected_percent"], strict=True)
    return [CPUS * abs(share - expected) for share, expected in pairs]


def reserved_error(name: str) -> Extract:
    return lambda samples: max(errors_percent(samples, name)[: CPUS * len(RESERVED)])


def any_error(name: str) -> Extract:
    return lambda samples: max(errors_percent(samples, name))
