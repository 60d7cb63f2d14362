# SPDX-License-Identifier: MIT OR Apache-2.0
"""Was the scheduler that a run was meant for in charge, from its beginning to its end?

After an ejection the workload runs on under the stock scheduler and gives plausible numbers, which must not
count.
"""

from __future__ import annotations

from .model import Run, Scheduler


def fault(run: Run, output: dict) -> str:
    """What is wrong with an output's claim to its scheduler; empty if nothing is."""
    if run.scheduler is Scheduler.OWN:
        return ""
    before, after = output["scheduler"]["before"], output["scheduler"]["after"]
    if run.scheduler is Scheduler.EEVDF:
        loaded = [when["ops"] for when in (before, after) if when["state"] == "enabled"]
        return f"the sched_ext scheduler {loaded[0]} was loaded, expected none" if loaded else ""
    for when, name in ((before, "began"), (after, "ended")):
        if when["state"] != "enabled" or not when["ops"].startswith("consort"):
            return (
                f"when it {name} the scheduler was {when['ops'] or 'none'} ({when['state']}), "
                "expected consort (enabled)"
            )
    return _still_counters(run, before["status"], after["status"])


def _still_counters(run: Run, before: dict, after: dict) -> str:
    if before["daemon"]["pid"] != after["daemon"]["pid"]:
        return "the daemon was another one at the end"
    grown = {name for name, value in after["counters"].items() if value > before["counters"].get(name, 0)}
    wanted = set(run.moving) or set(after["counters"])
    if not grown & wanted:
        return f"none of the scheduler's counters {', '.join(sorted(wanted))} moved"
    return ""
