# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs a program on this machine: for what no guest can hold, such as ten thousand programs."""

from __future__ import annotations

import json
import subprocess

from . import children
from .model import Run

LIMIT_S = 300


def output(run: Run) -> tuple[dict | None, str]:
    """What the run's program says, or why it says nothing."""
    program = run.program
    if program is None or not program.path.is_file():
        return None, f"there is no {program and program.path}: {program and program.maker}"
    try:
        words = [str(program.path), *run.arguments]
        done = children.run(words, LIMIT_S)
    except subprocess.TimeoutExpired:
        return None, f"did not end within {LIMIT_S} s"
    if done.returncode != 0:
        return None, f"ended with status {done.returncode}: {done.stderr.strip()[-1500:]}"
    return {"result": json.loads(done.stdout), "kernel": "native"}, ""
