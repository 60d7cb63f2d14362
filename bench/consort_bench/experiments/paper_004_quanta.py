# SPDX-License-Identifier: MIT OR Apache-2.0
"""004's Figures 11 and 12, simulated: how long n programs of equal work take, and with which quanta.

What a switch costs is an assumption of the simulator, so this tells what schedulers make of the same costs.
"""

from __future__ import annotations

import copy

from .. import papers
from ..commits import SIMULATION
from ..model import Experiment, Extract, Row, Run, Samples
from ..papers import Line, Panel, Tasks, instances, tasks_of
from ..workloads import Length

CLASSES = ("gr", "fr")
COUNTS = (1, 5, 10, 15)
QUANTA_MS = (10, 30, 50, 70)
# Of 2.5 ms: a second of work.
ROUNDS = 400
# Each run lasts so much longer than its programs' work.
AFTER_S = 2
# What 004's prototype has in Figure 11.
QUANTUM_MS = QUANTA_MS[0]


def experiment(_length: Length) -> Experiment:
    scenarios = {part: papers.load(f"004-figure-11-{part}") for part in CLASSES}
    runs: list[Run] = []
    for n in COUNTS:
        runs += [
            papers.run(f"{part}.n{n}", f"q{quantum}", of_count(scenarios[part], n), tunables(quantum))
            for part in CLASSES
            for quantum in QUANTA_MS
        ]
        runs.append(papers.run(f"fr.n{n}", "eevdf", of_count(scenarios["fr"], n)))
    rows = figure_11("paper004", COUNTS) + [
        Row(
            f"paper004.figure12.{part}.n{n}.completion_s",
            "s",
            completion(f"{part}.n{n}.q{QUANTUM_MS}"),
            against={f"{q} ms": completion(f"{part}.n{n}.q{q}") for q in QUANTA_MS[1:]},
        )
        for part in CLASSES
        for n in COUNTS
    ]
    title = "004's completion times, simulated"
    return Experiment(
        "paper_004_quanta",
        title,
        tuple(runs),
        tuple(rows),
        plot,
        starts=1,
        measures=(*SIMULATION, "sim/papers"),
    )


def figure_11(paper: str, counts: tuple[int, ...]) -> list[Row]:
    """A row for each number of programs; their ids begin with `paper`."""
    return [
        Row(
            f"{paper}.figure11.n{n}.completion_s",
            "s",
            completion(f"gr.n{n}.q{QUANTUM_MS}"),
            against={"fr": completion(f"fr.n{n}.q{QUANTUM_MS}"), "eevdf": completion(f"fr.n{n}.eevdf")},
        )
        for n in counts
    ]


def tunables(quantum_ms: int) -> str:
    """Slices of that length: granularity alone is a round's, and divided by the number of programs."""
    return f"coop,granularity={quantum_ms}ms,min-slice={quantum_ms}ms"


def of_count(scenario: dict, n: int) -> dict:
    """The scenario with so many programs, and long enough for them."""
    changed = copy.deepcopy(scenario)
    changed["tasks"]["greedy"]["instance"] = n
    changed["global"]["duration"] = n + AFTER_S
    return changed


def completion(run: str) -> Extract:
    return papers.of(run, completion_s)


def completion_s(tasks: Tasks) -> float:
    """How long a program's rounds take at the rate at which all are done.

    When exactly each is done depends on whether the rest of its work just fits into a quantum.
    """
    lines = instances(tasks, "greedy")
    end_s = len(lines) + AFTER_S
    return len(lines) * ROUNDS / sum(line.stamps_per_s(0, end_s) for line in lines)


def plot(samples: Samples, folder) -> list[str]:
    # Only here, so that everything but plots works without matplotlib.
    from .. import plots

    def more(run: str, n: int) -> float:
        """By how much it takes longer than n programs' work, in percent."""
        return 100 * (completion_s(tasks_of(samples, run)) / n - 1)

    schedulers = {"GR, 10 ms": f"gr.n{{}}.q{QUANTUM_MS}", "FR, 10 ms": f"fr.n{{}}.q{QUANTUM_MS}"}
    schedulers["EEVDF"] = "fr.n{}.eevdf"
    lines = [
        Line(name, [(n, more(run.format(n), n)) for n in COUNTS], style)
        for (name, run), style in zip(schedulers.items(), (".-", ".--", ".-"), strict=True)
    ]
    panels = [Panel("Figure 11", "programs", "% longer than their work", lines, 2)]
    for part in CLASSES:
        lines = [
            Line(f"{n} programs", [(q, more(f"{part}.n{n}.q{q}", n)) for q in QUANTA_MS], ".-")
            for n in COUNTS
        ]
        panels.append(
            Panel(f"Figure 12, {part.upper()}", "quantum, ms", "% longer than their work", lines, 2)
        )
    title = "Programs of a second's work each"
    return [plots.panels_figure(folder, "paper-004-figure-11-12.svg", title, panels)]
