# SPDX-License-Identifier: MIT OR Apache-2.0
"""Plans the boots of the chosen experiments, runs them, and gathers the samples."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import groupby

from . import native, simulator, verify
from .guest import BOOT_S, Boot, GuestError, Machine, read_output
from .model import Experiment, Run, Samples, Scheduler


def plan(experiments: list[Experiment], starts: int, with_consort: bool) -> list[Boot]:
    """The boots; those of Consort only if there is one."""
    boots = []
    for experiment in experiments:
        for start in range(1, (experiment.starts or starts) + 1):
            for (scheduler, settings), runs in groupby(_sorted(experiment.runs), _setup):
                if scheduler is not Scheduler.EEVDF and not with_consort:
                    continue
                for part in _parts(tuple(runs), experiment.runs_per_guest):
                    boots.append(Boot(experiment.name, scheduler, settings, start, part))
    return boots


def _parts(runs: tuple[Run, ...], length: int | None) -> list[tuple[Run, ...]]:
    length = length or len(runs)
    return [runs[first : first + length] for first in range(0, len(runs), length)]


def _setup(run: Run):
    return run.scheduler, run.settings


def _sorted(runs: tuple[Run, ...]) -> list[Run]:
    """Equal setups side by side, otherwise in order."""
    setups = list(dict.fromkeys(_setup(run) for run in runs))
    return sorted(runs, key=lambda run: setups.index(_setup(run)))


class Progress:
    """Says what was done, and estimates the rest from what a guest second took so far."""

    def __init__(self, boots: list[Boot], jobs: int) -> None:
        self._jobs = jobs
        self._total = len(boots)
        self._done = 0
        self._left_s = sum(boot.guest_s + BOOT_S for boot in boots)
        self._run_s = 0.0
        self._began = time.monotonic()

    def done(self, boot: Boot, kept: bool, note: str) -> None:
        self._done += 1
        self._left_s -= boot.guest_s + BOOT_S
        if not kept:
            self._run_s += boot.guest_s + BOOT_S
        took_s = time.monotonic() - self._began
        rate = took_s / self._run_s if self._run_s else 0.5 / self._jobs
        left = f"about {_duration(self._left_s * rate)} left" if self._done < self._total else ""
        kept_text = " (kept)" if kept else ""
        text = f"[{self._done:3}/{self._total}] {boot.label()}{kept_text}{note} {left}"
        print(text.rstrip(), flush=True)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def run(boots: list[Boot], machine: Machine, jobs: int) -> dict[str, Samples]:
    """Runs all boots, `jobs` at a time: guests that count instructions do not disturb each other."""
    samples: dict[str, Samples] = {}
    fresh = [boot for boot in boots if not machine.kept(boot)]
    print(f"{len(boots)} guests, {len(boots) - len(fresh)} of them kept from before", flush=True)
    progress = Progress(boots, jobs)
    outputs: dict[Boot, list[tuple[Run, dict | None, str]]] = {}
    with ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(_boot, machine, boot): boot for boot in boots}
        try:
            for future in as_completed(futures):
                boot = futures[future]
                outputs[boot], kept = future.result()
                faults = sum(1 for _, _, reason in outputs[boot] if reason)
                progress.done(boot, kept, f", {faults} RUNS FAILED" if faults else "")
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    # In the order of the plan, so that the same inputs give the same file.
    for boot in boots:
        of_experiment = samples.setdefault(boot.experiment, Samples())
        for one, output, reason in outputs[boot]:
            if output is None or reason:
                of_experiment.add_fault(one.name, f"start {boot.start}: {reason}")
            else:
                of_experiment.add(one.name, output)
    return samples


def _boot(machine: Machine, boot: Boot) -> tuple[list[tuple[Run, dict | None, str]], bool]:
    if boot.scheduler is Scheduler.NATIVE:
        return [(one, *native.output(one)) for one in boot.runs], False
    if boot.scheduler is Scheduler.SIMULATOR:
        simulated = [(one, *simulator.output(machine.consort, one, boot.start)) for one in boot.runs]
        return simulated, False
    kept = machine.kept(boot) is not None
    try:
        folder = machine.run(boot)
    except GuestError as error:
        return [(one, None, str(error)) for one in boot.runs], kept
    results = []
    for one in boot.runs:
        output, reason = read_output(folder, one)
        results.append((one, output, reason or verify.fault(one, output or {})))
    return results, kept
