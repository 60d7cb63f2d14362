# SPDX-License-Identifier: MIT OR Apache-2.0
"""Who has reserved, beside 1000 threads that have not, on four CPUs, simulated and in the guest.

As rate_wait.py. One who has reserved has a CPU to itself there, so there is one for each CPU, too. The
simulator is exact. The guest's emulator plays its CPUs one after the other, and each stands still meanwhile:
the longest waits are the emulator's, and what is compared are waits that most do not exceed, beside 1000
threads and beside four.
"""

from __future__ import annotations

from dataclasses import replace

from ..commits import RESERVATIONS, SIMULATOR
from ..model import Experiment, Extract, Row, Run, Samples, Scheduler, Target, of
from ..workloads import Length, simulated
from .rate_wait import PATTERNS, START_S
from .rates import against_cgroups, run

CPUS = 4
RATE = 0.3
THREADS = 1000
FEW = 4
QUANTUM_MS = 0.5
WARMUP_S = 2
# What a class has while `flexible` is the only other one that wants the CPU: 0.5 of 0.5 + 0.25.
CLASS_CPUS = CPUS * 2 / 3
EVENTS = {
    "greedy": {"hog": True},
    "periodic": {"run": "2.5ms", "timer": {"ref": "unique", "period": "30ms"}},
}
NUMBERS = {"one": 1, "each_cpu": CPUS}
# Beside one, threads wait for longer under EEVDF than the simulator lets anybody wait: 3 s.
CONFIGURATIONS = {"one": ("coop",), "each_cpu": ("coop", "eevdf")}
PERCENTILES = ("p50", "p90", "p99")


def experiment(length: Length) -> Experiment:
    runs = tuple(
        simulated(
            f"{number}.{pattern}.{configuration}",
            scenario(length, number, pattern, configuration),
            configuration,
        )
        for number in NUMBERS
        for pattern in PATTERNS
        for configuration in CONFIGURATIONS[number]
    )
    rows = (
        *(
            Row(
                f"rate.smp4.gr_beside_1000.{number}_wait_over_bound",
                "ratio",
                over_bound(number, "coop"),
                Target(at_most=1),
                {it: over_bound(number, it) for it in CONFIGURATIONS[number] if it != "coop"},
            )
            for number in NUMBERS
        ),
        *(
            Row(
                f"rate.guest_smp4.gr_beside_1000.wait_{percentile}_ms",
                "ms",
                of(f"consort.{THREADS}", f"waits.{percentile}_ms"),
                against={
                    "beside 4": of(f"consort.{FEW}", f"waits.{percentile}_ms"),
                    "eevdf": of(f"eevdf.{THREADS}", f"waits.{percentile}_ms"),
                    "eevdf beside 4": of(f"eevdf.{FEW}", f"waits.{percentile}_ms"),
                },
            )
            for percentile in PERCENTILES
        ),
    )

    def in_guest(name: str, scheduler: Scheduler, *options: str) -> tuple[Run, ...]:
        words = ("wait", "--pattern", "greedy", "--reserved", str(CPUS), "--seconds", str(length.seconds))
        made = (
            run(
                f"{name}.{threads}",
                scheduler,
                START_S + length.seconds,
                *words,
                "--threads",
                str(threads),
                *options,
            )
            for threads in (FEW, THREADS)
        )
        return tuple(replace(one, settings=replace(one.settings, cpus=CPUS)) for one in made)

    title = "Reservations beside 1000 threads without, on four CPUs"
    return Experiment(
        "rate_wait_smp",
        title,
        (*runs, *against_cgroups(in_guest)),
        rows,
        starts=1,
        measures=(*RESERVATIONS, *SIMULATOR),
    )


def scenario(length: Length, number: str, pattern: str, configuration: str) -> dict:
    """Under EEVDF the two classes are cgroups."""
    by_weights = configuration == "eevdf"
    reserved = {"class": "guaranteed", "rate": RATE, "period": "30ms"}
    return {
        "global": {"duration": f"{WARMUP_S + length.seconds}s", "warmup": f"{WARMUP_S}s"},
        "machine": {"cpus": CPUS},
        "cgroups": {"/guaranteed": {"weight": 500}, "/flexible": {"weight": 250}},
        "tasks": {
            "reserved": {
                "instance": NUMBERS[number],
                **({"taskgroup": "/guaranteed"} if by_weights else {"reserve": reserved}),
                **EVENTS[pattern],
            },
            "thread": {
                "instance": THREADS,
                "hog": True,
                **({"taskgroup": "/flexible"} if by_weights else {}),
            },
        },
    }


def over_bound(number: str, configuration: str) -> Extract:
    """The longest wait of both patterns, over q + q / r: r is a part of the class, and at most a CPU."""
    bound_ms = QUANTUM_MS + QUANTUM_MS / min(1.0, CLASS_CPUS / NUMBERS[number])

    def value(samples: Samples) -> float:
        return max(wait_ms(samples, f"{number}.{pattern}.{configuration}") for pattern in PATTERNS) / bound_ms

    return value


def wait_ms(samples: Samples, run: str) -> float:
    (result,) = samples.results(run)
    return max(row["wait_max_ms"] for row in result["tasks"] if row["name"].startswith("reserved"))
