# SPDX-License-Identifier: MIT OR Apache-2.0
"""The first hour: how long an installation takes, how large the library is, what looking on costs."""

from ..commits import CLIENT, SCHEDULER, SERVICE
from ..guest import ROOT
from ..model import Experiment, GuestFile, Row, Run, Scheduler, Target, of
from ..workloads import Length

MAKER = "it is part of the source"


def experiment(_length: Length) -> Experiment:
    def run(name: str, is_timed: bool = False) -> Run:
        program = GuestFile(ROOT / "bench" / "first" / name, "", MAKER)
        return Run(name, Scheduler.NATIVE, (), 30, program=program, is_timed=is_timed)

    runs = (run("library"), run("install", is_timed=True), run("late"), run("causes"))
    rows = (
        Row("first.install_seconds", "s", of("install", "install_s"), Target(at_most=30)),
        Row("first.author_minutes", "min", of("install", "author_minutes"), Target(at_most=3)),
        Row("late.overhead_percent", "%", of("late", "overhead_percent"), Target(at_most=3)),
        Row("late.cause_found_percent", "%", of("causes", "found_percent"), Target(at_least=100)),
        Row("library.shared_kib", "KiB", of("library", "shared_kib"), Target(at_most=500)),
        Row("library.static_kib", "KiB", of("library", "static_kib"), Target(at_most=2048)),
    )
    measures = (*SCHEDULER, *CLIENT, *SERVICE, "cli", "packaging", "tests")
    return Experiment("first", "The first hour", runs, rows, measures=measures, starts=1)
