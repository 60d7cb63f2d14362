# SPDX-License-Identifier: MIT OR Apache-2.0
"""One file per experiment; each has `experiment(length)`."""

from __future__ import annotations

from ..model import Experiment
from ..workloads import Length
from . import (
    baseline,
    chunks,
    coop,
    costs,
    fair,
    hackbench,
    hog,
    liars,
    memory,
    paper_001,
    paper_001_ffplay,
    paper_001_guest,
    paper_001_overhead,
    paper_004,
    paper_004_guest,
    paper_004_quanta,
    pathological,
    play,
    private,
    rate_admission,
    rate_credit,
    rate_isolation,
    rate_player,
    rate_shares,
    rate_smp,
    rate_switch,
    rate_wait,
    simulator,
    stress,
    sweep,
    unequal,
    validation,
    wake,
)

MODULES = (
    coop,
    play,
    chunks,
    unequal,
    liars,
    private,
    hog,
    fair,
    costs,
    wake,
    hackbench,
    memory,
    baseline,
    pathological,
    rate_shares,
    rate_smp,
    rate_wait,
    rate_player,
    rate_isolation,
    rate_credit,
    rate_switch,
    rate_admission,
    stress,
    validation,
    simulator,
    paper_001,
    paper_001_guest,
    paper_001_ffplay,
    paper_001_overhead,
    paper_004,
    paper_004_guest,
    paper_004_quanta,
    sweep,
)


def all_experiments(length: Length) -> list[Experiment]:
    return [module.experiment(length) for module in MODULES]
