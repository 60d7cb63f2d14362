# SPDX-License-Identifier: MIT OR Apache-2.0
"""Root's daemon among strangers, and one daemon after another.

Measured by the programs of the whole-system tests (`consort-tests measure`), in guests.
"""

from __future__ import annotations

from ..commits import RESERVATIONS
from ..guest import built_static
from ..model import Experiment, Extract, Row, Run, Scheduler, Target, of
from ..workloads import Length

PROGRAM = built_static("consort-tests")
PLAYERS = 12
REPLACEMENTS = 5
# As many again are made on the host, between any two calls: daemon/tests/reservations/kills.rs.
KILLS = 1000
RESERVED = 64
PROCESSES = 3000
RESTARTS = 3
# As consort-tests names them.
ATTACKS = (
    "garbage",
    "hello",
    "joins",
    "strangers",
    "descriptors",
    "deaf",
    "status",
    "reserve",
    "credits",
    "taken",
    "usage",
    "silent",
)
ATTACK_S = 6
# Loading the scheduler, which an emulator does slowly.
LOADING_S = 20


def experiment(length: Length) -> Experiment:
    is_quick = length == Length.quick()
    kills = 20 if is_quick else KILLS
    attack_s = 4 if is_quick else ATTACK_S
    replacing_s = 5 * (REPLACEMENTS + 1)
    runs = (
        measure("replace", replacing_s, str(PLAYERS), str(REPLACEMENTS)),
        measure("restart", 2 * LOADING_S, str(RESERVED), str(PROCESSES), str(RESTARTS)),
        measure("attacks", (2 * len(ATTACKS) + 1) * attack_s, str(attack_s)),
        measure("kills", kills // 5, str(kills), "{seed}"),
    )
    rows = (
        # How much longer than a slice a due event waited at most; and how many did.
        Row(
            "trust.replace.gap_ms",
            "ms",
            of("replace", "gap_ms"),
            Target(at_most=0),
            {"without": of("replace", "without.gap_ms")},
        ),
        Row(
            "trust.replace.late_events",
            "events",
            of("replace", "late_events"),
            Target(at_most=0),
            {"without": of("replace", "without.late_events")},
        ),
        # By so many kills, or by those before the first loss.
        Row("trust.kill.lost", "", of("kills", "lost"), Target(at_most=0), {"kills": of("kills", "kills")}),
        Row(
            "trust.restart_ms",
            "ms",
            of("restart", "restart_ms"),
            Target(at_most=300),
            {"loaded anew": of("restart", "loaded_anew_ms")},
        ),
        Row(
            "trust.attacks.p99_ratio",
            "1",
            of("attacks", "p99_ratio"),
            Target(at_most=1.5),
            {"later": of("attacks", "later.p99_ratio")} | by_attack("p99_ratio"),
        ),
        Row(
            "trust.attacks.cpu_percent_lost",
            "%",
            of("attacks", "cpu_percent_lost"),
            Target(at_most=1),
            {"later": of("attacks", "later.cpu_percent_lost")} | by_attack("cpu_percent_lost"),
        ),
    )
    return Experiment("trust", "Trust", runs, rows, measures=RESERVATIONS, starts=1, runs_per_guest=1)


def by_attack(value: str) -> dict[str, Extract]:
    """What each attack does from its first message on; the row's value is the worst of these."""
    return {name: of("attacks", f"attacks.{name}.begin.{value}") for name in ATTACKS}


def measure(name: str, guest_s: float, *words: str) -> Run:
    return Run(
        name,
        Scheduler.OWN,
        ("measure", name, *words),
        guest_s + LOADING_S,
        program=PROGRAM,
    )
