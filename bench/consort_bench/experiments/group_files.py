# SPDX-License-Identifier: MIT OR Apache-2.0
"""What group files cost: applying them, functions of the user's own, and what threads tell these."""

from __future__ import annotations

from dataclasses import replace

from ..commits import RESERVATIONS
from ..guest import CONSORT, PLAYER, ROOT
from ..model import Experiment, GuestFile, Row, Run, Samples, Scheduler, Settings, Target, of, reading
from ..workloads import Length
from .rates import run

MEMBERS = 1000
SWAPS, QUICK_SWAPS = 10_000, 20
# What one takes: two processes, and the kernel's verification, for which the user pays.
SWAP_S = 0.1
PATIENT = Settings(classes="[limits]\ncpu_percent = 90\n")
BUILT = ROOT / "target" / "bench-functions"


def function(name: str, source: str) -> GuestFile:
    """The object of a decision function."""
    made = BUILT / f"{name}.o"
    words = f"mkdir -p {BUILT} && {CONSORT.path} df build --quiet {ROOT / source} -o {made}"
    return GuestFile(made, f"/{name}.o", f"bench/run builds it: {words}", ("sh", "-c", words))


IN_TURNS = function("in_turns", "bench/rates/functions/in_turns.c")
# Small ones, that the kernel has soon verified: so many swaps are made.
NEXT = function("next", "bench/rates/functions/next.c")
PREVIOUS = function("previous", "bench/rates/functions/previous.c")


def experiment(length: Length) -> Experiment:
    swaps = QUICK_SWAPS if length == Length.quick() else SWAPS

    def made(name: str, guest_s: float, *words: str, settings: Settings = PATIENT) -> Run:
        ours = run(name, Scheduler.CONSORT, guest_s, *words, settings=settings)
        return replace(ours, files=(IN_TURNS, NEXT, PREVIOUS))

    own = ("--object", IN_TURNS.guest_path)
    objects = f"{NEXT.guest_path},{PREVIOUS.guest_path}"
    runs = (
        made("apply", 2, "apply", "--members", str(MEMBERS)),
        made("fair", 4, "group-switches", "--decides", "fair", *own),
        made("own", 4, "group-switches", "--decides", "own", *own),
        made("swaps", swaps * SWAP_S, "swaps", "--objects", objects, "--swaps", str(swaps)),
        Run("publish", Scheduler.NATIVE, ("state-publish",), 5, program=PLAYER, is_timed=True),
    )
    rows = (
        Row(
            "df.user_pick_ratio",
            "ratio",
            reading(("own", "fair"), pick_ratio),
            Target(at_most=1.3),
        ),
        Row(
            "df.user_switch_us",
            "us",
            of("own", "us_per_switch"),
            against={"fair": of("fair", "us_per_switch")},
        ),
        Row("df.swap_unanswered", "choices", of("swaps", "missing"), Target(at_most=0)),
        Row("df.swap_asked", "choices", of("swaps", "asked")),
        Row("state.publish_ns", "ns", of("publish", "result.publish_ns"), Target(at_most=50)),
        Row("apply.ms", "ms", of("apply", "apply_ms"), Target(at_most=100)),
        Row("apply.again_ms", "ms", of("apply", "again_ms")),
    )
    measures = (*RESERVATIONS, "groups", "df")
    title = "Group files and decision functions"
    return Experiment("group_files", title, runs, rows, measures=measures, starts=1, runs_per_guest=1)


def pick_ratio(samples: Samples) -> float:
    return samples.value("own", "us_per_switch") / samples.value("fair", "us_per_switch")
