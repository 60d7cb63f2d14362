# SPDX-License-Identifier: MIT OR Apache-2.0
"""Players at user level on this machine's own kernel, beside its stock scheduler and one process.

000's Figures 3.10, 3.11 and 3.15 to 3.18, on one CPU and on all. Times are this machine's; ratios are judged.
"""

from __future__ import annotations

from ..guest import PLAYER, USER_CACHE
from ..model import Experiment, Row, Run, Samples, Scheduler, Target, of
from ..workloads import Length
from .user import FEWEST, MOST, USER_LEVEL

FILM = USER_CACHE / "media" / "bunny-480x270.mp4"
PLAY = USER_CACHE / "build" / "play" / "static" / "consort-play"
WINDOW_S = 3
ROUNDS = 3
COUNTS = ",".join(str(count) for count in range(FEWEST, MOST + 1, 2))


def experiment(length: Length) -> Experiment:
    is_quick = length == Length.quick()
    seconds = str(2 if is_quick else WINDOW_S)
    rounds = str(1 if is_quick else ROUNDS)
    film = ("--film", str(FILM), "--program", str(PLAY))
    runs = (
        _run("n12", "native", "-n", str(MOST), "--rounds", rounds, "--seconds", seconds),
        _run("one_cpu", "native", "-n", COUNTS, "--seconds", seconds),
        _run("all_cpus", "native", "-n", COUNTS, "--seconds", seconds, "--all-cpus"),
        _run("films", "native", "-n", str(FEWEST), "--seconds", seconds, *film),
        _run("poll", "--cpu", "0", "poll-cost", "--polls", "1000000"),
    )
    rows = (
        Row(
            "user.native.tardiness_mean_ratio",
            "1",
            of("n12", "result.tardiness_mean_ratio"),
            Target(at_most=0.2),
        ),
        Row(
            "user.native.throughput_percent",
            "%",
            of("n12", "result.throughput_percent"),
            Target(at_least=97),
        ),
        Row(
            "user.native.all_cpus.tardiness_mean_ratio",
            "1",
            of("all_cpus", "result.tardiness_mean_ratio"),
        ),
        Row("user.native.films.tardiness_mean_ratio", "1", of("films", "result.films.tardiness_mean_ratio")),
        Row("user.native.films.throughput_percent", "%", of("films", "result.films.throughput_percent")),
        Row("user.poll_ns", "ns", of("poll", "result.ns_per_poll"), Target(at_most=60)),
    )
    return Experiment(
        "user_native", "User level, on this machine", runs, rows, plot, measures=USER_LEVEL, starts=1
    )


def _run(name: str, *words: str) -> Run:
    return Run(name, Scheduler.NATIVE, words, 60, program=PLAYER, is_timed=True)


def plot(samples: Samples, folder) -> list[str]:
    # Only here, so that everything but plots works without matplotlib.
    from .. import user_plots

    return [user_plots.sweep(samples, folder, run, where) for run, where in PLACES.items()]


# How a run's place is called in a title.
PLACES = {"one_cpu": "one CPU", "all_cpus": "all CPUs"}
