# SPDX-License-Identifier: MIT OR Apache-2.0
"""003's chapter 5: a film through a pipeline of threads and an X server, which a group file schedules.

Self-timed (ST) is what the program does without Consort: its display sleeps until a frame is due. RD (with
transforms RTD) is the program's threads as a group with a plan, RDX (RTDX) the X server, too. FDTE-S is how
far from its time the display began to hand a frame to the server, FDTE-C how far from it the server blocked
afterwards, which is the latest that the frame was shown. docs/papers.md is the chapter.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..commits import RESERVATIONS
from ..guest import USER_CACHE
from ..model import (
    Experiment,
    Extract,
    GuestFile,
    Row,
    Run,
    Samples,
    Scheduler,
    Settings,
    Target,
    of,
    over,
    reading,
)
from ..papers import Line, Panel
from ..workloads import Length
from .heavy import under_heavy_load
from .rates import BY_CGROUPS, run

PIPELINE = GuestFile(
    USER_CACHE / "build/pipeline/window/consort-pipeline",
    "/bin/consort-pipeline",
    "make pipeline-window makes it",
    ("make", "pipeline-window"),
)
XVFB = "/usr/bin/Xvfb"
DISPLAY_FILES = tuple(
    GuestFile(Path(path), path, "install the package xvfb, or run tools/setup")
    for path in (XVFB, "/usr/bin/xkbcomp", "/usr/share/X11/xkb")
)
FILM = GuestFile(USER_CACHE / "media/bunny-480x270.mp4", "/film.mp4", "run apps/play/fetch-media")
FILES = (PIPELINE, *DISPLAY_FILES, FILM)
# 003's; and what a quick look shows.
FRAMES, QUICK_FRAMES = 1970, 240
PACE = 24
STAGES_MAX = 4
RATE = "guaranteed=0.5"
# A film that needs more than it has promised, beside somebody who has reserved, too.
LESS, BESIDE = "guaranteed=0.35", "guaranteed=0.15"
# Each of two films.
HALF = "guaranteed=0.25"
LOADS = ("light", "heavy")
# As over a network: less than the frames that wait before the first is shown.
JITTER_MS = "80"
# The server starts, the film is opened, and the group is applied.
START_S = 4
DETAILED_MS, BINS = 5.0, 60
ONE = Settings(huge_pages=False)
# Four CPUs that share one's time: a frame takes each of them four times as long.
FOUR = replace(ONE, cpus=4)
FOUR_PACE = PACE // 4


def application(stages: int) -> str:
    return f"pipeline{stages}" if stages else "playback"


def experiment(length: Length) -> Experiment:
    frames = QUICK_FRAMES if length == Length.quick() else FRAMES
    runs = [
        played(application(stages), stages, load, control, frames)
        for stages in range(STAGES_MAX + 1)
        for load in LOADS
        for control in ("st", "st_cgroups", "rd", "rdx")
    ]
    runs += [
        with_words(played("beside", STAGES_MAX, "heavy", control, frames, promised=LESS), "--beside", BESIDE)
        for control in ("st_cgroups", "rdx")
    ]
    runs += [
        with_words(played("two", 0, "heavy", control, frames, promised=HALF), "--films", "2")
        for control in ("st", "st_cgroups", "rdx")
    ]
    runs += [
        played("four", 0, "heavy", control, frames // 4, settings=FOUR, pace=FOUR_PACE)
        for control in ("st", "st_cgroups", "rdx")
    ]
    runs += [
        with_words(played("arrivals", 0, "heavy", control, frames), "--jitter-ms", JITTER_MS)
        for control in ("st", "st_cgroups", "rdx")
    ]
    title = "A pipeline and its display server as a group"
    measures = (*RESERVATIONS, "groups", "apps/pipeline")
    return Experiment(
        "groups", title, tuple(runs), rows(), plot, measures=measures, starts=1, runs_per_guest=1
    )


def with_words(run: Run, *words: str) -> Run:
    return replace(run, arguments=(*run.arguments[:1], *words, *run.arguments[1:]))


def played(
    name: str,
    stages: int,
    load: str,
    control: str,
    frames: int,
    promised: str = RATE,
    pace: int = PACE,
    settings: Settings = ONE,
) -> Run:
    is_ours = control in ("rd", "rdx")
    words = {
        "st": ("--control", "none"),
        "st_cgroups": ("--control", "none", "--promised", promised, *BY_CGROUPS),
        "rd": ("--control", "threads", "--promised", promised),
        "rdx": ("--control", "server", "--promised", promised),
    }[control]
    made = run(
        f"{name}.{load}.{control}",
        Scheduler.CONSORT if is_ours else Scheduler.EEVDF,
        frames / pace + START_S,
        *("pipeline", *words, "--transforms", str(stages), "--frames", str(frames)),
        *("--pace", str(pace), "--server", XVFB, "--", PIPELINE.guest_path, FILM.guest_path),
        settings=settings,
    )
    made = replace(made, files=FILES)
    return under_heavy_load(made) if load == "heavy" else made


def rows() -> tuple[Row, ...]:
    def against(name: str, path: str) -> dict[str, Extract]:
        return {
            "eevdf": of(f"{name}.st", path),
            "eevdf_cgroups": of(f"{name}.st_cgroups", path),
        }

    def row(id: str, name: str, path: str, most: float | None = None, control: str = "rdx") -> Row:
        target = Target(at_most=most) if most else Target()
        return Row(f"groups.{id}", "ms", of(f"{name}.{control}", path), target, against(name, path))

    heavy = "playback.heavy"
    made = [
        worst("groups.playback.heavy.fdte_s_p95_ms", heavy, "submission.p95_ms", 0.5, against),
        worst("groups.playback.heavy.fdte_s_max_ms", heavy, "submission.max_ms", 1.5, against),
        row("playback.heavy.fdte_c_p99_ms", heavy, "completion.p99_ms", 1.5),
        row("playback.heavy.fdte_c_max_ms", heavy, "completion.max_ms", 3),
        row("pipeline4.heavy.fdte_c_p95_ms", "pipeline4.heavy", "completion.p95_ms", 2),
        over_light("playback"),
        over_light("pipeline4"),
        row("smp4.playback.heavy.fdte_s_p95_ms", "four.heavy", "submission.p95_ms"),
        row("smp4.playback.heavy.fdte_c_p99_ms", "four.heavy", "completion.p99_ms"),
        row("two.heavy.fdte_s_p95_ms", "two.heavy", "submission.p95_ms"),
        row("two.heavy.fdte_c_p99_ms", "two.heavy", "completion.p99_ms"),
        row("arrivals.heavy.fdte_s_p95_ms", "arrivals.heavy", "submission.p95_ms"),
        row("arrivals.heavy.fdte_c_p99_ms", "arrivals.heavy", "completion.p99_ms"),
        Row(
            "groups.others_share_error_percent",
            "%",
            share_error("rdx"),
            Target(at_most=0.5),
            {"eevdf_cgroups": share_error("st_cgroups")},
        ),
        Row(
            "groups.frames_shown_percent",
            "%",
            shown_percent("rd", "rdx"),
            Target(at_least=100),
            {"eevdf": shown_percent("st"), "eevdf_cgroups": shown_percent("st_cgroups")},
        ),
    ]
    for name in map(application, range(STAGES_MAX + 1)):
        for load in LOADS:
            for control in ("rd", "rdx"):
                for metric, path in (("fdte_s", "submission"), ("fdte_c", "completion")):
                    id = f"{name}.{load}.{control}.{metric}_mean_ms"
                    made.append(row(id, f"{name}.{load}", f"{path}.mean_ms", control=control))
    return tuple(made)


def worst(id: str, name: str, path: str, most: float, against) -> Row:
    """Of the group without the server and with it."""
    both = f"{name}.rd", f"{name}.rdx"
    value = reading(both, lambda samples: max(samples.value(it, path) for it in both))
    return Row(id, "ms", value, Target(at_most=most), against(name, path))


def over_light(name: str) -> Row:
    """When frames are shown beside heavy load, on average, over when they are beside nothing."""

    def ratio(control: str) -> Extract:
        return over(f"{name}.heavy.{control}", f"{name}.light.{control}", "completion.mean_ms")

    against = {"eevdf": ratio("st"), "eevdf_cgroups": ratio("st_cgroups")}
    return Row(f"groups.{name}.heavy_over_light_ratio", "ratio", ratio("rdx"), Target(at_most=1.1), against)


def share_error(control: str) -> Extract:
    """What the loop beside the film lacked in its worst second, of all the CPU."""
    name = f"beside.heavy.{control}"

    def lacked(samples: Samples) -> float:
        others = samples.results(name)[0]["others"]
        return max(max(0.0, 100 * (it["worth"] - it["least"])) for it in others)

    return reading((name,), lacked)


def shown_percent(*controls: str) -> Extract:
    """Frames that were shown before the next was due, of all: where they were the fewest."""
    names = [f"{application(stages)}.heavy.{it}" for stages in range(STAGES_MAX + 1) for it in controls]

    def least(samples: Samples) -> float:
        return min(100 * samples.value(it, "in_time") / samples.value(it, "frames") for it in names)

    return reading(tuple(names), least)


def plot(samples: Samples, folder) -> list[str]:
    # Only here, so that everything but plots works without matplotlib.
    from .. import plots

    made = []
    for figures, name, load, title in (
        ("5.1-5.6", "playback", "light", "Timed playback, light load"),
        ("5.7-5.12", "playback", "heavy", "Timed playback, heavy load"),
        ("5.13-5.18", "pipeline1", "heavy", "Transformation pipeline, heavy load"),
    ):
        file = f"paper-003-figure-{figures}.svg"
        made.append(plots.panels_figure(folder, file, title, panels(samples, f"{name}.{load}")))
    return made


def panels(samples: Samples, name: str) -> list[Panel]:
    """All values, and those below five milliseconds: 003's high-level and detailed views."""
    made = []
    for metric, key in (("FDTE-S", "submission_us"), ("FDTE-C", "completion_us")):
        errors = {
            control: [us / 1000 for us in samples.results(f"{name}.{control}")[0][key]]
            for control in ("st", "rd", "rdx")
        }
        most = max(max(values, default=0) for values in errors.values())
        for end in (most, DETAILED_MS):
            for control, values in errors.items():
                title = f"{metric} {control.upper()}: {len(values)}, at most {max(values, default=0):.2f} ms"
                made.append(Panel(title, "ms", "frames", [Line("", histogram(values, end))]))
    return made


def histogram(values: list[float], end: float) -> list[tuple[float, float]]:
    """The outline of so many bars; what lies beyond is in none."""
    counts = [0] * BINS
    for value in values:
        bin = int(value / end * BINS) if end else 0
        # The greatest belongs to the last bar.
        if value <= end:
            counts[min(bin, BINS - 1)] += 1
    outline = []
    for bin, count in enumerate(counts):
        outline += [(bin * end / BINS, count), ((bin + 1) * end / BINS, count)]
    return outline
