# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs the simulator on this machine: scenarios that guests are compared with, and what it says of itself."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

from . import children, timeline
from .model import Run

# A scenario of 20 s takes well below a second.
LIMIT_S = 300


# Eighteen planted bugs, a minute each, beside what their builds take.
MEASURE_LIMIT_S = 2400
REPOSITORY = Path(__file__).resolve().parents[2]


def measured(run: Run) -> tuple[dict | None, str]:
    """What a program of the simulator's own says about it, or why it says nothing."""
    words = [str(REPOSITORY / run.arguments[0]), *run.arguments[1:]]
    try:
        done = children.run(words, MEASURE_LIMIT_S)
    except subprocess.TimeoutExpired:
        return None, f"did not end within {MEASURE_LIMIT_S} s"
    if done.returncode != 0:
        return (
            None,
            f"{' '.join(run.arguments)} ended with status {done.returncode}: {done.stderr.strip()[-1500:]}",
        )
    return {"result": json.loads(done.stdout), "kernel": ""}, ""


def output(consort: Path, run: Run, seed: int) -> tuple[dict | None, str]:
    """What `consort sim run --json` says about the run's scenario, or why it says nothing."""
    if run.arguments:
        return measured(run)
    with tempfile.TemporaryDirectory() as folder:
        scenario = Path(folder) / f"{run.name}.json"
        scenario.write_text(run.scenario)
        words = [str(consort), "sim", "run", str(scenario), "--seed", str(seed), "--json"]
        words += ["--as", run.configuration, *(("--report", folder) if run.traced else ())]
        try:
            done = children.run(words, LIMIT_S)
        except subprocess.TimeoutExpired:
            return None, f"did not end within {LIMIT_S} s"
        if done.returncode != 0:
            reason = f"consort sim run ended with status {done.returncode}: {done.stderr.strip()[-1500:]}"
            return None, reason
        result = json.loads(done.stdout)
        if run.traced:
            if done.stderr.strip():
                return None, f"the trace may not be whole: {done.stderr.strip()}"
            result["timelines"] = timeline.read(Path(folder) / "trace.json")
    return {"result": result, "kernel": ""}, ""
