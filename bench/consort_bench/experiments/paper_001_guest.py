# SPDX-License-Identifier: MIT OR Apache-2.0
"""001's Tables 4.1 and 4.2 and Figures 4.1 to 4.6 in the guest: the simulator's scenarios, by processes.

The player of the other tables is in paper_001_ffplay.py. docs/papers.md is the chapter.
"""

from __future__ import annotations

import copy
from itertools import pairwise

from .. import papers
from ..commits import RESERVATIONS
from ..model import Experiment, Row, Run, Samples, Scheduler, of
from ..papers import Panel, Tasks, tasks_of
from ..workloads import Length
from . import paper_001 as simulated
from .rates import run

SCHEDULERS = ("coop", "eevdf")
# Where reservations are of single threads, and nobody wants what others leave.
WITH_DEADLINE = (*SCHEDULERS, "deadline")
TITLES = simulated.TITLES
BUILD_JOBS = 150
# Figure 4.4: when somebody changes EEVDF's weights, and when all ends.
REWEIGHTED_S, LENT_UNTIL_S = (0.35, 0.733), 1.2
# A slice is not a share.
AROUND_S = 0.03
SCENARIOS = {f"4.{number}": f"001-figure-4.{number}" for number in (1, 2, 4)} | {"t4.1": "001-table-4.1"}


def experiment(_length: Length) -> Experiment:
    """Always the whole length: it is the figures' own."""
    runs = [
        papers.in_guest(run, it, papers.load(name)) for run, name in SCENARIOS.items() for it in SCHEDULERS
    ]
    runs.append(papers.in_guest("4.2", "deadline", papers.load("001-figure-4.2")))
    runs += [build(it) for it in SCHEDULERS]
    runs += isolation_runs()
    rows = (*rows_of_overhead(), *rows_of_shares())
    title = "001's figures, in the guest"
    return Experiment(
        "paper_001_guest",
        title,
        tuple(runs),
        rows,
        plot,
        starts=1,
        runs_per_guest=4,
        measures=(*RESERVATIONS, "sim/papers"),
    )


def build(scheduler: str) -> Run:
    who = Scheduler.CONSORT if scheduler == "coop" else Scheduler.EEVDF
    return run(f"t4.2.{scheduler}", who, BUILD_JOBS * 0.07, "build", "--jobs", str(BUILD_JOBS))


def isolation_runs() -> list[Run]:
    scenario = papers.load("001-figure-4.6")
    runs: list[Run] = []
    for hogs in simulated.HOGS:
        changed = copy.deepcopy(scenario)
        changed["tasks"]["hog"]["instance"] = hogs
        runs += [papers.in_guest(f"4.6.n{hogs}", it, changed) for it in WITH_DEADLINE]
    return runs


def row(id: str, unit: str, figure: str, value, schedulers=SCHEDULERS) -> Row:
    return papers.row(f"paper001.guest.{id}", unit, figure, value, schedulers[1:])


def rows_of_overhead() -> tuple[Row, ...]:
    def seconds(scheduler: str):
        return papers.of(f"t4.1.{scheduler}", lambda tasks: tasks["count"].stamps[-1])

    def more_percent(of_scheduler):
        return lambda samples: 100 * (of_scheduler("coop")(samples) / of_scheduler("eevdf")(samples) - 1)

    def took(scheduler: str):
        return of(f"t4.2.{scheduler}", "took_s")

    return tuple(
        one
        for table, of_scheduler in (("4.1", seconds), ("4.2", took))
        for one in (
            Row(
                f"paper001.guest.table{table}.duration_s",
                "s",
                of_scheduler("coop"),
                against={"eevdf": of_scheduler("eevdf")},
            ),
            Row(f"paper001.guest.table{table}.overhead_percent", "%", more_percent(of_scheduler)),
        )
    )


def rows_of_shares() -> tuple[Row, ...]:
    return (
        row("figure4.1.share_error_percent", "%", "4.1", simulated.share_error_as_they_end),
        row("figure4.2.share_error_percent", "%", "4.2", simulated.share_error, WITH_DEADLINE),
        row("figure4.2.still_max_ms", "ms", "4.2", simulated.still_max_ms, WITH_DEADLINE),
        row("figure4.3.share_error_percent", "%", "4.2", simulated.points_error, WITH_DEADLINE),
        *rows_of_lending(),
        *(
            row(
                f"figure4.6.n{hogs}.share_percent",
                "%",
                f"4.6.n{hogs}",
                simulated.reserved_percent,
                WITH_DEADLINE,
            )
            for hogs in simulated.HOGS
        ),
    )


def calls(tasks: Tasks) -> list[tuple[float, float]]:
    """From when to when A waits for the daemon, lending and taking back: it waits longest then."""
    line = tasks["a"]
    gaps = sorted(zip(line.ends, line.begins[1:], strict=False), key=lambda gap: gap[1] - gap[0])
    return sorted(gaps[-2:])


def lent_error(transfers):
    """How far A or B is off what it is to have, before, between and after the transfers."""

    def value(tasks: Tasks) -> float:
        edges = (0.0, *transfers(tasks), LENT_UNTIL_S)
        return max(
            abs(tasks[task].share_percent(begin + AROUND_S, end - AROUND_S) - percent)
            for (begin, end), shares in zip(pairwise(edges), simulated.LENT.values(), strict=True)
            for task, percent in zip("ab", shares, strict=True)
        )

    return value


def rows_of_lending() -> tuple[Row, ...]:
    def called(tasks: Tasks) -> list[float]:
        return [begin for begin, _ in calls(tasks)]

    def longest_ms(tasks: Tasks) -> float:
        return max(1000 * (end - begin) for begin, end in calls(tasks))

    return (
        Row(
            "paper001.guest.figure4.4.share_error_percent",
            "%",
            papers.of("4.4.coop", lent_error(called)),
            against={"eevdf": papers.of("4.4.eevdf", lent_error(lambda _: REWEIGHTED_S))},
        ),
        Row("paper001.guest.figure4.4.call_max_ms", "ms", papers.of("4.4.coop", longest_ms)),
    )


def plot(samples: Samples, folder) -> list[str]:
    # Only here, so that everything but plots works without matplotlib.
    from .. import plots

    def figure(name: str, title: str, panels: list[Panel], columns: int) -> str:
        title = f"In the guest: {title}"
        return plots.panels_figure(folder, f"paper-001-guest-figure-{name}.svg", title, panels, columns)

    def each(number: str, panel) -> list[Panel]:
        return [panel(TITLES[it], tasks_of(samples, f"{number}.{it}")) for it in SCHEDULERS]

    names = [*simulated.TICKETS, "rest"]
    shares = [
        *each("4.1", simulated.progress((0, 8), names)),
        *each("4.2", simulated.progress((1, 1.5), simulated.RESERVED)),
        *each("4.2", simulated.points((0, 3), simulated.RESERVED)),
        *each("4.4", simulated.progress((0, 1.2), "ab")),
        *each("4.4", simulated.points((0, 1.2), "ab")),
    ]
    return [
        figure("4.1-4.5", "loops that end; shares of 40, 20, 10 and 5 %; a transfer", shares, 4),
    ]
