# SPDX-License-Identifier: MIT OR Apache-2.0
"""Twelve players, a twofold overload, in one cooperation domain; and four, which leave the CPU idle."""

from ..commits import COOPERATION
from ..model import Experiment, Row, Target, of
from ..workloads import Length, fleet, tardiness_row


def experiment(length: Length) -> Experiment:
    runs = (
        fleet("eevdf.n12", "plain", 12, length),
        fleet("ideal.n12", "monolithic", 12, length),
        fleet("coop.n12", "coop", 12, length),
        fleet("eevdf.n4", "plain", 4, length),
        fleet("ideal.n4", "monolithic", 4, length),
        fleet("coop.n4", "coop", 4, length),
        fleet("eevdf.n10hog", "plain", 10, length, "--hogs", "1"),
        fleet("coop.n10hog", "coop", 10, length, "--hogs", "1"),
    )
    others = {"eevdf": "eevdf.n12", "ideal": "ideal.n12"}
    rows = (
        tardiness_row("coop.n12", "mean", "coop.n12", Target(at_most=0.52), others),
        tardiness_row("coop.n12", "p99", "coop.n12", Target(at_most=1.02), others),
        tardiness_row("coop.n12", "max", "coop.n12", Target(at_most=1.2), others),
        tardiness_row(
            "coop.n4",
            "mean",
            "coop.n4",
            Target(at_most=1, reference="eevdf"),
            {"eevdf": "eevdf.n4", "ideal": "ideal.n4"},
        ),
        _n12("switches_per_s", "1/s", Target(at_most=660)),
        _n12("decode_cpu_percent", "%", Target(at_least=97.3)),
        _n12("useful_cpu_percent", "%", Target(at_least=97.2)),
        _n12("frames_per_s_mean", "1/s", Target()),
        _n12("frames_per_s_cv_percent", "%", Target()),
        _n12("polls_per_s", "1/s", Target()),
        tardiness_row("coop.n10hog", "max", "coop.n10hog", Target(at_most=1.2), {"eevdf": "eevdf.n10hog"}),
        tardiness_row("coop.n10hog", "mean", "coop.n10hog", Target(), {"eevdf": "eevdf.n10hog"}),
        Row(
            "coop.n10hog.share_percent",
            "%",
            of("coop.n10hog", "bystanders.0.share_percent"),
            # One of eleven.
            Target(near=9.09, tolerance=0.1),
            {"eevdf": of("eevdf.n10hog", "bystanders.0.share_percent")},
        ),
    )
    return Experiment("coop", "Players in one cooperation domain", runs, rows, measures=COOPERATION)


def _n12(path: str, unit: str, target: Target) -> Row:
    others = {"eevdf": of("eevdf.n12", path), "ideal": of("ideal.n12", path)}
    return Row(f"coop.n12.{path}", unit, of("coop.n12", path), target, others)
