# SPDX-License-Identifier: MIT OR Apache-2.0
"""Judges rows, and writes results.json: a list of rows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from .commits import UNKNOWN, Commit
from .model import Experiment, Extract, Missing, NotRun, Row, Samples

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
    # The least and the most that one start alone would have said.
    spread: tuple[float, float] | None = None
    commit: Commit = UNKNOWN
    # Whether it was not even tried: then an older row says more.
    is_untried: bool = False

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
            "min": self.spread[0] if self.spread else None,
            "max": self.spread[1] if self.spread else None,
            "commit": self.commit.id,
            "dirty": self.commit.dirty,
            "command": f"bench/run --only '{self.row.id}'",
            "experiment": self.experiment,
        }
        return {**entry, "missing": self.reason} if self.reason else entry


def judge(experiment: Experiment, row: Row, samples: Samples, commit: Commit = UNKNOWN) -> Judged:
    """A target that cannot be judged, because something was not measured, counts as missed."""
    value, error = _tried(row.value, samples)
    against: dict[str, float] = {}
    # A comparison that is missing takes nothing from the value.
    reasons = [_reason(error)] if error else []
    for name, extract in row.against.items():
        other, fault = _tried(extract, samples)
        if other is not None:
            against[name] = other
        elif value is not None:
            reasons.append(f"{name}: {_reason(fault)}")
    met = None
    if row.target.text():
        can_be = value is not None and (not row.target.reference or row.target.reference in against)
        met = can_be and row.target.met(value, against)
    starts = samples.starts()
    each = [_tried(row.value, samples.alone(start))[0] for start in starts] if value is not None else []
    each = [one for one in each if one is not None]
    return Judged(
        row,
        experiment.name,
        value,
        against,
        met,
        "; ".join(reasons),
        ", ".join(sorted(samples.kernels)),
        len(starts),
        (min(each), max(each)) if each else None,
        commit,
        isinstance(error, NotRun),
    )


def _tried(extract: Extract, samples: Samples) -> tuple[float | None, Exception | None]:
    try:
        return _rounded(extract(samples)), None
    except Exception as error:  # whatever it is, other rows can be made
        return None, error


def _reason(error: Exception | None) -> str:
    return str(error) if isinstance(error, Missing) else f"{type(error).__name__}: {error}"


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def read(path: Path) -> dict[str, dict]:
    """The rows of the file, by id; none if there is no file."""
    return {entry["id"]: entry for entry in json.loads(path.read_text())} if path.exists() else {}


def write(path: Path, judged: list[Judged], order: list[str]) -> list[dict]:
    """Writes the rows over those of the same id that the file has; others stay. Returns all."""
    entries = read(path)
    entries.update(
        {one.row.id: one.as_json() for one in judged if not (one.is_untried and one.row.id in entries)}
    )
    place = {id: index for index, id in enumerate(order)}
    # A row that no experiment has any more is gone.
    known = sorted((e for id, e in entries.items() if id in place), key=lambda e: place[e["id"]])
    path.parent.mkdir(parents=True, exist_ok=True)
    # Whoever is interrupted leaves the old file or the new one.
    new = path.with_suffix(".new")
    new.write_text(json.dumps(known, indent=1) + "\n")
    new.replace(path)
    return known
