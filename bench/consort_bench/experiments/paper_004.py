# SPDX-License-Identifier: MIT OR Apache-2.0
"""004's Figures 1 and 4 to 10, simulated: Consort, EEVDF with cgroup weights, and 004's own algorithms.

The scenarios, and what each figure is about, are in sim/papers; docs/papers.md is the chapter.
"""

from __future__ import annotations

from statistics import mean

from .. import papers
from ..commits import SIMULATION
from ..model import Experiment, Row, Samples
from ..papers import Line, Panel, Tasks, instances, percentile, tasks_of
from ..workloads import Length

SCHEDULERS = ("coop", "eevdf", "rc", "frc")
OTHERS = SCHEDULERS[1:]
TITLES = {
    "coop": "Consort",
    "eevdf": "EEVDF, cgroup weights",
    "flat": "EEVDF, no cgroups",
    "rc": "004's RC",
    "frc": "004's FRC",
}
# Figure 1: when the others begin.
HOGS_S = 8.333
# Figure 4: from when on all are there, until none has ended yet.
CROWD_S = (8.5, 11.5)
PERIOD_S = 0.03
# Figure 6: what each is to have, in percent of the CPU.
NOMINAL = {"high": 100 / 4.5, "middle": 50 / 4.5, "low": 25 / 4.5}
# Figures 7 and 8: beside the players, and after they have shown their 600 frames.
# Figure 10a: the clock's thread, and the same among programs.
LOCKS = {"10a": "004-figure-10a", "10a_display": "004-figure-10a-display"}
LOCK_KINDS = ("inherits", "ordinary")
GREEDY = {"7a": 5, "7b": 13}
BESIDE_S, AFTER_S = (2.0, 18.0), (25.0, 29.5)
STARTED_S = 1.0


def experiment(_length: Length) -> Experiment:
    """Always the whole length: it is the figures' own, and takes seconds."""
    first = papers.load("004-figure-01")
    runs = papers.runs("1", first, SCHEDULERS)
    runs += (papers.run("1", "flat", papers.without_cgroups(first), "eevdf"),)
    for figure, name in (("4", "04"), ("6", "06"), ("7a", "07a"), ("7b", "07b"), ("9", "09"), ("10", "10")):
        runs += papers.runs(figure, papers.load(f"004-figure-{name}"), SCHEDULERS)
    for figure, name in LOCKS.items():
        scenario = papers.load(name)
        runs += papers.runs(f"{figure}.inherits", scenario, SCHEDULERS)
        runs += papers.runs(f"{figure}.ordinary", papers.with_ordinary_locks(scenario), SCHEDULERS)
    rows = (*rows_of_shares(), *rows_of_players(), *rows_of_locks())
    return Experiment(
        "paper_004",
        "004's figures, simulated",
        runs,
        rows,
        plot,
        starts=1,
        measures=(*SIMULATION, "sim/papers"),
    )


def rows_of_shares() -> tuple[Row, ...]:
    def row(id: str, unit: str, figure: str, value) -> Row:
        return papers.row(f"paper004.{id}", unit, figure, value, OTHERS)

    return (
        row("figure4.greedy_rounds_per_s", "1/s", "4", lambda tasks: min(greedy_rates(tasks))),
        row("figure4.greedy_rounds_spread_percent", "%", "4", lambda tasks: spread(greedy_rates(tasks))),
        row("figure5.on_time_percent", "%", "4", on_time_percent),
        row("figure5.response_max_ms", "ms", "4", lambda tasks: max(responses_ms(tasks))),
        row("figure6.share_error_percent", "%", "6", share_error),
        *(row(f"figure6.{kind}_rounds_per_s", "1/s", "6", rounds_per_s(kind)) for kind in NOMINAL),
        *(
            row(f"figure{figure}.greedy_rounds_per_s.{when}", "1/s", figure, slope(window))
            for figure in GREEDY
            for when, window in (("beside_players", BESIDE_S), ("after", AFTER_S))
        ),
    )


def rows_of_players() -> tuple[Row, ...]:
    def row(id: str, unit: str, figure: str, value, others=OTHERS) -> Row:
        return papers.row(f"paper004.{id}", unit, figure, value, others)

    return (
        *gap_rows("figure1", "1", "video", HOGS_S, (*OTHERS, "flat")),
        *(one for figure in GREEDY for one in gap_rows(f"figure{figure}", figure, "mpeg", STARTED_S)),
        row("figure9.frames_per_s", "1/s", "9", lambda tasks: min(frame_rates(tasks))),
        row("figure9.frames_spread_percent", "%", "9", lambda tasks: spread(frame_rates(tasks))),
        *gap_rows("figure9", "9", "mpeg", STARTED_S),
        row("figure10.frames_per_s", "1/s", "10", lambda tasks: min(frame_rates(tasks))),
        *(
            row(f"figure10.{task}_gap_max_ms", "ms", "10", lambda tasks, task=task: max(gaps_ms(tasks, task)))
            for task in ("mpeg", "radio", "greedy")
        ),
    )


def rows_of_locks() -> tuple[Row, ...]:
    def row(id: str, unit: str, figure: str, value) -> Row:
        return papers.row(f"paper004.{id}", unit, figure, value, OTHERS)

    return tuple(
        one
        for kind in LOCK_KINDS
        for one in (
            row(
                f"figure10a.tick_gap_max_ms.{kind}",
                "ms",
                f"10a.{kind}",
                lambda tasks: max(gaps_ms(tasks, "clock")),
            ),
            row(
                f"figure10a_display.frames_per_s.{kind}",
                "1/s",
                f"10a_display.{kind}",
                lambda tasks: min(frame_rates(tasks)),
            ),
            row(
                f"figure10a_display.gap_max_ms.{kind}",
                "ms",
                f"10a_display.{kind}",
                lambda tasks: max(gaps_ms(tasks, "mpeg")),
            ),
        )
    )


def gap_rows(id: str, figure: str, task: str, begin: float, others=OTHERS) -> list[Row]:
    """The times between frames from `begin` on."""
    statistics = {"p99": lambda values: percentile(values, 99), "max": max}
    return [
        papers.row(
            f"paper004.{id}.interframe_{name}_ms",
            "ms",
            figure,
            lambda tasks, of=of: of(gaps_ms(tasks, task, begin)),
            others,
        )
        for name, of in statistics.items()
    ]


def gaps_ms(tasks: Tasks, task: str, begin: float = 0.0) -> list[float]:
    return [gap for line in instances(tasks, task) for gap in line.gaps_ms(begin)]


def spread(values: list[float]) -> float:
    """By how much the largest exceeds the smallest, in percent of it."""
    return 100 * (max(values) / min(values) - 1)


def greedy_rates(tasks: Tasks) -> list[float]:
    return [tasks[f"greedy{n}"].stamps_per_s(*CROWD_S) for n in range(5)]


def responses_ms(tasks: Tasks) -> list[float]:
    """From when each periodic round is due, by its first, until it is done: of its two stamps the second."""
    return [
        1000 * (done - line.stamps[0] - number * PERIOD_S)
        for line in instances(tasks, "periodic")
        for number, done in enumerate(line.stamps[1::2])
    ]


def on_time_percent(tasks: Tasks) -> float:
    """How many of the time stamps are below 004's line, a period for each, counted from the first."""
    late = [ms for line in instances(tasks, "periodic") for _, ms in late_ms(line.stamps[1::2])]
    return 100 * sum(ms <= 1000 * PERIOD_S for ms in late) / len(late)


def share_error(tasks: Tasks) -> float:
    """How far anybody's share is from what it is to have, in percent of the CPU."""
    return max(
        abs(line.share_percent(STARTED_S, 20) - percent)
        for kind, percent in NOMINAL.items()
        for line in instances(tasks, kind)
    )


def rounds_per_s(kind: str):
    """Of a greedy program with this rate, on average."""
    return lambda tasks: mean(line.stamps_per_s(STARTED_S, 20) for line in instances(tasks, kind))


def slope(window: tuple[float, float]):
    """Rounds a second of the slowest greedy program."""
    return lambda tasks: min(line.stamps_per_s(*window) for line in instances(tasks, "greedy"))


def frame_rates(tasks: Tasks) -> list[float]:
    return [line.stamps_per_s(STARTED_S, 29) for line in instances(tasks, "mpeg")]


def plot(samples: Samples, folder) -> list[str]:
    # Only here, so that everything but plots works without matplotlib.
    from .. import plots

    def figure(name: str, title: str, panels: list[Panel], columns: int = 4) -> str:
        return plots.panels_figure(folder, f"paper-004-figure-{name}.svg", title, panels, columns)

    def each(number: str, panel, schedulers=SCHEDULERS) -> list[Panel]:
        return [panel(TITLES[it], tasks_of(samples, f"{number}.{it}")) for it in schedulers]

    def with_locks(figure: str, panel) -> list[Panel]:
        return [
            panel(f"{TITLES[it]}, {kind}", tasks_of(samples, f"{figure}.{kind}.{it}"))
            for kind in LOCK_KINDS
            for it in SCHEDULERS
        ]

    crowd = [*each("4", profiles_panel), *each("4", on_time_panel)]
    players = [*each("7a", profiles_panel), *each("7b", profiles_panel), *each("7a", gaps_panel("mpeg", 70))]
    return [
        figure("1", "Times between pictures; others begin", each("1", gaps_panel("video", 120), TITLES), 5),
        figure("4-5", "Five greedy and six periodic programs; three of these against the line", crowd),
        figure("6", "Ten greedy programs of three rates", each("6", profiles_panel)),
        figure("7-8", "Two players in GR; five, then thirteen greedy programs in FR", players),
        figure(
            "9", "Three players in OB70", [*each("9", profiles_panel), *each("9", gaps_panel("mpeg", 150))]
        ),
        figure("10", "Players, an audio receiver, greedy programs", each("10", profiles_panel)),
        figure(
            "10a",
            "Ticks of the clock's thread, and a player's frames, where others hold the lock that they need",
            [*with_locks("10a", gaps_panel("clock", 40)), *with_locks("10a_display", gaps_panel("mpeg", 70))],
        ),
    ]


# A colour for all instances of a task, so that profiles that coincide are seen to.
COLOURS = ("tab:red", "tab:blue", "tab:green", "tab:orange", "tab:purple", "tab:brown")


def profiles_panel(title: str, tasks: Tasks) -> Panel:
    lines: list[Line] = []
    kinds: list[str] = []
    for name, line in tasks.items():
        kind = name.rpartition("-")[0] or name
        # A periodic round has two stamps, of which the second says that it is done.
        stamps = line.stamps[1::2] if kind == "periodic" else line.stamps
        label = "" if kind in kinds else kind
        kinds += [kind] if label else []
        colour = COLOURS[kinds.index(kind) % len(COLOURS)]
        lines.append(Line(label, papers.profile(stamps), colour=colour))
    return Panel(title, "number of the time stamp", "s after the first", lines)


def on_time_panel(title: str, tasks: Tasks) -> Panel:
    """As Figure 5, but less the line's slope: what is seen is how far below it each round is done."""
    lines = [
        Line(f"periodic-{n}", late_ms(line.stamps[1::2])[300:400])
        for n, line in enumerate(instances(tasks, "periodic")[:3])
    ]
    limit = Line("on time", [(300, 1000 * PERIOD_S), (400, 1000 * PERIOD_S)], "--", "black")
    return Panel(title, "round x", "ms after the first, less 30 x", [*lines, limit], 70)


def late_ms(dones: list[float]) -> list[tuple[int, float]]:
    return [(number, 1000 * (done - dones[0] - number * PERIOD_S)) for number, done in enumerate(dones)]


def gaps_panel(task: str, y_max: float):
    def panel(title: str, tasks: Tasks) -> Panel:
        line = instances(tasks, task)[0]
        # What is beyond the panel is drawn at its edge, and said.
        points = papers.gaps(line)
        worst = max(gap for _, gap in points)
        drawn = [(number, min(gap, y_max)) for number, gap in points]
        return Panel(
            f"{title}: most {worst:.0f} ms", "frame", "ms since the one before", [Line("", drawn)], y_max
        )

    return panel
