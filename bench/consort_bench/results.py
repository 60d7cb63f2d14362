# SPDX-License-Identifier: MIT OR Apache-2.0
"""Judges rows, and writes results.json: a list of rows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from .model import Experiment, Missing, Row, Samples

# Significant digits: more than a reader wants, fewer than would change from nothing.
DIGITS = 6


@dataclass(frozen=True)
class Judged:
    """A row with its value, or the reason why it has none."""

    row: Row
    experiment: str
    value: float | None
    against: dict[str, float]
    met: bool | None
    reason: str
    kernel: str
    starts: int

    def as_json(self) -> dict:
        entry = {
            "id": self.row.id,
            "value": self.value,
            "unit": self.row.unit,
            "target": self.row.target.text() or None,
            "met": self.met,
            "against": self.against,
            "kernel": self.kernel,
            "starts": self.starts,
            "command": f"bench/run --only '{self.row.id}'",
            "experiment": self.experiment,
        }
        return {**entry, "missing": self.reason} if self.reason else entry


def judge(experiment: Experiment, row: Row, samples: Samples) -> Judged:
    """A target that cannot be judged, because something was not measured, counts as missed."""
    has_target = bool(row.target.text())
    kernel = ", ".join(sorted(samples.kernels))
    against: dict[str, float] = {}
    try:
        for name, extract in row.against.items():
            against[name] = _rounded(extract(samples))
        value = _rounded(row.value(samples))
    except Missing as missing:
        met = False if has_target else None
        return Judged(row, experiment.name, None, against, met, str(missing), kernel, samples.starts())
    met = row.target.met(value, against) if has_target else None
    return Judged(row, experiment.name, value, against, met, "", kernel, samples.starts())


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def write(path: Path, judged: list[Judged], order: list[str]) -> list[dict]:
    """Writes the rows over those of the same id that the file has; others stay. Returns all."""
    entries = {}
    if path.exists():
        entries = {entry["id"]: entry for entry in json.loads(path.read_text())}
    entries.update({one.row.id: one.as_json() for one in judged})
    place = {id: index for index, id in enumerate(order)}
    # A row that no experiment has any more is gone.
    known = sorted((e for id, e in entries.items() if id in place), key=lambda e: place[e["id"]])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(known, indent=1) + "\n")
    return known
