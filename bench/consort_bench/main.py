# SPDX-License-Identifier: MIT OR Apache-2.0
"""The command line of bench/run."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

from . import bench, report, results
from .experiments import all_experiments
from .guest import BUILT, ROOT, Machine
from .model import Experiment, Missing, Samples, Scheduler
from .workloads import Length

RESULTS = "docs/results"
# A quick look is no result.
QUICK_RESULTS = "target/bench-quick"
EPILOG = """\
Build the programs first, static, as guests have no libraries:
  RUSTFLAGS='-C target-feature=+crt-static' cargo build --release --target x86_64-unknown-linux-gnu \\
      -p consort-bench-player -p consort-bench-rates -p consort

The outputs of guests are kept by a hash of their inputs: an interrupted bench goes on where it was, and a
changed program is measured anew. Exit status: 0 when every target was met, 1 when one was missed, 2 when the
bench could not be run.
"""


def main() -> int:
    options = parse()
    length = Length.quick() if options.quick else Length()
    experiments = all_experiments(length)
    chosen = choose(experiments, options.only)
    if options.list:
        for experiment in chosen:
            for row in experiment.rows:
                print(f"{row.id:42} {row.unit:12} {row.target.text()}")
            if not experiment.rows:
                print(f"{experiment.name:42} plots")
        return 0
    if not chosen:
        return fail(f"no row matches --only '{options.only}'; see bench/run --list")
    for path in programs(options, chosen):
        if not path.is_file():
            return fail(f"there is no program {path}; build it first, see bench/run --help")
    machine = Machine(options.kernel, options.player, options.consort, options.cache)
    starts = 1 if options.quick else options.starts
    boots = bench.plan(chosen, starts, options.consort is not None)
    if options.kept:
        boots = [boot for boot in boots if machine.kept(boot)]
    return finish(options, chosen, experiments, bench.run(boots, machine, options.jobs))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench/run",
        description="Measures Consort against the stock scheduler in instruction-counted guests.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--only", default="*", metavar="GLOB", help="rows by id, or experiments by name")
    add("--quick", action="store_true", help="one short start of each: to see that all works")
    add("--list", action="store_true", help="show the rows and their targets")
    add("--starts", type=int, default=3, help="starts of each run; rows are medians (default 3)")
    add("--kernel", default="7", help="line of kernels, see vm/run --help (default 7)")
    add("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="guests at a time")
    add("--player", type=Path, default=BUILT / "consort-bench-player", help="the player program")
    add("--consort", type=Path, default=BUILT / "consort", help="the consort command")
    add("--kept", action="store_true", help="boot nothing: only what is kept from before")
    add("--no-consort", dest="consort", action="store_const", const=None, help="only EEVDF's side")
    add("--out", type=Path, help=f"folder of tables and plots (default {RESULTS}; --quick: {QUICK_RESULTS})")
    add("--cache", type=Path, default=ROOT / "target" / "bench", help="folder of kept outputs")
    options = parser.parse_args()
    if options.out is None:
        options.out = ROOT / (QUICK_RESULTS if options.quick else RESULTS)
    return options


def programs(options: argparse.Namespace, chosen: list[Experiment]) -> list[Path]:
    """What must have been built; the simulator needs no player."""
    runs = (run for experiment in chosen for run in experiment.runs)
    has_guests = any(run.scheduler is not Scheduler.SIMULATOR for run in runs)
    return [path for path in (options.player if has_guests else None, options.consort) if path]


def choose(experiments: list[Experiment], pattern: str) -> list[Experiment]:
    """Those named, or with a row named, by the pattern; of the latter only these rows."""
    chosen = []
    for experiment in experiments:
        if fnmatch(experiment.name, pattern):
            chosen.append(experiment)
            continue
        rows = tuple(row for row in experiment.rows if fnmatch(row.id, pattern))
        if rows:
            # All runs stay: which ones a row needs is its own affair.
            chosen.append(replace(experiment, rows=rows, plot=None))
    return chosen


def finish(options, chosen: list[Experiment], experiments: list[Experiment], samples) -> int:
    judged = [
        results.judge(experiment, row, samples.get(experiment.name, Samples()))
        for experiment in chosen
        for row in experiment.rows
    ]
    options.out.mkdir(parents=True, exist_ok=True)
    order = [row.id for experiment in experiments for row in experiment.rows]
    entries = results.write(options.out / "results.json", judged, order)
    draw(chosen, samples, options.out)
    plots = sorted(path.name for path in options.out.glob("*.svg"))
    (options.out / "results.md").write_text(report.markdown(entries, experiments, plots))
    new = {one.row.id for one in judged}
    print(report.terminal([entry for entry in entries if entry["id"] in new]))
    for name, of_experiment in samples.items():
        for reason in of_experiment.faults():
            print(f"failed: {name}: {reason}", file=sys.stderr)
    print(f"written to {options.out}")
    return 1 if any(one.met is False for one in judged) else 0


def draw(chosen: list[Experiment], samples, folder: Path) -> None:
    with_plots = [experiment for experiment in chosen if experiment.plot]
    try:
        for experiment in with_plots:
            try:
                experiment.plot(samples.get(experiment.name, Samples()), folder)
            except Missing as missing:
                print(f"no plots of {experiment.name}: {missing}", file=sys.stderr)
    except ImportError as error:
        print(
            f"no plots: {error}; install them with `pip install -r bench/requirements.txt`",
            file=sys.stderr,
        )


def fail(text: str) -> int:
    print(f"bench/run: {text}", file=sys.stderr)
    return 2
