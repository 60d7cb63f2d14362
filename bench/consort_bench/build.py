# SPDX-License-Identifier: MIT OR Apache-2.0
"""Brings the programs up to date that experiments run, so that a row's commit says what was measured."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from .guest import CONSORT, PLAYER, ROOT
from .model import Experiment, GuestFile, Scheduler

OF_GUESTS = (Scheduler.EEVDF, Scheduler.CONSORT, Scheduler.OWN)
# Who runs the consort command.
OF_CONSORT = (Scheduler.CONSORT, Scheduler.OWN, Scheduler.SIMULATOR)


class BuildError(Exception):
    """A program could not be built; its own complaints were shown."""


def programs(chosen: list[Experiment], player: Path | None, consort: Path | None) -> list[GuestFile]:
    """What they run; those that the caller gives are not built."""
    runs = [run for experiment in chosen for run in experiment.runs]
    schedulers = {run.scheduler for run in runs}
    found = []
    if schedulers.intersection(OF_GUESTS):
        found.append(GuestFile(player, "", "it was given with --player") if player else PLAYER)
    if schedulers.intersection(OF_CONSORT):
        found.append(GuestFile(consort, "", "it was given with --consort") if consort else CONSORT)
    found += [run.program for run in runs if run.program]
    found += [file for run in runs for file in run.files if file.build]
    found += [run.settings.disk for run in runs if run.settings.disk]
    return list(dict.fromkeys(found))


def build(files: list[GuestFile]) -> None:
    """Runs each one's command; what is up to date takes a second."""
    for file in files:
        if file.build:
            print(f"building {file.path.name}", flush=True)
            _build(file)
    for file in files:
        if not file.path.is_file():
            raise BuildError(f"there is no program {file.path}: {file.maker}")


def _build(file: GuestFile) -> None:
    environment = dict(os.environ)
    # Where rustup puts Rust, which not every login has on its path.
    environment["PATH"] = f"{environment.get('PATH', '')}:{Path.home() / '.cargo' / 'bin'}"
    try:
        # Where the program is, is nothing that the bench's output needs; complaints are.
        done = subprocess.run(file.build, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, check=False)
        ended = f"ended with status {done.returncode}" if done.returncode else ""
    except OSError as error:
        ended = f"could not be started: {error}"
    if ended:
        command = " ".join(file.build)
        raise BuildError(
            f"could not build {file.path.name}: '{command}' {ended}; tools/setup installs what it needs"
        )
