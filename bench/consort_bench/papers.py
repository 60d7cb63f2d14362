# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the experiments of papers 001 and 004 share: their scenarios (sim/papers), what is read from runs.

The same scenarios are simulated, and carried out by processes in guests.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from .guest import ROOT
from .model import GUEST_SCENARIO, Extract, GuestFile, Missing, Row, Run, Samples, Scheduler, Settings
from .timeline import Timeline, of_processes
from .workloads import simulated

SCENARIOS = ROOT / "sim" / "papers"
# More points of a line could not be told apart.
POINTS_MAX = 40
# A guest's processes begin so late, and end so late.
GUEST_OVERHEAD_S = 4
# What becomes of reservations in a guest, by the name that the simulator has for the scheduler.
PROMISES = {"coop": "consort", "eevdf": "none", "flat": "none", "deadline": "deadline"}
Tasks = dict[str, Timeline]


def load(name: str) -> dict:
    """A scenario, to be run as it is or changed. Its comments are whole lines."""
    lines = (SCENARIOS / f"{name}.json").read_text().splitlines()
    return json.loads("\n".join(line for line in lines if not line.lstrip().startswith("//")))


def without_cgroups(scenario: dict) -> dict:
    """Everybody in the root cgroup: what a stock scheduler does when nobody has told it anything."""
    flat = copy.deepcopy(scenario)
    flat.pop("cgroups", None)
    for task in flat["tasks"].values():
        task.pop("taskgroup", None)
    return flat


def with_ordinary_locks(scenario: dict) -> dict:
    """Nobody inherits from who waits for him."""
    ordinary = copy.deepcopy(scenario)
    ordinary["global"]["pi_enabled"] = False
    return ordinary


def run(figure: str, scheduler: str, scenario: dict, configuration: str | None = None) -> Run:
    """A run whose name is the figure's and the scheduler's."""
    return simulated(f"{figure}.{scheduler}", scenario, configuration or scheduler, traced=True)


def runs(figure: str, scenario: dict, schedulers: tuple[str, ...]) -> tuple[Run, ...]:
    return tuple(run(figure, scheduler, scenario) for scheduler in schedulers)


def in_guest(
    figure: str,
    scheduler: str,
    scenario: dict,
    *options: str,
    files: tuple[GuestFile, ...] = (),
) -> Run:
    """As `run`, by processes in a guest; `flat` is EEVDF without the scenario's cgroups."""
    done = without_cgroups(scenario) if scheduler == "flat" else scenario
    is_ours = scheduler == "coop"
    words = ("scenario", GUEST_SCENARIO, "--timelines", "--seed", "{seed}")
    return Run(
        f"{figure}.{scheduler}",
        Scheduler.CONSORT if is_ours else Scheduler.EEVDF,
        (*words, "--promises", PROMISES[scheduler], *options),
        seconds(scenario["global"]["duration"]) + GUEST_OVERHEAD_S,
        Settings(classes=classes_file(scenario) if is_ours else "", huge_pages=False),
        files=files,
        scenario=json.dumps(done),
    )


def seconds(length: float | str) -> float:
    """Of a scenario's length: a number of seconds, or one with its unit, ms or s."""
    if not isinstance(length, str):
        return float(length)
    if length.endswith("ms"):
        return float(length.removesuffix("ms")) / 1000
    return float(length.removesuffix("s"))


def classes_file(scenario: dict) -> str:
    """The scenario's classes as the operator's file."""
    lines = []
    for name, properties in scenario.get("classes", {}).items():
        lines += [f"[class.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in properties.items())]
    return "\n".join(lines)


def starts_of(samples: Samples, name: str) -> list[Tasks]:
    """The timelines of a run's starts."""
    return [_timelines(name, result) for result in samples.results(name)]


def _timelines(name: str, result: dict) -> Tasks:
    if "timelines" not in result:
        # Guests' outputs are kept as they were said.
        return of_processes(result["tasks"])
    if result["refusals"]:
        raise Missing(f"{name}: not granted: {result['refusals'][0]}")
    return result["timelines"]


def tasks_of(samples: Samples, name: str) -> Tasks:
    """The timelines of a run's first start."""
    return starts_of(samples, name)[0]


def instances(tasks: Tasks, task: str) -> list[Timeline]:
    """Those of a task of the scenario, in order."""
    return [line for name, line in tasks.items() if name == task or name.rpartition("-")[0] == task]


def row(
    id: str,
    unit: str,
    figure: str,
    value: Callable[[Tasks], float],
    others: tuple[str, ...],
) -> Row:
    """The number under Consort, beside that of the same figure's runs under others."""
    return Row(
        id, unit, of(f"{figure}.coop", value), against={it: of(f"{figure}.{it}", value) for it in others}
    )


def of(name: str, value: Callable[[Tasks], float]) -> Extract:
    return lambda samples: median(value(tasks) for tasks in starts_of(samples, name))


def percentile(values: list[float], percent: float) -> float:
    """The smallest value that at least this part do not exceed."""
    rank = max(1, -(-len(values) * percent // 100))
    return sorted(values)[int(rank) - 1]


@dataclass(frozen=True)
class Line:
    """A line of a plot, or single points."""

    label: str
    points: list[tuple[float, float]]
    style: str = "-"
    colour: str | None = None


@dataclass(frozen=True)
class Panel:
    title: str
    x: str
    y: str
    lines: list[Line]
    y_max: float | None = None


def thinned(points: list) -> list:
    """So many that the line looks the same; with the last."""
    step = -(-len(points) // POINTS_MAX) or 1
    kept = points[::step]
    return kept if not points or kept[-1] == points[-1] else [*kept, points[-1]]


def profile(stamps: list[float]) -> list[tuple[float, float]]:
    """004's execution profile: the stamp's number, and its time in seconds after the first."""
    return thinned([(number, stamp - stamps[0]) for number, stamp in enumerate(stamps)])


def gaps(line: Timeline) -> list[tuple[float, float]]:
    """The number of each frame, and the ms since the one before."""
    return list(enumerate(line.gaps_ms(), start=1))
