# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs the simulator on this machine: scenarios that guests are compared with, and what it says of itself."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

from . import children, timeline
from .commits import ROOT
from .model import Run

# A scenario of 20 s takes well below a second.
LIMIT_S = 300
# Programs of the simulator's own: eighteen planted bugs, a minute each, beside what their builds take; mixes.
PROGRAM_LIMIT_S = 2400
# With which the command says that a rule was broken.
RULE_BROKEN = 8
CONSORT = "consort"


def output(consort: Path | None, run: Run, seed: int) -> tuple[dict | None, str]:
    """What the simulator says about a run, or why it says nothing."""
    if consort is None and run.arguments[:1] in ((), (CONSORT,)):
        return None, "there is no consort command to simulate with"
    if run.arguments:
        program, *rest = run.arguments
        path = consort if program == CONSORT else ROOT / program
        return _said(run, [str(path), *rest], PROGRAM_LIMIT_S)
    with tempfile.TemporaryDirectory() as folder:
        scenario = Path(folder) / f"{run.name}.json"
        scenario.write_text(run.scenario)
        words = [str(consort), "sim", "run", str(scenario), "--seed", str(seed), "--json"]
        words += ["--as", run.configuration, *(("--report", folder) if run.traced else ())]
        said, reason = _said(run, words, LIMIT_S)
        if said and run.traced:
            said["result"]["timelines"] = timeline.read(Path(folder) / "trace.json")
    return said, reason


def _said(run: Run, words: list[str], limit_s: float) -> tuple[dict | None, str]:
    try:
        done = children.run(words, limit_s)
    except subprocess.TimeoutExpired:
        return None, f"did not end within {limit_s} s"
    complaint = done.stderr.strip()[-1500:]
    if done.returncode not in ((0,) if run.broken_rules_fail else (0, RULE_BROKEN)):
        return None, f"{' '.join(words[:3])} ended with status {done.returncode}: {complaint}"
    if run.traced and complaint:
        return None, f"the trace may not be whole: {complaint}"
    return {"result": json.loads(done.stdout), "kernel": ""}, ""
