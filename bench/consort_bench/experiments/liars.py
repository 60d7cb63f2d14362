# SPDX-License-Identifier: MIT OR Apache-2.0
"""Members that break the contract: what do they gain, and what do the honest members lose?"""

from ..commits import COOPERATION
from ..model import Experiment, Row, Samples, Target
from ..workloads import Length, fleet, tardiness_row

# Ten honest players and one liar.
PLAYERS = 10


def experiment(length: Length) -> Experiment:
    runs = (
        fleet("honest", "coop", PLAYERS, length),
        fleet("mute", "coop", PLAYERS, length, "--mute-liars", "1"),
        fleet("polite", "coop", PLAYERS, length, "--polite-liars", "1"),
        # Under EEVDF a member that takes all it can get is a hog.
        fleet("eevdf", "plain", PLAYERS, length, "--hogs", "1"),
    )
    others = {"eevdf": "eevdf", "honest": "honest"}
    rows = (
        tardiness_row("coop.liar_mute", "max", "mute", Target(at_most=3.2), others),
        tardiness_row("coop.liar_mute", "mean", "mute", Target(), others),
        tardiness_row("coop.liar_polite", "max", "polite", Target(at_most=2.1), others),
        tardiness_row("coop.liar_polite", "mean", "polite", Target(), others),
        Row("coop.liar.share_percent", "%", _worse_share, Target(at_most=9.6)),
    )
    return Experiment("liars", "Members that break the contract", runs, rows, measures=COOPERATION)


def _worse_share(samples: Samples) -> float:
    path = "bystanders.0.share_percent"
    return max(samples.value("mute", path), samples.value("polite", path))
