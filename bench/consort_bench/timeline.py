# SPDX-License-Identifier: MIT OR Apache-2.0
"""Who ran when, and when each task's due events were served: from a simulated run's trace, or a guest.

Programs of the papers print a time stamp when a round is done. In scenarios that is a timer that is always
due (`timer_stamp`), and so a due event in the trace.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

# The trace's group of tracks that has one for each task.
TASKS = 2


@dataclass
class Timeline:
    """One task, in seconds: when it was served, and when it ran."""

    stamps: list[float] = field(default_factory=list)
    begins: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    # CPU time at each of the ends.
    used: list[float] = field(default_factory=list)
    # How long after it was sent each packet of a receiver was done with; none in the simulator.
    answers: list[float] = field(default_factory=list)

    def add_run(self, begin: float, length: float) -> None:
        self.begins.append(begin)
        self.ends.append(begin + length)
        self.used.append((self.used[-1] if self.used else 0.0) + length)

    def cpu_s(self, at: float) -> float:
        """CPU time until then."""
        index = bisect_right(self.ends, at)
        used = self.used[index - 1] if index else 0.0
        if index < len(self.begins):
            used += max(0.0, at - self.begins[index])
        return used

    def share_percent(self, begin: float, end: float) -> float:
        return 100 * (self.cpu_s(end) - self.cpu_s(begin)) / (end - begin)

    def stamps_per_s(self, begin: float, end: float) -> float:
        return (bisect_right(self.stamps, end) - bisect_right(self.stamps, begin)) / (end - begin)

    def gaps_ms(self, begin: float = 0.0) -> list[float]:
        """Times between stamps, of those that end at `begin` or later."""
        return [1000 * (later - earlier) for earlier, later in pairwise(self.stamps) if later >= begin]

    def cpu_until_each(self, portion_s: float) -> list[tuple[float, float]]:
        """Time, and share in percent since the point before, whenever at least so much more was used."""
        points, begin, used = [], 0.0, 0.0
        for end, total in zip(self.ends, self.used, strict=True):
            if total - used >= portion_s:
                points.append((end, 100 * (total - used) / (end - begin)))
                begin, used = end, total
        return points


def of_processes(tasks: dict) -> dict[str, Timeline]:
    """What the processes of a guest say of themselves, in us."""
    lines: dict[str, Timeline] = {}
    for name, said in tasks.items():
        line = lines[name] = Timeline()
        line.stamps = [stamp / 1e6 for stamp in said["stamps_us"]]
        line.answers = [answer / 1e6 for answer in said["answers_us"]]
        for begin, end in said["ran_us"]:
            line.add_run(begin / 1e6, (end - begin) / 1e6)
    return lines


def read(trace: Path) -> dict[str, Timeline]:
    """The tasks by name. Line by line: traces are large, and most of their records are not about this."""
    names: dict[int, str] = {}
    lines: dict[int, Timeline] = {}
    with trace.open() as text:
        for record in map(_record, text):
            if record is None:
                continue
            line = lines.setdefault(record["tid"], Timeline())
            if record["name"] == "thread_name":
                names[record["tid"]] = record["args"]["name"]
            elif record["name"] == "due event":
                line.stamps.append(record["ts"] / 1e6)
            elif record["name"].startswith("on CPU"):
                line.add_run(record["ts"] / 1e6, record["dur"] / 1e6)
    return {name: lines[track] for track, name in names.items()}


def _record(line: str) -> dict | None:
    """A record of a task's track that says a name, a due event or a time on a CPU."""
    if f'"pid":{TASKS}' not in line:
        return None
    if not any(f'"name":"{name}' in line for name in ("thread_name", "due event", "on CPU")):
        return None
    return json.loads(line.rstrip().rstrip(","))
