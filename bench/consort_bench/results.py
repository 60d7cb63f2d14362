# SPDX-License-Identifier: MIT OR Apache-2.0
"""Judges rows, and writes results.json: a list of rows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from .commits import UNKNOWN, Commit
from .model import Experiment, Missing, NotRun, Row, Samples

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
    has_target = bool(row.target.text())
    kernel = ", ".join(sorted(samples.kernels))
    starts = samples.starts()
    against: dict[str, float] = {}
    try:
        for name, extract in row.against.items():
            against[name] = _rounded(extract(samples))
        value = _rounded(row.value(samples))
        each = [_rounded(row.value(samples.alone(start))) for start in starts]
    except Exception as error:  # a row that cannot be made says why; the others are made
        reason = str(error) if isinstance(error, Missing) else f"{type(error).__name__}: {error}"
        return Judged(
            row,
            experiment.name,
            None,
            against,
            False if has_target else None,
            reason,
            kernel,
            len(starts),
            commit=commit,
            is_untried=isinstance(error, NotRun),
        )
    met = row.target.met(value, against) if has_target else None
    spread = (min(each), max(each)) if each else None
    return Judged(row, experiment.name, value, against, met, "", kernel, len(starts), spread, commit)


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
