# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs scenarios in the simulator, on this machine: what a guest is compared with."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

from .model import Run

# A scenario of 20 s takes well below a second.
LIMIT_S = 300


def output(consort: Path, run: Run, seed: int) -> tuple[dict | None, str]:
    """What `consort sim run --json` says about the run's scenario, or why it says nothing."""
    with tempfile.TemporaryDirectory() as folder:
        scenario = Path(folder) / f"{run.name}.json"
        scenario.write_text(run.scenario)
        words = [str(consort), "sim", "run", str(scenario), "--seed", str(seed), "--json"]
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            return None, f"did not end within {LIMIT_S} s"
    if done.returncode != 0:
        return None, f"consort sim run ended with status {done.returncode}: {done.stderr.strip()[-1500:]}"
    return {"result": json.loads(done.stdout), "kernel": ""}, ""
