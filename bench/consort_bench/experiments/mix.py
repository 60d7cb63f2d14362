# SPDX-License-Identifier: MIT OR Apache-2.0
"""Everyday mixes, simulated: who is worse off than its share says, than under EEVDF, than without joining?

`consort sim mixes FILE --json` runs a mix under Consort, under the simulator's EEVDF model, and under Consort
without anybody joining a domain; it compares each task with what weights, nesting and masks entitle it to.
`--generated N` draws mixes instead. None of it depends on the machine that it runs on.
"""

from __future__ import annotations

from collections.abc import Callable

from ..commits import ROOT, SIMULATION
from ..model import Experiment, Extract, Missing, Row, Run, Samples, Scheduler, Target, of, reading
from ..workloads import Length

FOLDER = ROOT / "sim" / "scenarios" / "mixes"
# Generated mixes, in parts that run side by side; joining and waiting are judged by the first of them.
PARTS, OF_PART, JOINING_PARTS = 20, 500, 2
# Extremes of weights, and how long whoever is runnable there may wait.
EXTREMES = ("wd3", "wd5")
WAIT_MAX_MS = 2500
SHARE_MIN = 0.95
WAIT_RATIO_MAX = 2
JOINED_SHARE_MIN = 0.98
# Where the 99th percentile is 1 ms or more.
JOINED_TARDINESS_MAX = 1.0
BY_JOINING = {
    "share_ratio_min": (min, Target(at_least=JOINED_SHARE_MIN)),
    "tardiness_p99_ratio_max": (max, Target(at_most=JOINED_TARDINESS_MAX)),
}


def experiment(_length: Length) -> Experiment:
    files = sorted(FOLDER.glob("*.json"))
    names = [f"mix.{file.stem}" for file in files]
    runs = [mixes(f"mix.{file.stem}", str(file)) for file in files] + [part(n) for n in range(PARTS)]
    judged = [*names, *(part(n).name for n in range(JOINING_PARTS))]
    rows = [row for name in names for row in rows_of(name)]
    rows += [
        Row(f"mix.join.{name}", "ratio", worst(judged, f"join.{name}", of_all), target)
        for name, (of_all, target) in BY_JOINING.items()
    ]
    parts = [part(n).name for n in range(PARTS)]
    rows.append(
        Row(
            "mix.generated.fluid_lag_max_slices",
            "slices",
            worst(parts, "fluid_lag_max_slices", max),
            Target(at_most=1, reference="bound"),
            # Which one holds, the simulator says.
            {"bound": worst(parts, "fluid_lag_bound_slices", max)},
        )
    )
    extremes = [f"mix.{name}" for name in EXTREMES] + judged[len(names) :]
    rows.append(
        Row("liveness.wait_max_ms", "ms", worst(extremes, "wait_max_ms", max), Target(at_most=WAIT_MAX_MS))
    )
    return Experiment(
        "mix",
        "Everyday mixes, simulated",
        tuple(runs),
        tuple(rows),
        measures=(*SIMULATION, "cli/src/sim", "sim/scenarios"),
        starts=1,
        runs_per_guest=1,
    )


def mixes(name: str, *words: str) -> Run:
    """A mix that does not hold has a result all the same, which is judged here."""
    command = ("consort", "sim", "mixes", *words, "--json")
    return Run(name, Scheduler.SIMULATOR, command, 0, broken_rules_fail=False)


def part(number: int) -> Run:
    seed = str(number * OF_PART)
    return mixes(f"generated.{number}", "--generated", str(OF_PART), "--seed", seed)


def rows_of(name: str) -> list[Row]:
    targets = {
        "share_ratio_min": Target(at_least=SHARE_MIN),
        "wait_ratio_max": Target(at_most=WAIT_RATIO_MAX),
    }
    return [Row(f"{name}.{id}", "ratio", of(name, f"worst.{id}"), it) for id, it in targets.items()]


def worst(runs: list[str], name: str, of_all: Callable) -> Extract:
    """Of all the runs, each of which must have come to its end; those with nothing to compare say null."""

    def value(samples: Samples) -> float:
        said = [samples.results(run)[0]["worst"].get(name) for run in runs]
        numbers = [it for it in said if it is not None]
        if not numbers:
            raise Missing(f"no mix says {name}")
        return of_all(numbers)

    return reading(runs, value)
