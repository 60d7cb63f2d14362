# SPDX-License-Identifier: MIT OR Apache-2.0
"""One player that needs 70 % of the CPU, beside a hog that takes its half."""

from ..commits import COOPERATION
from ..model import Experiment, Row, Target, of
from ..workloads import Length, fleet, tardiness_row

BESIDE_A_HOG = ("--load", "0.7", "--hogs", "1")


def experiment(length: Length) -> Experiment:
    runs = (
        fleet("eevdf", "plain", 1, length, *BESIDE_A_HOG),
        fleet("coop", "coop", 1, length, *BESIDE_A_HOG),
    )
    share = "bystanders.0.share_percent"
    rows = (
        tardiness_row("hog", "mean", "coop", Target(at_most=0.2), {"eevdf": "eevdf"}),
        tardiness_row("hog", "max", "coop", Target(), {"eevdf": "eevdf"}),
        Row(
            "hog.share_percent",
            "%",
            of("coop", share),
            Target(near=50, tolerance=0.3),
            {"eevdf": of("eevdf", share)},
        ),
        Row(
            "hog.frames_per_s",
            "1/s",
            of("coop", "frames_per_s_mean"),
            against={"eevdf": of("eevdf", "frames_per_s_mean")},
        ),
    )
    return Experiment("hog", "A 70 % player beside a hog", runs, rows, measures=COOPERATION)
