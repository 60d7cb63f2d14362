# SPDX-License-Identifier: MIT OR Apache-2.0
"""A hundred minutes of everything on four CPUs of a busy host: is the scheduler ever thrown out?

Half of it with each emulator: one plays the CPUs in turns, the other one has a thread of the host for each.
"""

from __future__ import annotations

from ..commits import COOPERATION
from ..model import Experiment, Extract, Row, Run, Samples, Scheduler, Settings, Target, reading
from ..workloads import Length
from .smp_guest import STRESSORS
from .stress import PROGRAM

CPUS = 4
# Those of the CPUs, too: plain running, memory, floating point, and thread switches of their own.
MORE = ("cpu", "context", "matrix", "softlockup", "vforkmany", "daemon")
PARTS, SECONDS = 2, 1500
MINUTES = 100
# To end the last stressor.
OVERHEAD_S = 60
EMULATORS = ("installed", "10")


def experiment(length: Length) -> Experiment:
    seconds = min(SECONDS, length.seconds * SECONDS // Length().seconds)
    runs = tuple(
        Run(
            f"{settings.emulator}.{part}",
            Scheduler.CONSORT,
            ("soak", "--seconds", str(seconds), "--stressors", ",".join((*STRESSORS, *MORE))),
            seconds + OVERHEAD_S,
            settings,
            files=(PROGRAM,),
        )
        for settings in (Settings(cpus=CPUS, counted=False, emulator=it) for it in EMULATORS)
        for part in range(PARTS)
    )
    names = tuple(run.name for run in runs)
    rows = (
        Row("smp4.guest.stress.ejections", "", sum_of(names, "ejections"), Target(at_most=0)),
        # A quick look has fewer, and its ejections say less.
        Row("smp4.guest.stress.minutes", "min", sum_of(names, "minutes"), Target(at_least=MINUTES)),
        Row("smp4.guest.stress.turns", "", sum_of(names, "turns")),
    )
    return Experiment(
        "soak", "Minutes of stress", runs, rows, measures=COOPERATION, starts=1, runs_per_guest=1
    )


def sum_of(names: tuple[str, ...], path: str) -> Extract:
    """Over all runs, each of which must have come to its end, and have done all that it is to do."""

    def value(samples: Samples) -> float:
        for name in names:
            samples.require(name, "cgroups", "no cgroup came and went")
            samples.require(name, "unplugged", "no CPU was unplugged")
        return sum(samples.value(name, path) for name in names)

    return reading(names, value)
