# SPDX-License-Identifier: MIT OR Apache-2.0
"""Four CPUs that share counted time, against EEVDF: messages, players, wake-ups, stress-ng."""

from __future__ import annotations

from math import exp, log

from ..commits import COOPERATION
from ..model import (
    COMPARED,
    Experiment,
    Extract,
    Row,
    Run,
    Samples,
    Scheduler,
    Settings,
    Target,
    of,
    over_stock,
    stock_over,
)
from ..workloads import FLEET_OVERHEAD_S, Length, fleet
from .hackbench import TRANSPORTS, of_one
from .stress import OPERATIONS, OVERHEAD_S, PROGRAM

FOUR = Settings(cpus=4)
HACKBENCH = ("--groups", "4", "--loops", "100")
# A load of 1.6 times what the four CPUs have together: 0.1 of all instructions is 0.4 of those of one CPU.
PLAYERS, LOAD = 16, "0.4"
# Counted in a CPU's own instructions, a chunk takes the millisecond that its player declares, and not four.
INSTRUCTIONS_PER_US = 500 // FOUR.cpus
# These CPUs have their parts of counted time in lumps: many a chunk takes several times as long, and a fifth
# more, as players declare elsewhere, would be a promise that none of them keeps. No longer event is allowed.
EVENT_US = "2000"
HOGS = "8"
STRESS_SECONDS_MAX = 3
# stress-ng's class "scheduler", but for those that need the network, real-time classes, or minutes, and for
# those that refuse to run as root ("exec", "spawn").
# fmt: off
STRESSORS = (
    "affinity", "clone", "close", "cyclic", "eventfd", "exit-group", "fault", "fifo", "fork",
    "futex", "hrtimers", "kill", "loadavg", "mmapfork", "mq", "msg", "mutex", "nanosleep", "nice",
    "poll", "pthread", "race-sched", "resched", "schedpolicy", "sem", "sem-sysv", "session", "sleep",
    "switch", "tee", "vfork", "wait", "yield", "zombie",
)
# fmt: on


def experiment(length: Length) -> Experiment:
    runs = [run for scheduler in COMPARED for run in runs_of(scheduler, length)]
    rows = (
        *(
            Row(
                f"smp4.guest.hackbench_{transport}.ratio",
                "ratio",
                over_stock(transport, "us_per_message"),
                Target(at_most=1.05),
                {"eevdf": of_one},
            )
            for transport in TRANSPORTS
        ),
        *(
            players(f"tardiness_{statistic}_ratio", f"tardiness.{statistic}_ms", Target(at_most=most))
            for statistic, most in (("mean", 0.17), ("p99", 0.2), ("max", 0.3))
        ),
        players("useful_ratio", "useful_cpu_percent", Target(at_least=0.99)),
        Row(
            "smp4.guest.players16.frames_per_s_cv_percent",
            "%",
            of("consort.players", "frames_per_s_cv_percent"),
            Target(at_most=1),
            {"eevdf": of("eevdf.players", "frames_per_s_cv_percent")},
        ),
        Row(
            "smp4.guest.wake8hogs.mean_ratio",
            "ratio",
            over_stock("wake", "mean_us"),
            Target(at_most=0.5),
            {"eevdf": of_one},
        ),
        Row(
            "smp4.guest.stressng.ratio_max",
            "ratio",
            stress(max),
            Target(at_most=1.2),
            {"eevdf": of_one},
        ),
        Row(
            "smp4.guest.stressng.ratio_geomean",
            "ratio",
            stress(geometric_mean),
            Target(at_most=1.0),
            {"eevdf": of_one},
        ),
        *(
            Row(
                f"smp4.guest.stressng.{it}.ratio",
                "ratio",
                stock_over(it, OPERATIONS),
                against={"eevdf": of_one},
            )
            for it in STRESSORS
        ),
    )
    return Experiment(
        "smp_guest", "Four CPUs", tuple(runs), rows, starts=1, runs_per_guest=12, measures=COOPERATION
    )


def runs_of(scheduler: Scheduler, length: Length) -> list[Run]:
    def made(name: str, guest_s: float, *words: str, files: tuple = ()) -> Run:
        return Run(f"{scheduler.value}.{name}", scheduler, words, guest_s, FOUR, files=files)

    mode = "coop" if scheduler is Scheduler.CONSORT else "plain"
    load = ("--load", LOAD, "--instructions-per-us", str(INSTRUCTIONS_PER_US))
    declared = ("--event-us", EVENT_US) if scheduler is Scheduler.CONSORT else ()
    seconds = min(STRESS_SECONDS_MAX, length.seconds)
    return [
        *(made(it, 8, "hackbench", "--transport", it, *HACKBENCH) for it in TRANSPORTS),
        fleet(f"{scheduler.value}.players", mode, PLAYERS, length, *load, *declared, settings=FOUR),
        made(
            "wake",
            length.seconds + FLEET_OVERHEAD_S,
            *("wake", "--hogs", HOGS, "--seconds", str(length.seconds)),
        ),
        *(
            made(
                stressor,
                seconds + 2 + OVERHEAD_S,
                *("stress", "--stressor", stressor, "--instances", "2", "--seconds", str(seconds)),
                files=(PROGRAM,),
            )
            for stressor in STRESSORS
        ),
    ]


def stress(summary) -> Extract:
    def value(samples: Samples) -> float:
        return summary([stock_over(it, OPERATIONS)(samples) for it in STRESSORS])

    return value


def geometric_mean(ratios: list[float]) -> float:
    return exp(sum(log(ratio) for ratio in ratios) / len(ratios))


def players(name: str, path: str, target: Target) -> Row:
    return Row(
        f"smp4.guest.players16.{name}", "ratio", over_stock("players", path), target, {"eevdf": of_one}
    )
