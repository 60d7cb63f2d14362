# SPDX-License-Identifier: MIT OR Apache-2.0
"""A GStreamer application under a group file (003's future work): how many of its frames come late.

It is gst-launch-1.0, as the distribution has it; a frame is late if GStreamer itself drops it for that. Under
EEVDF it has what any program has, and, fairer, cgroups that promise it the same rate.
"""

import shutil
import subprocess
from pathlib import Path

from ..commits import RESERVATIONS
from ..guest import ROOT, USER_CACHE
from ..model import Experiment, GuestFile, Row, Run, Scheduler, Target, of
from ..workloads import Length
from .heavy import under_heavy_load
from .rates import BY_CGROUPS, OVERHEAD_S, PROGRAM

MAKER = "install the packages gstreamer1.0-tools and gstreamer1.0-plugins-base, or run tools/setup"
LAUNCH = Path(shutil.which("gst-launch-1.0") or "/usr/bin/gst-launch-1.0")
PLUGINS = ("coreelements", "ogg", "theora")
GROUPS = "/launch.toml"
FILM = "/film.ogv"
FRAMES = 480
FILM_S = 20
RATE = "guaranteed=0.45"
# What a video sink tolerates; fakesink counts as one of them does.
LATE_NS = 5_000_000
PIPELINE = (
    f"filesrc location={FILM} ! oggdemux name=read ! theoradec"
    " ! queue name=show max-size-buffers=8 max-size-bytes=0 max-size-time=0"
    f" ! fakesink sync=true qos=true max-lateness={LATE_NS} silent=false"
)


def plugins_folder() -> Path:
    asked = ["pkg-config", "--variable=pluginsdir", "gstreamer-1.0"]
    try:
        said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        # Where Debian has it: what is missing is told when it is needed.
        said = "/usr/lib/x86_64-linux-gnu/gstreamer-1.0"
    return Path(said.strip())


def files() -> tuple[GuestFile, ...]:
    plugins = [plugins_folder() / f"libgst{name}.so" for name in PLUGINS]
    return (
        *(GuestFile(path, str(path), MAKER) for path in (LAUNCH, *plugins)),
        GuestFile(USER_CACHE / "media/bunny-768x432.ogv", FILM, "run apps/play/fetch-media"),
        GuestFile(ROOT / "apps/gstreamer/launch.toml", GROUPS, "it is part of the source"),
    )


def experiment(_length: Length) -> Experiment:
    """Always the whole film."""
    carried = files()

    def play(name: str, scheduler: Scheduler, *words: str) -> Run:
        words = ("gstreamer", "--frames", str(FRAMES), *words)
        command = (str(LAUNCH), "-v", "-m", *PIPELINE.split())
        made = Run(
            name, scheduler, (*words, "--", *command), FILM_S + OVERHEAD_S, program=PROGRAM, files=carried
        )
        return under_heavy_load(made) if name.startswith("heavy.") else made

    ours = ("--groups", GROUPS)
    cgroups = (*BY_CGROUPS, "--promised", RATE)
    runs = (
        play("heavy.consort", Scheduler.CONSORT, *ours),
        play("light.consort", Scheduler.CONSORT, *ours),
        play("heavy.eevdf", Scheduler.EEVDF),
        play("heavy.eevdf_cgroups", Scheduler.EEVDF, *cgroups),
        play("light.eevdf", Scheduler.EEVDF),
    )
    rows = (
        Row(
            "gstreamer.heavy.late_frames_percent",
            "%",
            of("heavy.consort", "late_percent"),
            Target(at_most=0.5),
            {
                "eevdf": of("heavy.eevdf", "late_percent"),
                "eevdf_cgroups": of("heavy.eevdf_cgroups", "late_percent"),
            },
        ),
        Row(
            "gstreamer.light.late_frames_percent",
            "%",
            of("light.consort", "late_percent"),
            Target(),
            {"eevdf": of("light.eevdf", "late_percent")},
        ),
    )
    title = "A GStreamer application under a group file"
    measures = (*RESERVATIONS, "groups", "apps/gstreamer/launch.toml")
    return Experiment("gstreamer", title, runs, rows, measures=measures, starts=1)
