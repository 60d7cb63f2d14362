# SPDX-License-Identifier: MIT OR Apache-2.0
"""001's Tables 4.1 and 4.2, simulated: how long a lone loop, and jobs like a build's, take.

Ten starts, as in the paper. What a callback costs is an assumption of the simulator, see docs/scenarios.md.
"""

from __future__ import annotations

from statistics import median, pstdev

from .. import papers
from ..commits import SIMULATION
from ..model import Experiment, Row, Samples
from ..workloads import Length

STARTS = 10
# The table, and whose last stamp ends it.
TABLES = {"4.1": "count", "4.2": "make"}


def experiment(_length: Length) -> Experiment:
    runs = tuple(
        run
        for table in TABLES
        for run in papers.runs(table, papers.load(f"001-table-{table}"), ("coop", "eevdf"))
    )
    rows = tuple(row for table in TABLES for row in rows_of(table))
    return Experiment(
        "paper_001_overhead",
        "001's overheads, simulated",
        runs,
        rows,
        starts=STARTS,
        measures=(*SIMULATION, "sim/papers"),
    )


def rows_of(table: str) -> tuple[Row, ...]:
    def seconds(scheduler: str, statistic):
        """Of how long the starts take."""

        def value(samples: Samples) -> float:
            starts = papers.starts_of(samples, f"{table}.{scheduler}")
            return statistic([tasks[TABLES[table]].stamps[-1] for tasks in starts])

        return value

    def more_percent(samples: Samples) -> float:
        return 100 * (seconds("coop", median)(samples) / seconds("eevdf", median)(samples) - 1)

    def row(name: str, statistic) -> Row:
        against = {"eevdf": seconds("eevdf", statistic)}
        return Row(f"paper001.table{table}.{name}", "s", seconds("coop", statistic), against=against)

    return (
        row("duration_s", median),
        row("deviation_s", pstdev),
        Row(f"paper001.table{table}.overhead_percent", "%", more_percent),
    )
