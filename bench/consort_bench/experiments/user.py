# SPDX-License-Identifier: MIT OR Apache-2.0
"""Players that cooperate at user level, under the stock scheduler (000 Figures 3.10, 3.15 to 3.18)."""

from dataclasses import replace

from ..commits import COOPERATION
from ..model import Experiment, Row, Run, Scheduler, Target, of
from ..workloads import Length, fleet, tardiness_row

USER_LEVEL = (*COOPERATION, "userlevel", ":!userlevel/tests")
FEWEST, MOST = 4, 12


def experiment(length: Length) -> Experiment:
    runs = (
        fleet("eevdf.n12", "plain", 12, length),
        fleet("ideal.n12", "monolithic", 12, length),
        *(_user_level(f"user.n{n}", n, length) for n in range(FEWEST, MOST + 1, 2)),
        _user_level("user.fair.n12", 12, length, "--order", "service"),
        fleet("eevdf.n10hog", "plain", 10, length, "--hogs", "1"),
        _user_level("user.n10hog", 10, length, "--hogs", "1"),
    )
    others = {"eevdf": "eevdf.n12", "ideal": "ideal.n12"}
    rows = (
        tardiness_row("user.guest.n12", "mean", "user.n12", Target(at_most=0.6), others),
        tardiness_row("user.guest.n12", "p99", "user.n12", Target(at_most=1.2), others),
        tardiness_row("user.guest.n12", "max", "user.n12", Target(), others),
        Row(
            "user.guest.switches_per_yield",
            "1",
            of("user.n12", "switches_per_handover"),
            Target(at_most=1.15),
            {},
        ),
        _n12("user.guest.frames_per_s_cv_percent", "%", "frames_per_s_cv_percent", Target(at_most=1)),
        _n12("user.guest.n12.decode_cpu_percent", "%", "decode_cpu_percent", Target()),
        _n12("user.guest.n12.switches_per_s", "1/s", "switches_per_s", Target()),
        *(
            tardiness_row(f"user.guest.n{n}", "p99", f"user.n{n}", Target(), {})
            for n in range(FEWEST, MOST, 2)
        ),
        tardiness_row("user.guest.fair.n12", "mean", "user.fair.n12", Target(), others),
        tardiness_row("user.guest.fair.n12", "p99", "user.fair.n12", Target(), others),
        Row(
            "user.guest.fair.n12.share_cv_percent",
            "%",
            of("user.fair.n12", "share_cv_percent"),
            Target(),
            {"eevdf": of("eevdf.n12", "share_cv_percent")},
        ),
        tardiness_row("user.guest.n10hog", "mean", "user.n10hog", Target(), {"eevdf": "eevdf.n10hog"}),
    )
    return Experiment("user", "Players that cooperate at user level", runs, rows, measures=USER_LEVEL)


def _user_level(name: str, players: int, length: Length, *options: str) -> Run:
    """No daemon is there: members find each other by themselves."""
    run = fleet(name, "coop", players, length, *options, scheduler=Scheduler.EEVDF)
    return replace(run, moving=())


def _n12(id: str, unit: str, path: str, target: Target) -> Row:
    others = {"eevdf": of("eevdf.n12", path), "ideal": of("ideal.n12", path)}
    return Row(id, unit, of("user.n12", path), target, others)
