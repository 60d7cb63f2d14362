# SPDX-License-Identifier: MIT OR Apache-2.0
"""001's Tables 4.3 and 4.4 and Figures 4.7 to 4.9 in the guest, with a player that is not changed.

It is ffplay, as the distribution has it. It decodes in software, and SDL shows its pictures nowhere; when it
shows one, the kernel notes from outside. docs/papers.md is the chapter.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from .. import papers
from ..commits import RESERVATIONS
from ..guest import GUEST_CONSORT, USER_CACHE
from ..model import Experiment, GuestFile, Missing, Row, Run, Samples, Scheduler, Settings, of
from ..papers import Line, Panel, Tasks
from ..timeline import Timeline
from ..workloads import Length
from . import paper_001 as simulated
from .rates import BY_CGROUPS, run

SCHEDULERS = ("coop", "eevdf")
TITLES = simulated.TITLES
FFPLAY = GuestFile(Path("/usr/bin/ffplay"), "/bin/ffplay", "install the package ffmpeg, or run tools/setup")
FILM = GuestFile(USER_CACHE / "media/bunny-608x342.mp4", "/film.mp4", "run apps/play/fetch-media")
# By this ffplay hands a new picture over, which it shows at once. (SDL without a screen wants RGB.)
SDL = ("--library", "/usr/lib/x86_64-linux-gnu/libSDL2-2.0.so.0", "--function", "SDL_UpdateTexture")
# No sound; each frame is shown, however late, as 001's player does.
PLAY = ("env", "SDL_VIDEODRIVER=dummy", FFPLAY.guest_path, "-loglevel", "error", "-nostats")
PLAY += ("-an", "-sync", "video", "-threads", "1", "-autoexit")
RATE = 30
FILM_S, SHORT_S = 12, 4
# The one with which the last second ends belongs to it.
FRAMES = FILM_S * RATE + 1
# Starting takes the player so much CPU time; and a bit for the rest.
START_S, END_S = 1.5, 2
CAPACITY = 75
CLASSES = f"[class.guaranteed]\ncapacity = '{CAPACITY}%'\n"
DIVISION = ("--classes", "guaranteed=0.75,flexible=0.25")
# What a frame costs, to say how long a run lasts.
FRAME_S = 0.0135
# The run that is done once more while the kernel merges pages.
MERGED = 50


def experiment(_length: Length) -> Experiment:
    """Always the whole length: it is the tables' own."""
    runs = [beside(it, hogs) for it in SCHEDULERS for hogs in simulated.LOADS]
    runs += [reserved(it, percent) for it in SCHEDULERS for percent in simulated.RATES]
    runs += [replace(merged(it), name=f"merged.{it}") for it in SCHEDULERS]
    runs.append(player("short", "eevdf", 1, film_s=SHORT_S))
    title = "001's player, in the guest"
    return Experiment(
        "paper_001_ffplay",
        title,
        tuple(runs),
        tuple(rows()),
        plot,
        starts=1,
        runs_per_guest=3,
        measures=(*RESERVATIONS, "apps/play"),
    )


def player(
    name: str,
    scheduler: str,
    share: float,
    *words: str,
    reserve: tuple[str, ...] = (),
    film_s: int = FILM_S,
) -> Run:
    """The player, with so much of the CPU if others want it too."""
    is_ours = scheduler == "coop"
    made = run(
        f"{name}.{scheduler}",
        Scheduler.CONSORT if is_ours else Scheduler.EEVDF,
        max(film_s, film_s * RATE * FRAME_S / share) + START_S / share + END_S,
        *("external", *DIVISION, *(() if is_ours else BY_CGROUPS), *SDL, *words),
        *("--", *reserve, *PLAY, "-t", str(film_s), FILM.guest_path),
        settings=Settings(classes=CLASSES if is_ours else "", huge_pages=False),
    )
    return replace(made, files=(FFPLAY, FILM))


def beside(scheduler: str, hogs: int) -> Run:
    return player(f"4.3.n{hogs}", scheduler, 1 / (1 + hogs), "--hogs", str(hogs))


def reserved(scheduler: str, percent: int) -> Run:
    """The player with a part of the CPU, beside a loop with the class' rest and one without a promise."""
    words = ("--beside", f"guaranteed={(CAPACITY - percent) / 100}", "--hogs", "1")
    name, share = f"4.4.r{percent}", percent / 100
    if scheduler == "coop":
        rate = ("--class", "guaranteed", "--rate", str(share), "--period", "33ms", "--")
        return player(name, scheduler, share, *words, reserve=(GUEST_CONSORT, "run", *rate))
    return player(name, scheduler, share, *words, "--promised", f"guaranteed={share}")


def merged(scheduler: str) -> Run:
    """With the kernel's usual setting, by which it merges pages of the player's."""
    usual = reserved(scheduler, MERGED)
    return replace(usual, settings=replace(usual.settings, huge_pages=True))


def rows() -> list[Row]:
    def of_player(id: str, unit: str, run: str, value) -> Row:
        def under(scheduler: str):
            return lambda samples: value({"player": shown(samples, f"{run}.{scheduler}")})

        return Row(f"paper001.guest.{id}", unit, under("coop"), against={"eevdf": under("eevdf")})

    made = [Row("paper001.guest.player.frame_cost_ms", "ms", frame_cost_ms)]
    for table, figure, names in (
        ("4.3", "4.7", [f"n{hogs}" for hogs in simulated.LOADS]),
        ("4.4", "4.8", [f"r{percent}" for percent in simulated.RATES]),
    ):
        for name in names:
            run = f"{table}.{name}"
            made.append(of_player(f"table{run}.frames_per_s", "1/s", run, simulated.frames))
            made.append(of_player(f"figure{figure}.{name}.late_p90_ms", "ms", run, late_p90))
            made.append(of_player(f"figure{figure}.{name}.late_max_ms", "ms", run, simulated.late_max))
    made.append(of_player("merged_pages.frames_per_s", "1/s", "merged", simulated.frames))
    made.append(of_player("merged_pages.late_max_ms", "ms", "merged", simulated.late_max))
    return made


def frame_cost_ms(samples: Samples) -> float:
    """Between two lengths of the film, so that starting does not count."""
    more_s = of("4.3.n0.eevdf", "cpu_s")(samples) - of("short.eevdf", "cpu_s")(samples)
    return 1000 * more_s / ((FILM_S - SHORT_S) * RATE)


def late_p90(tasks: Tasks) -> float:
    """What nine of ten do not exceed: one of thirty is an intra picture, and costs as much as several."""
    return papers.percentile(simulated.late_ms(tasks), 90)


def shown(samples: Samples, name: str) -> Timeline:
    """When each frame was shown."""
    stamps = [called / 1e6 for called in samples.results(name)[0]["called_us"]]
    if len(stamps) != FRAMES:
        raise Missing(f"{name}: {len(stamps)} frames were shown, expected {FRAMES}")
    return Timeline(stamps=stamps)


def plot(samples: Samples, folder) -> list[str]:
    # Only here, so that everything but plots works without matplotlib.
    from .. import plots

    panels = [*late_panels(samples), *frames_panels(samples)]
    name, title = "paper-001-guest-figure-4.7-4.9.svg", "In the guest: ffplay's frames"
    return [plots.panels_figure(folder, name, title, panels)]


def late_panels(samples: Samples) -> list[Panel]:
    panels = []
    for number, keys, label in (
        ("4.3", {f"n{n}": f"beside {n}" for n in (0, 2, 4)}, "no reservation"),
        ("4.4", {f"r{percent}": f"{percent} %" for percent in simulated.RATES}, "reserved"),
    ):
        for scheduler in SCHEDULERS:
            lines = []
            for key, text in keys.items():
                late = simulated.late_ms({"player": shown(samples, f"{number}.{key}.{scheduler}")})
                lines.append(Line(text, list(enumerate(late, start=1))))
            panels.append(Panel(f"{TITLES[scheduler]}: {label}", "frame", "ms late", lines, 120))
    return panels


def frames_panels(samples: Samples) -> list[Panel]:
    panels = []
    for scheduler in SCHEDULERS:
        lines = []
        for index, (key, text) in enumerate(simulated.COMPARED.items()):
            stamps = shown(samples, f"{key}.{scheduler}").stamps
            over_time = [(at - stamps[0], number) for number, at in enumerate(stamps, start=1)]
            lines.append(Line(text, papers.thinned(over_time), "--" if index % 2 else "-", f"C{index // 2}"))
        panels.append(Panel(TITLES[scheduler], "s", "frames shown", lines))
    return panels
