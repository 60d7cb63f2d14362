# SPDX-License-Identifier: MIT OR Apache-2.0
"""004's Figures 1 and 4 to 10 in the guest: the simulator's scenarios, carried out by processes.

consort-play stands for mpeg2play, and the receiver's packets come over loopback. docs/papers.md is the
chapter.
"""

from __future__ import annotations

from .. import papers
from ..commits import RESERVATIONS
from ..guest import USER_CACHE
from ..model import Experiment, GuestFile, Row, Samples
from ..papers import Panel, Tasks, instances, tasks_of
from ..workloads import Length
from . import paper_004 as simulated
from .play import PLAY

SCHEDULERS = ("coop", "eevdf")
TITLES = {**simulated.TITLES, "deadline": "SCHED_DEADLINE"}
FILM = GuestFile(USER_CACHE / "media/bunny-568x320.mp4", "/film.mp4", "run apps/play/fetch-media")
# Figure 7's players with nobody beside them: what their film is like.
ALONE = "7.alone"
# A packet that is not done with so long after it was sent is not there when its sound is.
BUFFER_S = 0.02


def experiment(_length: Length) -> Experiment:
    """Always the whole length: it is the figures' own."""
    first = papers.load("004-figure-01")
    runs = [papers.in_guest("1", it, first) for it in (*SCHEDULERS, "flat", "deadline")]
    runs += [papers.in_guest("4", it, papers.load("004-figure-04")) for it in SCHEDULERS]
    runs += [papers.in_guest("6", it, papers.load("004-figure-06")) for it in SCHEDULERS]
    runs.append(papers.in_guest("6", "deadline", papers.load("004-figure-06")))
    for figure, name, more in (
        (ALONE, "07a", ()),
        ("7a", "07a", ()),
        ("7b", "07b", ()),
        ("9", "09", ()),
        ("10", "10", ("--receiver", "radio")),
    ):
        options = ("--player", "mpeg", "--film", FILM.guest_path, *more)
        scenario = papers.load(f"004-figure-{name}")
        if figure == ALONE:
            del scenario["tasks"]["greedy"]
        runs += [papers.in_guest(figure, it, scenario, *options, files=(PLAY, FILM)) for it in SCHEDULERS]
    rows = (*rows_of_shares(), *rows_of_players())
    title = "004's figures, in the guest"
    return Experiment(
        "paper_004_guest",
        title,
        tuple(runs),
        rows,
        plot,
        starts=1,
        runs_per_guest=3,
        measures=(*RESERVATIONS, "sim/papers"),
    )


def row(id: str, unit: str, figure: str, value, others=("eevdf",)) -> Row:
    return papers.row(f"paper004.guest.{id}", unit, figure, value, others)


DEADLINE = ("eevdf", "deadline")


def rows_of_shares() -> tuple[Row, ...]:
    def least(tasks: Tasks) -> float:
        return min(simulated.greedy_rates(tasks))

    def spread(tasks: Tasks) -> float:
        return simulated.spread(simulated.greedy_rates(tasks))

    return (
        row("figure4.greedy_rounds_per_s", "1/s", "4", least),
        row("figure4.greedy_rounds_spread_percent", "%", "4", spread),
        row("figure5.on_time_percent", "%", "4", simulated.on_time_percent),
        row("figure5.response_max_ms", "ms", "4", lambda tasks: max(simulated.responses_ms(tasks))),
        row("figure6.share_error_percent", "%", "6", simulated.share_error),
        *(
            row(f"figure6.{kind}_rounds_per_s", "1/s", "6", simulated.rounds_per_s(kind), DEADLINE)
            for kind in simulated.NOMINAL
        ),
        *(
            row(f"figure{figure}.greedy_rounds_per_s.{when}", "1/s", figure, simulated.slope(window))
            for figure in simulated.GREEDY
            for when, window in (("beside_players", simulated.BESIDE_S), ("after", simulated.AFTER_S))
        ),
    )


def rows_of_players() -> tuple[Row, ...]:
    def frames(tasks: Tasks) -> float:
        return min(simulated.frame_rates(tasks))

    def spread(tasks: Tasks) -> float:
        return simulated.spread(simulated.frame_rates(tasks))

    def longest(task: str):
        return lambda tasks: max(simulated.gaps_ms(tasks, task))

    return (
        *gap_rows("figure1", "1", "video", simulated.HOGS_S, ("eevdf", "flat", "deadline")),
        *(row for figure in (ALONE, *simulated.GREEDY) for row in player_rows(figure)),
        row("figure9.frames_per_s", "1/s", "9", frames),
        row("figure9.frames_spread_percent", "%", "9", spread),
        *gap_rows("figure9", "9", "mpeg", simulated.STARTED_S),
        row("figure10.frames_per_s", "1/s", "10", frames),
        *(
            row(f"figure10.{task}_gap_max_ms", "ms", "10", longest(task))
            for task in ("mpeg", "radio", "greedy")
        ),
        row("figure10.radio_done_max_ms", "ms", "10", lambda tasks: 1000 * max(tasks["radio"].answers)),
        row("figure10.radio_dropouts", "count", "10", dropouts),
    )


def player_rows(figure: str) -> list[Row]:
    """The frames a second until a player has shown all of its film."""
    return [
        row(
            f"figure{figure}.frames_per_s",
            "1/s",
            figure,
            lambda tasks: min(line.stamps_per_s(*simulated.BESIDE_S) for line in instances(tasks, "mpeg")),
        ),
        *gap_rows(f"figure{figure}", figure, "mpeg", simulated.STARTED_S),
    ]


def gap_rows(id: str, figure: str, task: str, begin: float, others=("eevdf",)) -> list[Row]:
    """The times between frames from `begin` on."""

    def p99(tasks: Tasks) -> float:
        return papers.percentile(simulated.gaps_ms(tasks, task, begin), 99)

    def longest(tasks: Tasks) -> float:
        return max(simulated.gaps_ms(tasks, task, begin))

    return [
        row(f"{id}.interframe_{name}_ms", "ms", figure, value, others)
        for name, value in (("p99", p99), ("max", longest))
    ]


def dropouts(tasks: Tasks) -> float:
    """Packets whose sound was not there when it was to be heard."""
    return float(sum(answer > BUFFER_S for answer in tasks["radio"].answers))


def plot(samples: Samples, folder) -> list[str]:
    # Only here, so that everything but plots works without matplotlib.
    from .. import plots

    def figure(name: str, title: str, panels: list[Panel], columns: int = 4) -> str:
        title = f"In the guest: {title}"
        return plots.panels_figure(folder, f"paper-004-guest-figure-{name}.svg", title, panels, columns)

    def each(number: str, panel, schedulers=SCHEDULERS) -> list[Panel]:
        return [panel(TITLES[it], tasks_of(samples, f"{number}.{it}")) for it in schedulers]

    profiles, gaps = simulated.profiles_panel, simulated.gaps_panel
    crowd = [*each("4", profiles), *each("6", profiles)]
    players = [*each("7a", profiles), *each("7b", profiles)]
    players += [*each("7a", gaps("mpeg", 150)), *each("7b", gaps("mpeg", 150))]
    others = each("1", gaps("video", 120), (*SCHEDULERS, "flat", "deadline"))
    return [
        figure("1", "times between pictures; others begin", others),
        figure("4-6", "greedy and periodic programs; greedy ones of three rates", crowd),
        figure("7-8", "two consort-play in GR; five, then thirteen greedy programs in FR", players),
        figure("9", "three consort-play in OB70", [*each("9", profiles), *each("9", gaps("mpeg", 150))]),
        figure("10", "players, a receiver over loopback, greedy programs", each("10", profiles)),
    ]
