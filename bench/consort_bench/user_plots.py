# SPDX-License-Identifier: MIT OR Apache-2.0
"""Figures drawn like the thesis' of its user-level prototypes: 3.10 and 3.15, 3.16, 3.17, 3.18."""

from __future__ import annotations

from pathlib import Path

from .model import Samples
from .plots import REFERENCE_STYLES, plt, save

STYLES = {**REFERENCE_STYLES, "user": ("tab:green", "-")}
PANELS = (
    ("(a) frames shown per second, all players", lambda it: sum(p["frames_per_s"] for p in it["players"])),
    ("(b) mean tardiness, ms", lambda it: it["tardiness"]["mean_ms"]),
    ("(c) players' switches per second", lambda it: it["own_switches_per_s"]),
    ("(d) spread of frame rates, %", lambda it: it["frames_per_s_cv_percent"]),
)


def sweep(samples: Samples, folder: Path, run: str, where: str) -> str:
    """Of one place (a run's name, and how it is called), by number of players; returns the file's name."""
    rounds = samples.results(run)[0]["result"]["rounds"]
    drawing, axes = plt.subplots(1, len(PANELS) + 1, figsize=(16, 3.2))
    for axis, (title, value) in zip(axes, PANELS, strict=False):
        for name, (colour, style) in STYLES.items():
            points = [(it["players"], value(it[name])) for it in rounds if it[name]]
            if points:
                axis.plot(*zip(*points, strict=True), style, color=colour, marker=".", label=name)
        axis.set_title(title, fontsize=9)
    played = [(it["players"], it["user"]) for it in rounds if it["user"]["handovers_per_s"]]
    yields = [(players, it["handovers_per_s"]) for players, it in played]
    ratios = [(players, it["own_switches_per_s"] / it["handovers_per_s"]) for players, it in played]
    axes[-1].plot(*zip(*yields, strict=True), color="tab:green", marker=".")
    axes[-1].set_title("(e) yields per second; dashed: switches per yield", fontsize=9)
    beside = axes[-1].twinx()
    beside.plot(*zip(*ratios, strict=True), "--", color="tab:red", marker=".")
    beside.set_ylim(bottom=0)
    for axis in axes:
        axis.set_xlabel("players")
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize=7)
    figures = "drawn like Figures 3.10 and 3.15 to 3.18 of the thesis"
    title = f"User level on this machine's own kernel, {where} ({figures})"
    drawing.suptitle(title, fontsize=10)
    return save(drawing, folder, f"user-level-{run.replace('_', '-')}.svg")
