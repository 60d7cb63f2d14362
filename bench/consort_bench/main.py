# SPDX-License-Identifier: MIT OR Apache-2.0
"""The command line of bench/run."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

from . import bench, build
from .book import Book, Finished
from .build import BuildError
from .commits import UNKNOWN, Commit, GitError, Repository
from .experiments import all_experiments
from .guest import ROOT, Machine
from .model import Experiment, Row, Run, Scheduler
from .workloads import Length

RESULTS = "docs/results"
# A quick look is no result.
QUICK_RESULTS = "target/bench-quick"
EPILOG = """\
The programs that the chosen rows need are brought up to date first, with cargo and cli/build-static. Rows are
written as soon as their experiment is done; the outputs of guests are kept by a hash of their inputs: an
interrupted bench goes on where it was, and a changed program is measured anew. bench/README.md has more.

Exit status: 0 when every target was met, 1 when one was missed, 2 when the bench could not be run, 130 when
it was interrupted.
"""


def main() -> int:
    options = parse()
    length = Length.quick() if options.quick else Length()
    experiments = all_experiments(length)
    chosen = choose(experiments, options.only)
    if not chosen:
        return fail(f"no row matches --only {', '.join(map(repr, options.only))}; see bench/run --list")
    book = Book(options.out, experiments, Repository())
    if options.list or options.stale:
        show(chosen, book, options.stale)
        return 0
    if options.report:
        book.report()
        return 0
    try:
        return measure(options, chosen, book)
    except (BuildError, GitError) as error:
        return fail(str(error))


def measure(options: argparse.Namespace, chosen: list[Experiment], book: Book) -> int:
    files = build.programs(chosen, options.player, None if options.no_consort else options.consort)
    if options.no_consort:
        files = [file for file in files if file != build.CONSORT]
    if options.no_build:
        files = [replace(file, build=()) for file in files]
    build.build(files)
    commits = {experiment.name: commit_of(options, experiment, book.repository) for experiment in chosen}
    consort = None if options.no_consort else options.consort or build.CONSORT.path
    machine = Machine(options.kernel, options.player or build.PLAYER.path, consort, options.cache)
    boots = bench.plan(chosen, 1 if options.quick else options.starts, consort is not None)
    if options.kept:
        boots = [boot for boot in boots if machine.kept(boot)]
    finished = Finished(chosen, commits, book)
    # Whoever ends the bench from outside loses no more than with Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        bench.run(boots, machine, options.jobs, finished.experiment)
    except KeyboardInterrupt:
        print(f"interrupted; done before that: {', '.join(finished.names()) or 'nothing'}", file=sys.stderr)
        return 130
    return finished.all()


def commit_of(options: argparse.Namespace, experiment: Experiment, repository: Repository) -> Commit:
    """What was built from the work tree is of its commit; what was given is of whichever the caller says."""
    if not (options.no_build or options.player or options.consort):
        return repository.head((*experiment.measures, "bench"))
    return Commit(repository.commit(options.commit)) if options.commit else UNKNOWN


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench/run",
        description="Measures Consort against the stock scheduler in instruction-counted guests.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    only = "rows by id, or experiments by name (may be repeated; default all)"
    add("--only", action="append", metavar="GLOB", help=only)
    add("--quick", action="store_true", help="one short start of each: to see that all works")
    add("--list", action="store_true", help="show the rows, their targets, and which are stale")
    add("--stale", action="store_true", help="show only rows that are to be measured anew, and why")
    add("--report", action="store_true", help="write results.md anew from results.json; measure nothing")
    add("--starts", type=at_least_1, default=3, help="starts of each run; rows are medians (default 3)")
    add("--kernel", default="7", help="line of kernels, see vm/run --help (default 7)")
    cores = len(os.sched_getaffinity(0))
    add(
        "--jobs",
        type=at_least_1,
        default=cores,
        help=f"guests at a time (default: this machine's {cores} cores)",
    )
    add("--no-build", action="store_true", help="take the programs that were built before")
    add("--player", type=Path, help="the player program, instead of building it")
    add("--consort", type=Path, help="the consort command, instead of building it")
    add("--commit", metavar="REV", help="what such programs were built from: rows carry it")
    add("--kept", action="store_true", help="boot nothing: only what is kept from before")
    add("--no-consort", action="store_true", help="only EEVDF's side")
    add("--out", type=Path, help=f"folder of tables and plots (default {RESULTS}; --quick: {QUICK_RESULTS})")
    add("--cache", type=Path, default=ROOT / "target" / "bench", help="folder of kept outputs")
    options = parser.parse_args()
    if options.out is None:
        options.out = ROOT / (QUICK_RESULTS if options.quick else RESULTS)
    return options


def at_least_1(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {text}")
    return number


def choose(experiments: list[Experiment], patterns: list[str] | None) -> list[Experiment]:
    """Those named, or with a row named, by one of the patterns, or all; of the latter only these rows."""

    def is_named(name: str) -> bool:
        return patterns is None or any(fnmatch(name, pattern) for pattern in patterns)

    chosen = []
    for experiment in experiments:
        if is_named(experiment.name):
            chosen.append(experiment)
            continue
        rows = tuple(row for row in experiment.rows if is_named(row.id))
        if rows:
            chosen.append(replace(experiment, rows=rows, runs=needed(experiment, rows), plot=None))
    return chosen


def needed(experiment: Experiment, rows: tuple[Row, ...]) -> tuple[Run, ...]:
    """Guests keep all their runs, as one follows the other.

    Of the simulator's, and of those with a guest each, only those that are read."""
    read = [row.runs() for row in rows]
    if None in read:
        return experiment.runs
    names = frozenset().union(*read)
    has_own = experiment.runs_per_guest == 1
    return tuple(
        run
        for run in experiment.runs
        if run.name in names or not (has_own or run.scheduler is Scheduler.SIMULATOR)
    )


def show(chosen: list[Experiment], book: Book, only_stale: bool) -> None:
    """The rows with their targets, and why they should be measured anew."""
    marks, known = book.marks(), book.entries()
    for experiment in chosen:
        for row in experiment.rows:
            mark = marks.get(row.id, "") if row.id in known else "not measured"
            if mark or not only_stale:
                print(f"{row.id:42} {row.unit:12} {row.target.text():14} {mark}".rstrip())
        if not experiment.rows and not only_stale:
            print(f"{experiment.name:42} plots")


def fail(text: str) -> int:
    print(f"bench/run: {text}", file=sys.stderr)
    return 2
