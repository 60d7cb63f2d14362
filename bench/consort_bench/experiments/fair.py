# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fair share without cooperation: slices below the tick, and shares by nice and cpu.weight."""

from ..commits import SCHEDULER
from ..model import DEFAULTS, Experiment, Row, Run, Samples, Scheduler, Settings, Target, of
from ..workloads import Length

# Two hogs take turns within the granularity, so half of it is a slice.
SLICE_500US = Settings(granularity="1ms", min_slice="500us")
NICE = ("--nice", "-5,0,3,10")
WEIGHTS = ("--nice", "0,0,0", "--cgroup-weights", "50,100,300")


def experiment(length: Length) -> Experiment:
    seconds = ("--seconds", str(length.seconds))

    def hogs(name: str, scheduler: Scheduler, *options: str, settings: Settings = DEFAULTS) -> Run:
        return Run(name, scheduler, ("hogs", *options, *seconds), length.seconds + 2, settings)

    runs = (
        hogs("eevdf.two", Scheduler.EEVDF),
        hogs("eevdf.nice", Scheduler.EEVDF, *NICE),
        hogs("eevdf.weights", Scheduler.EEVDF, *WEIGHTS),
        hogs("two", Scheduler.CONSORT, settings=SLICE_500US),
        hogs("nice", Scheduler.CONSORT, *NICE),
        hogs("weights", Scheduler.CONSORT, *WEIGHTS),
    )
    rows = (
        Row(
            "fair.slice500us.switches_per_s",
            "1/s",
            of("two", "switches_per_s"),
            Target(at_least=1950),
            {"eevdf": of("eevdf.two", "switches_per_s")},
        ),
        Row(
            "fair.share_error_percent",
            "%",
            _worse("nice", "weights"),
            Target(at_most=0.1),
            {"eevdf": _worse("eevdf.nice", "eevdf.weights")},
        ),
    )
    return Experiment("fair", "Fair share between hogs", runs, rows, measures=SCHEDULER)


def _worse(*names: str):
    def value(samples: Samples) -> float:
        return max(samples.value(name, "share_error_percent") for name in names)

    return value
