# SPDX-License-Identifier: MIT OR Apache-2.0
"""004's Figures 11 and 12 in the guest: the simulator's experiment (paper_004_quanta.py), by processes.

Fewer numbers of programs and quanta than there: a guest takes as long as its programs work.
"""

from __future__ import annotations

from dataclasses import replace

from .. import papers
from ..commits import RESERVATIONS
from ..model import Experiment, Row, Run
from ..workloads import Length
from .paper_004_quanta import CLASSES, QUANTUM_MS, completion, figure_11, of_count

COUNTS = (1, 5, 15)
LONGER_MS = (30, 70)


def experiment(_length: Length) -> Experiment:
    runs: list[Run] = []
    for n in COUNTS:
        runs += [in_guest(part, n, QUANTUM_MS) for part in CLASSES]
        runs.append(papers.in_guest(f"fr.n{n}", "eevdf", of_count(papers.load("004-figure-11-fr"), n)))
    runs += [in_guest("gr", COUNTS[-1], quantum) for quantum in LONGER_MS]
    rows = figure_11("paper004.guest", COUNTS)
    longest = f"gr.n{COUNTS[-1]}"
    rows.append(
        Row(
            f"paper004.guest.figure12.n{COUNTS[-1]}.completion_s",
            "s",
            completion(f"{longest}.q{QUANTUM_MS}"),
            against={f"{q} ms": completion(f"{longest}.q{q}") for q in LONGER_MS},
        )
    )
    title = "004's completion times, in the guest"
    return Experiment(
        "paper_004_quanta_guest",
        title,
        tuple(runs),
        tuple(rows),
        starts=1,
        runs_per_guest=4,
        measures=(*RESERVATIONS, "sim/papers"),
    )


def in_guest(part: str, n: int, quantum_ms: int) -> Run:
    """Slices of that length, as the simulator has them by its tunables."""
    scenario = of_count(papers.load(f"004-figure-11-{part}"), n)
    run = papers.in_guest(f"{part}.n{n}", "coop", scenario)
    quantum = f"{quantum_ms}ms"
    settings = replace(run.settings, granularity=quantum, min_slice=quantum)
    return replace(run, name=f"{part}.n{n}.q{quantum_ms}", settings=settings)
