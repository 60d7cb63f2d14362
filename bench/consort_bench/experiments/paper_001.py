# SPDX-License-Identifier: MIT OR Apache-2.0
"""001's figures, and its Tables 4.3 and 4.4, simulated: Consort, and EEVDF with cgroup weights.

The scenarios, and what each figure is about, are in sim/papers; docs/papers.md is the chapter. Tables 4.1 and
4.2 are in paper_001_overhead.py.
"""

from __future__ import annotations

import copy

from .. import papers
from ..commits import SIMULATION
from ..model import Experiment, Row, Run, Samples
from ..papers import Line, Panel, Tasks, tasks_of
from ..workloads import Length

SCHEDULERS = ("coop", "eevdf")
WITH_FRC = (*SCHEDULERS, "frc")
TITLES = {"coop": "Consort", "eevdf": "EEVDF, cgroup weights", "frc": "004's FRC"}
# Figure 4.1: the tickets of each, in the order in which they end; and those of best effort.
TICKETS = {"forty": 40, "twenty": 20, "ten": 10}
REST = 25
# Figures 4.2 and 4.3.
RESERVED = {"a": 40, "b": 20, "c": 10, "d": 5}
# 001 measures a share over at least so much CPU time.
PORTION_S = 0.03
# Figure 4.4: what A and B are to have, and when. Transfers are at 0.35 s and 0.733 s.
LENT = {(0.05, 0.34): (160 / 3, 40 / 3), (0.37, 0.72): (40 / 3, 160 / 3), (0.75, 1.15): (160 / 3, 40 / 3)}
HOGS = (1, 100)
LOADS = (0, 1, 2, 3, 4)
RATES = (50, 40, 30, 20)
FRAME_MS = 33.333
# Figure 4.9's pairs: without a reservation, and with one of about as much.
COMPARED = {"4.3.n0": "alone", "4.4.r50": "50 %", "4.3.n2": "beside 2", "4.4.r30": "30 %"}
COMPARED |= {"4.3.n3": "beside 3", "4.4.r20": "20 %"}


def experiment(_length: Length) -> Experiment:
    """Always the whole length: it is the figures' own, and takes seconds."""
    runs = papers.runs("4.1", papers.load("001-figure-4.1"), WITH_FRC)
    runs += papers.runs("4.2", papers.load("001-figure-4.2"), WITH_FRC)
    runs += papers.runs("4.4", papers.load("001-figure-4.4"), SCHEDULERS)
    runs += (*isolation_runs(), *player_runs())
    rows = (*rows_of_shares(), *rows_of_player())
    return Experiment(
        "paper_001",
        "001's figures, simulated",
        runs,
        rows,
        plot,
        starts=1,
        measures=(*SIMULATION, "sim/papers"),
    )


def isolation_runs() -> list[Run]:
    scenario = papers.load("001-figure-4.6")
    runs: list[Run] = []
    for hogs in HOGS:
        changed = copy.deepcopy(scenario)
        changed["tasks"]["hog"]["instance"] = hogs
        runs += papers.runs(f"4.6.n{hogs}", changed, WITH_FRC)
    return runs


def player_runs() -> list[Run]:
    loaded, reserved = papers.load("001-table-4.3"), papers.load("001-table-4.4")
    runs: list[Run] = []
    for hogs in LOADS:
        changed = copy.deepcopy(loaded)
        if hogs:
            changed["tasks"]["hog"]["instance"] = hogs
        else:
            del changed["tasks"]["hog"]
        runs += papers.runs(f"4.3.n{hogs}", changed, SCHEDULERS)
    for percent in RATES:
        changed = copy.deepcopy(reserved)
        for task, rate in (("player", percent), ("other", 75 - percent)):
            changed["tasks"][task]["reserve"]["rate"] = rate / 100
            changed["cgroups"][f"/{task}"]["weight"] = 10 * rate
        runs += papers.runs(f"4.4.r{percent}", changed, WITH_FRC)
    return runs


def row(id: str, unit: str, figure: str, value, schedulers=WITH_FRC) -> Row:
    return papers.row(f"paper001.{id}", unit, figure, value, schedulers[1:])


def rows_of_shares() -> tuple[Row, ...]:
    return (
        row("figure4.1.share_error_percent", "%", "4.1", share_error_as_they_end),
        row("figure4.2.share_error_percent", "%", "4.2", share_error),
        row("figure4.2.still_max_ms", "ms", "4.2", still_max_ms),
        row("figure4.3.share_error_percent", "%", "4.2", points_error),
        row("figure4.4.share_error_percent", "%", "4.4", lent_error, SCHEDULERS),
        *(row(f"figure4.6.n{hogs}.share_percent", "%", f"4.6.n{hogs}", reserved_percent) for hogs in HOGS),
    )


def rows_of_player() -> tuple[Row, ...]:
    loads, rates = [f"n{hogs}" for hogs in LOADS], [f"r{percent}" for percent in RATES]
    rows: list[Row] = []
    for table, figure, names, schedulers in (
        ("4.3", "4.7", loads, SCHEDULERS),
        ("4.4", "4.8", rates, WITH_FRC),
    ):
        for name in names:
            run = f"{table}.{name}"
            rows.append(row(f"table{run}.frames_per_s", "1/s", run, frames, schedulers))
            rows.append(row(f"figure{figure}.{name}.late_max_ms", "ms", run, late_max, schedulers))
    return tuple(rows)


def share_error_as_they_end(tasks: Tasks) -> float:
    """How far anybody is off its share, between the ends of one and the next."""
    worst, begin = 0.0, 0.0
    left = dict(TICKETS)
    for name in TICKETS:
        end = tasks[name].ends[-1]
        whole = sum(left.values()) + REST
        expected = {**left, "rest": REST}
        # Not at the very ends: a slice is not a share.
        window = (begin + 0.05, end - 0.05)
        for task, tickets in expected.items():
            worst = max(worst, abs(tasks[task].share_percent(*window) - 100 * tickets / whole))
        begin = end
        del left[name]
    return worst


def share_error(tasks: Tasks) -> float:
    return max(abs(tasks[name].share_percent(0, 10) - percent) for name, percent in RESERVED.items())


def still_max_ms(tasks: Tasks) -> float:
    """The longest time that one of them does not advance."""
    return max(
        1000 * (begin - end)
        for name in RESERVED
        for end, begin in zip(tasks[name].ends, tasks[name].begins[1:], strict=False)
    )


def points_error(tasks: Tasks) -> float:
    """How far any of the points of Figure 4.3 is off."""
    return max(
        abs(percent - expected)
        for name, expected in RESERVED.items()
        for _, percent in tasks[name].cpu_until_each(PORTION_S)
    )


def lent_error(tasks: Tasks) -> float:
    return max(
        abs(tasks[task].share_percent(*window) - percent)
        for window, shares in LENT.items()
        for task, percent in zip(("a", "b"), shares, strict=True)
    )


def reserved_percent(tasks: Tasks) -> float:
    return tasks["reserved"].share_percent(0, 10)


def frames(tasks: Tasks) -> float:
    """Frames a second, from the first to the last."""
    stamps = tasks["player"].stamps
    return (len(stamps) - 1) / (stamps[-1] - stamps[0])


def late_ms(tasks: Tasks) -> list[float]:
    """How late each frame is. A frame's time counts from the one before, as in 001's player."""
    # The trace's microseconds have nine digits behind the point, of which three say something.
    return [max(0.0, round(gap - FRAME_MS, 6)) for gap in tasks["player"].gaps_ms()]


def late_max(tasks: Tasks) -> float:
    return max(late_ms(tasks))


def plot(samples: Samples, folder) -> list[str]:
    # Only here, so that everything but plots works without matplotlib.
    from .. import plots

    def figure(name: str, title: str, panels: list[Panel], columns: int) -> str:
        return plots.panels_figure(folder, f"paper-001-figure-{name}.svg", title, panels, columns)

    def each(number: str, panel, schedulers=SCHEDULERS) -> list[Panel]:
        return [panel(TITLES[it], tasks_of(samples, f"{number}.{it}")) for it in schedulers]

    lent = [*each("4.4", progress((0, 1.2), "ab")), *each("4.4", points((0, 1.2), "ab"))]
    shares = [
        *each("4.2", progress((1, 1.5), RESERVED), WITH_FRC),
        *each("4.2", points((0, 3), RESERVED), WITH_FRC),
    ]
    return [
        figure("4.1", "Three loops end", each("4.1", progress((0, 8), [*TICKETS, "rest"]), WITH_FRC), 3),
        figure("4.2-4.3", "Shares of 40, 20, 10 and 5 %", shares, 3),
        figure("4.4-4.5", "A lends B 30 %, and takes it back", lent, 4),
        figure("4.6", "75 % beside one loop, and beside a hundred", isolation_panels(samples), 3),
        figure("4.7-4.8", "How late frames are", late_panels(samples), 2),
        figure("4.9", "Frames over time", [frames_panel(samples, it) for it in SCHEDULERS], 2),
    ]


def progress(window: tuple[float, float], names):
    """CPU time over time."""
    begin, end = window
    # Steps are to be seen.
    times = [begin + (end - begin) * n / 400 for n in range(401)]

    def panel(title: str, tasks: Tasks) -> Panel:
        lines = []
        for name in names:
            line = tasks[name]
            at_begin = line.cpu_s(begin)
            lines.append(Line(name, [(at, 1000 * (line.cpu_s(at) - at_begin)) for at in times]))
        return Panel(title, "s", "CPU time, ms", lines)

    return panel


def points(window: tuple[float, float], names):
    """Shares between points, as 001 measures them."""

    def panel(title: str, tasks: Tasks) -> Panel:
        lines = []
        for name in names:
            all_points = tasks[name].cpu_until_each(PORTION_S)
            lines.append(
                Line(name, [(at, it) for at, it in all_points if window[0] <= at <= window[1]], ".-")
            )
        return Panel(title, "s", "% of the CPU", lines, 100)

    return panel


def isolation_panels(samples: Samples) -> list[Panel]:
    panels = []
    for scheduler in WITH_FRC:
        lines = []
        for hogs, style in zip(HOGS, ("-", "--"), strict=True):
            line = tasks_of(samples, f"4.6.n{hogs}.{scheduler}")["reserved"]
            over_time = [(n / 100, 1000 * line.cpu_s(n / 100)) for n in range(201)]
            lines.append(Line(f"beside {hogs}", over_time, style))
        panels.append(Panel(TITLES[scheduler], "s", "CPU time, ms", lines))
    return panels


def late_panels(samples: Samples) -> list[Panel]:
    panels = []
    for scheduler in SCHEDULERS:
        for number, keys, label in (
            ("4.3", {f"n{n}": f"beside {n}" for n in (0, 2, 4)}, "no reservation"),
            ("4.4", {f"r{percent}": f"{percent} %" for percent in RATES}, "reserved"),
        ):
            lines = [
                Line(
                    text, list(enumerate(late_ms(tasks_of(samples, f"{number}.{key}.{scheduler}")), start=1))
                )
                for key, text in keys.items()
            ]
            panels.append(Panel(f"{TITLES[scheduler]}: {label}", "frame", "ms late", lines, 80))
    return panels


def frames_panel(samples: Samples, scheduler: str) -> Panel:
    lines = []
    for index, (key, text) in enumerate(COMPARED.items()):
        stamps = tasks_of(samples, f"{key}.{scheduler}")["player"].stamps
        over_time = papers.thinned([(stamp, number) for number, stamp in enumerate(stamps, start=1)])
        colour = f"C{index // 2}"
        lines.append(Line(text, over_time, "--" if index % 2 else "-", colour))
    return Panel(TITLES[scheduler], "s", "frames shown", lines)
