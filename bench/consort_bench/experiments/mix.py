# SPDX-License-Identifier: MIT OR Apache-2.0
"""Everyday mixes, simulated: who is worse off than its share says, than under EEVDF, than without joining?

`consort sim mixes FILE --json` runs a mix under Consort, under the simulator's EEVDF model, and under Consort
without anybody joining a domain; it compares each task with what weights, nesting and masks entitle it to.
`--generated N` draws mixes instead. None of it depends on the machine that it runs on.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..commits import ROOT, SIMULATION
from ..model import Experiment, Extract, Missing, Row, Run, Samples, Scheduler, Target, of
from ..workloads import Length

FOLDER = ROOT / "sim" / "scenarios" / "mixes"
GENERATED = 1000
LAG_GENERATED = 10_000
# Extremes of weights, and how long whoever is runnable there may wait.
EXTREMES = ("wd3", "wd5")
WAIT_MAX_MS = 2500
SHARE_MIN = 0.95
WAIT_RATIO_MAX = 2
JOINED_SHARE_MIN = 0.98
# A 99th percentile below 1 ms counts as this.
JOINED_TARDINESS_MAX = 1.0


def experiment(_length: Length) -> Experiment:
    files = sorted(FOLDER.glob("*.json"))
    names = [file.stem for file in files]
    runs = [mixes(f"mix.{file.stem}", str(file)) for file in files]
    runs += [waits(f"wait.{file.stem}", file) for file in files if file.stem in EXTREMES]
    runs += [
        mixes("generated", "--generated", str(GENERATED)),
        mixes("generated.lag", "--generated", str(LAG_GENERATED)),
    ]
    rows = [row for name in names for row in rows_of(name)]
    rows += rows_of_joining(names)
    rows += [
        Row("mix.generated.fluid_lag_max_slices", "slices", lag, Target(at_most=1, reference="bound"), BOUND),
        Row("liveness.wait_max_ms", "ms", longest_wait, Target(at_most=WAIT_MAX_MS)),
    ]
    title = "Everyday mixes, simulated"
    measures = (*SIMULATION, "cli/src/sim", "sim/scenarios")
    return Experiment("mix", title, tuple(runs), tuple(rows), measures=measures, starts=1)


def mixes(name: str, *words: str) -> Run:
    """What breaks a rule has a result all the same, which is judged here."""
    command = ("consort", "sim", "mixes", *words, "--json")
    return Run(name, Scheduler.SIMULATOR, command, 0, broken_rules_fail=False)


def waits(name: str, file: Path) -> Run:
    command = ("consort", "sim", "run", str(file), "--json")
    return Run(name, Scheduler.SIMULATOR, command, 0, broken_rules_fail=False)


def rows_of(name: str) -> list[Row]:
    run = f"mix.{name}"
    return [
        Row(
            f"mix.{name}.share_ratio_min",
            "ratio",
            of(run, "mixes.0.share_ratio_min"),
            Target(at_least=SHARE_MIN),
        ),
        Row(
            f"mix.{name}.wait_ratio_max",
            "ratio",
            of(run, "mixes.0.wait_ratio_max"),
            Target(at_most=WAIT_RATIO_MAX),
        ),
    ]


def rows_of_joining(names: list[str]) -> list[Row]:
    """Over all files and the generated mixes: the one in which joining costs most."""

    def joined(path: str, worst: Callable) -> Extract:
        def value(samples: Samples) -> float:
            results = [samples.results(f"mix.{name}")[0]["mixes"][0] for name in names]
            results.append(samples.results("generated")[0]["generated"])
            # Where nobody joins there is nothing to compare.
            values = [it["join"][path] for it in results if it.get("join")]
            # Nor, for lateness, where nobody has due events.
            values = [it for it in values if it is not None]
            if not values:
                raise Missing("nobody joined in any mix")
            return worst(values)

        return value

    return [
        Row(
            "mix.join.share_ratio_min",
            "ratio",
            joined("share_ratio_min", min),
            Target(at_least=JOINED_SHARE_MIN),
        ),
        Row(
            "mix.join.tardiness_p99_ratio_max",
            "ratio",
            joined("tardiness_p99_ratio_max", max),
            Target(at_most=JOINED_TARDINESS_MAX),
        ),
    ]


# The simulator says which bound holds.
BOUND = {"bound": of("generated.lag", "generated.fluid_lag_bound_slices")}
lag = of("generated.lag", "generated.fluid_lag_max_slices")


def longest_wait(samples: Samples) -> float:
    return max(samples.value(f"wait.{name}", "total.wait_max_ms") for name in EXTREMES)
