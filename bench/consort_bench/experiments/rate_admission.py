# SPDX-License-Identifier: MIT OR Apache-2.0
"""A storm of requests to a daemon that holds 10 000 reservations: all kinds of them, and credits."""

from ..commits import SERVICE
from ..guest import BUILT
from ..model import Experiment, GuestFile, Row, Run, Scheduler, Target, of
from ..workloads import Length

PROGRAM = GuestFile(
    BUILT.parents[1] / "release" / "examples" / "admission",
    "",
    "cargo build --release -p consort-daemon --example admission makes it",
    ("cargo", "build", "--release", "-p", "consort-daemon", "--example", "admission"),
)


def experiment(_length: Length) -> Experiment:
    runs = (Run("storm", Scheduler.NATIVE, (), 5, program=PROGRAM, is_timed=True),)
    rows = (
        Row("rate.admission.p99_us", "us", of("storm", "p99_us"), Target(at_most=1000)),
        Row("rate.admission.p50_us", "us", of("storm", "p50_us")),
        # Without the scheduler's part, which needs a kernel that has it. On a connection that is kept, as the
        # library keeps it; `first`: with connecting.
        Row(
            "rate.credit.call_p99_us",
            "us",
            of("storm", "credit_p99_us"),
            Target(at_most=200),
            {"p50": of("storm", "credit_p50_us"), "first": of("storm", "credit_first_p99_us")},
        ),
    )
    return Experiment("rate_admission", "A storm of requests, on this machine", runs, rows, measures=SERVICE)
