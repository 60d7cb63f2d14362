# SPDX-License-Identifier: MIT OR Apache-2.0
"""Real video: ten consort-play processes on a CPU that has time for six, against one that plays all ten."""

from __future__ import annotations

from ..commits import COOPERATION
from ..guest import USER_CACHE
from ..model import Experiment, GuestFile, Row, Run, Samples, Scheduler, Target, of
from ..workloads import Length

PLAYERS = 10
# Before the first frame is due, before the window, and after it; and to end.
OVERHEAD_S = 11
FILM = GuestFile(USER_CACHE / "media/bunny-480x270.mp4", "/film.mp4", "run apps/play/fetch-media")
PLAY = GuestFile(
    USER_CACHE / "build/play/static/consort-play", "/bin/consort-play", "run make -C apps/play static"
)
MODES = {"eevdf": "plain", "ideal": "monolithic", "coop": "coop"}


def experiment(length: Length) -> Experiment:
    runs = tuple(_films(name, mode, length) for name, mode in MODES.items())
    others = ("eevdf", "ideal")

    def row(statistic: str, path: str, unit: str) -> Row:
        return Row(f"play.n10.{statistic}", unit, of("coop", path), against={o: of(o, path) for o in others})

    rows = (
        Row(
            "play.n10.tardiness_ratio",
            "ratio",
            _to_ideal("coop"),
            Target(at_most=1.1),
            {"eevdf": _to_ideal("eevdf")},
        ),
        row("tardiness_mean_ms", "tardiness.mean_ms", "ms"),
        row("tardiness_p99_ms", "tardiness.p99_ms", "ms"),
        row("tardiness_max_ms", "tardiness.max_ms", "ms"),
        row("frames_per_s_sum", "frames_per_s_sum", "1/s"),
        row("frames_per_s_cv_percent", "frames_per_s_cv_percent", "%"),
        row("switches_per_s", "switches_per_s", "1/s"),
    )
    return Experiment("play", "Real video", runs, rows, measures=(*COOPERATION, "apps/play"))


def _films(name: str, mode: str, length: Length) -> Run:
    scheduler = Scheduler.CONSORT if mode == "coop" else Scheduler.EEVDF
    words = ("films", "--mode", mode, "-n", str(PLAYERS), "--seconds", str(length.seconds))
    return Run(
        name,
        scheduler,
        (*words, "--seed", "{seed}", "--film", FILM.guest_path),
        length.seconds + OVERHEAD_S,
        moving=("polls",) if mode == "coop" else (),
        files=(PLAY, FILM),
    )


def _to_ideal(run: str):
    """Mean tardiness as a multiple of that of one process that plays the same films."""

    def value(samples: Samples) -> float:
        return samples.value(run, "tardiness.mean_ms") / samples.value("ideal", "tardiness.mean_ms")

    return value
