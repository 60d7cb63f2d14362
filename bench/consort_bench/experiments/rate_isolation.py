# SPDX-License-Identifier: MIT OR Apache-2.0
"""A video with a guaranteed rate beside what may disturb it, against alone (004 Figure 7; 001 Figure 4.6)."""

from ..commits import RESERVATIONS
from ..model import Experiment, Row, Samples, Scheduler, Target, of
from ..workloads import Length
from .rates import against_cgroups, run

OTHERS = {
    "greedy13": ("--hogs", "13"),
    "hogs100": ("--hogs", "100"),
    "compile": ("--compile", "4"),
}


def experiment(length: Length) -> Experiment:
    words = ("video", "--load", "0.25", "--promised", "guaranteed=0.3", "--seed", "{seed}")
    words += ("--seconds", str(length.seconds))

    def runs_of(name: str, scheduler: Scheduler, *options: str):
        beside = {"alone": (), **OTHERS}
        return tuple(
            run(f"{name}.{other}", scheduler, length.seconds, *words, *options, *more)
            for other, more in beside.items()
        )

    runs = against_cgroups(runs_of)
    rows = (
        Row(
            "rate.gr_isolation.interframe_p99_added_ms",
            "ms",
            _added("consort"),
            Target(at_most=0.5),
            {"eevdf": _added("eevdf")},
        ),
        *(
            Row(
                f"rate.gr_isolation.{other}.frames_per_s",
                "1/s",
                of(f"consort.{other}", "frames_per_s"),
                against={"eevdf": of(f"eevdf.{other}", "frames_per_s")},
            )
            for other in ("alone", *OTHERS)
        ),
        *(
            Row(
                f"rate.gr_isolation.{other}.interframe_p99_ms",
                "ms",
                of(f"consort.{other}", "interframe.p99_ms"),
                against={"eevdf": of(f"eevdf.{other}", "interframe.p99_ms")},
            )
            for other in ("alone", *OTHERS)
        ),
    )
    return Experiment("rate_isolation", "A video with a guaranteed rate", runs, rows, measures=RESERVATIONS)


def _added(name: str):
    """The most that any of the others adds to the 99th percentile of the times between frames."""

    def value(samples: Samples) -> float:
        alone = samples.value(f"{name}.alone", "interframe.p99_ms")
        return max(samples.value(f"{name}.{other}", "interframe.p99_ms") for other in OTHERS) - alone

    return value
