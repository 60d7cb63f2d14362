# SPDX-License-Identifier: MIT OR Apache-2.0
"""Figures drawn like the thesis' (players on the x axis, a line for each period), and like papers'."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
# The same samples give the same file to the byte.
matplotlib.rcParams["svg.hashsalt"] = "consort"
matplotlib.rcParams["font.size"] = 9
# Text as text: an eighth of the size.
matplotlib.rcParams["svg.fonttype"] = "none"

import matplotlib.pyplot as plt  # noqa: E402  (the backend must be chosen first)

from .experiments import sweep  # noqa: E402
from .model import Missing, Samples  # noqa: E402
from .papers import Panel  # noqa: E402

PANELS = (
    ("frames_per_s_sum", "(a) frames shown per second, all players"),
    ("tardiness.mean_ms", "(b) mean tardiness, ms"),
    ("switches_per_s", "(c) context switches per second"),
)
TITLES = {
    "fair": "Fair share, no cooperation",
    "domain": "Cooperative polling, one domain",
    "private": "Cooperative polling, every player in a private domain",
}
REFERENCE_STYLES = {"eevdf": ("black", ":"), "ideal": ("gray", "--")}


def sweep_figure(samples: Samples, folder: Path, kind: str, figure: str) -> str:
    """Throughput, tardiness and switches of one kind of scheduling; returns the file's name."""
    drawing, axes = plt.subplots(1, len(PANELS), figsize=(11, 3.2))
    for axis, (path, title) in zip(axes, PANELS, strict=True):
        for name, (colour, style) in REFERENCE_STYLES.items():
            _line(axis, samples, path, lambda n, name=name: sweep.reference(name, n), name, colour, style)
        for period_ms in sweep.PERIODS_MS:
            _line(
                axis,
                samples,
                path,
                lambda n, period_ms=period_ms: sweep.point_name(kind, period_ms, n),
                f"period {period_ms} ms",
            )
        axis.set_title(title, fontsize=9)
        axis.set_xlabel("players")
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize=7)
    drawing.suptitle(f"{TITLES[kind]} (drawn like Figure {figure} of the thesis)", fontsize=10)
    return save(drawing, folder, f"sweep-{kind}.svg")


def _line(axis, samples: Samples, path: str, run_of, label: str, colour=None, style="-") -> None:
    """Draws the points that were measured; a gap shows one that was not."""
    xs, ys = [], []
    for players in sweep.PLAYERS:
        try:
            ys.append(_value(samples, run_of(players), path))
            xs.append(players)
        except Missing:
            continue
    if xs:
        axis.plot(xs, ys, style, color=colour, marker=".", label=label, linewidth=1.2)


def _value(samples: Samples, run: str, path: str) -> float:
    if path == "frames_per_s_sum":
        result = samples.results(run)[0]
        return sum(player["frames_per_s"] for player in result["players"])
    return samples.value(run, path)


def over_time_figure(samples: Samples, folder: Path, runs: tuple[str, ...]) -> str:
    """Frames a second of every player over time, one panel for each run."""
    drawing, axes = plt.subplots(1, len(runs), figsize=(11, 3), sharey=True)
    for axis, run in zip(axes, runs, strict=True):
        try:
            players = samples.results(run)[0]["players"]
        except Missing:
            players = []
        for player in players:
            axis.plot(player["shown_per_s"], linewidth=1)
        name = {"time.eevdf": "EEVDF", "time.domain": "Consort, one domain, period 10 ms"}[run]
        axis.set_title(f"{name}: {len(players)} players", fontsize=9)
        axis.set_xlabel("s")
        axis.set_ylim(0, 25)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("frames shown per second")
    drawing.suptitle("Frame rates over time (drawn like Figure 3.21 of the thesis)", fontsize=10)
    return save(drawing, folder, "frames-over-time.svg")


def panels_figure(folder: Path, name: str, title: str, panels: list[Panel], columns: int = 3) -> str:
    """Panels of lines, in rows; returns the file's name."""
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    # One font, as each text names all that it may be drawn in.
    with plt.rc_context({"font.sans-serif": ["DejaVu Sans"]}):
        drawing, grid = plt.subplots(rows, columns, figsize=(3.7 * columns, 3.0 * rows), squeeze=False)
        axes = [axis for row in grid for axis in row]
        for axis in axes[len(panels) :]:
            axis.axis("off")
        for axis, panel in zip(axes, panels, strict=False):
            _panel(axis, panel)
        drawing.suptitle(title, fontsize=10)
        save(drawing, folder, name)
    # A hundredth of a point is seen by nobody, and half of the file is digits.
    file = folder / name
    file.write_text(re.sub(r"(\d\.\d\d)\d+", r"\1", file.read_text()))
    return name


def _panel(axis, panel: Panel) -> None:
    for line in panel.lines:
        xs, ys = zip(*line.points, strict=True) if line.points else ((), ())
        axis.plot(xs, ys, line.style, color=line.colour, label=line.label, linewidth=1, markersize=2)
    axis.set_title(panel.title, fontsize=9)
    axis.set_xlabel(panel.x)
    axis.set_ylabel(panel.y)
    axis.set_ylim(0, panel.y_max)
    axis.grid(alpha=0.3)
    if any(line.label for line in panel.lines):
        axis.legend(fontsize=6)


def save(drawing, folder: Path, name: str) -> str:
    drawing.tight_layout()
    drawing.savefig(folder / name, metadata={"Date": None})
    plt.close(drawing)
    return name
