# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a trace costs: a program's own event, and recording all switches of a machine."""

from __future__ import annotations

from ..commits import CLIENT, SCHEDULER
from ..guest import ROOT
from ..model import Experiment, GuestFile, Row, Run, Scheduler, Target, of
from ..workloads import Length

MAKER = "it is part of the source"


def experiment(_length: Length) -> Experiment:
    def run(name: str, is_timed: bool = False) -> Run:
        program = GuestFile(ROOT / "bench" / "trace" / name, "", MAKER)
        return Run(name, Scheduler.NATIVE, (), 30, program=program, is_timed=is_timed)

    runs = (run("event", is_timed=True), run("overhead"))
    rows = (
        Row("trace.event_ns", "ns", of("event", "event_ns"), Target(at_most=150)),
        Row("trace.event_off_ns", "ns", of("event", "off_ns"), Target(at_most=5)),
        Row("trace.overhead_percent", "%", of("overhead", "overhead_percent"), Target(at_most=3)),
        Row("trace.lost_events", "records", of("overhead", "lost_events"), Target(at_most=0)),
    )
    return Experiment(
        "trace", "What traces cost", runs, rows, measures=(*SCHEDULER, *CLIENT, "trace", "cli"), starts=1
    )
