# SPDX-License-Identifier: MIT OR Apache-2.0
"""The folder of results, and what of it changes when an experiment is done."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from . import commits, report, results
from .commits import UNKNOWN, Commit, Repository
from .model import Experiment, Missing, Samples


@dataclass(frozen=True)
class Book:
    """results.json, and the page and plots that are made with it."""

    folder: Path
    # All there are, in the order of the page.
    experiments: list[Experiment]
    repository: Repository

    @property
    def path(self) -> Path:
        return self.folder / "results.json"

    def entries(self) -> dict[str, dict]:
        return results.read(self.path)

    def marks(self) -> dict[str, str]:
        """Why rows should be measured anew, by id; those that need not be are left out."""
        measures = {experiment.name: experiment.measures for experiment in self.experiments}
        marks = {
            id: commits.mark(entry, measures[entry["experiment"]], self.repository)
            for id, entry in self.entries().items()
            if entry["experiment"] in measures
        }
        return {id: mark for id, mark in marks.items() if mark}

    def write(self, judged: list[results.Judged]) -> None:
        order = [row.id for experiment in self.experiments for row in experiment.rows]
        results.write(self.path, judged, order)
        self.report()

    def report(self) -> None:
        plots = sorted(path.name for path in self.folder.glob("*.svg"))
        entries = list(self.entries().values())
        page = report.markdown(entries, self.experiments, plots, self.marks())
        (self.folder / "results.md").write_text(page)


class Finished:
    """Judges each experiment when it is done, and writes its rows at once."""

    def __init__(self, chosen: list[Experiment], of: dict[str, Commit], book: Book) -> None:
        self._chosen = {experiment.name: experiment for experiment in chosen}
        self._commits = of
        self._book = book
        self._judged: list[results.Judged] = []
        self._names: list[str] = []

    def names(self) -> list[str]:
        return self._names

    def experiment(self, name: str, samples: Samples) -> None:
        experiment = self._chosen[name]
        commit = self._commits.get(name, UNKNOWN)
        judged = [results.judge(experiment, row, samples, commit) for row in experiment.rows]
        self._names.append(name)
        self._judged += judged
        _draw(experiment, samples, self._book.folder)
        self._book.write(judged)
        for reason in samples.faults():
            print(f"failed: {name}: {reason}", file=sys.stderr, flush=True)
        missed = sum(1 for one in judged if one.met is False)
        rows = f"{len(judged)} rows written" + (f", {missed} of them missed" if missed else "")
        print(f"{name}: {rows if judged else 'plots written'}", flush=True)

    def all(self) -> int:
        """Those that no guest was booted for, too; says what came out, and whether it is good."""
        for name in [name for name in self._chosen if name not in self._names]:
            self.experiment(name, Samples())
        place = {id: index for index, id in enumerate(self._book.entries())}
        tried = sorted(self._judged, key=lambda one: place.get(one.row.id, len(place)))
        print(report.terminal([one.as_json() for one in tried]))
        print(f"written to {self._book.folder}")
        return 1 if any(one.met is False for one in tried) else 0


def _draw(experiment: Experiment, samples: Samples, folder: Path) -> None:
    if not experiment.plot:
        return
    folder.mkdir(parents=True, exist_ok=True)
    try:
        experiment.plot(samples, folder)
    except Missing as missing:
        print(f"no plots of {experiment.name}: {missing}", file=sys.stderr)
    except ImportError as error:
        print(
            f"no plots: {error}; install them with `pip install -r bench/requirements.txt`", file=sys.stderr
        )
