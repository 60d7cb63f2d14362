# SPDX-License-Identifier: MIT OR Apache-2.0
"""Plans the boots of the chosen experiments, runs them, and gathers the samples."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby

from . import children, native, simulator, verify
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
    """Says what was done, a line each, and estimates the rest from what a guest second took so far."""

    def __init__(self, boots: list[Boot], jobs: int) -> None:
        self._jobs = jobs
        self._total = len(boots)
        self._done = 0
        self._left = list(boots)
        self._guest_s = self._host_s = 0.0

    def done(self, outcome: Outcome) -> None:
        boot = outcome.boot
        self._done += 1
        self._left.remove(boot)
        if not outcome.kept:
            self._guest_s += boot.guest_s + BOOT_S
            self._host_s += outcome.host_s
        faults = sum(1 for _, _, reason in outcome.outputs if reason)
        parts = ["kept" if outcome.kept else _duration(outcome.host_s)]
        parts += [f"{faults} OF {len(outcome.outputs)} RUNS FAILED"] if faults else []
        parts += [f"about {_duration(self._left_s())} left"] if self._left else []
        print(f"[{self._done:3}/{self._total}] {boot.label()}: {', '.join(parts)}", flush=True)

    def _left_s(self) -> float:
        rate = self._host_s / self._guest_s if self._guest_s else 0.5
        return rate * sum((it.guest_s + BOOT_S) / (1 if it.is_alone else self._jobs) for it in self._left)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


@dataclass(frozen=True)
class Outcome:
    """What became of a boot's runs: of each its output, or why there is none."""

    boot: Boot
    outputs: list[tuple[Run, dict | None, str]]
    kept: bool
    host_s: float


Finished = Callable[[str, Samples], None]


def run(boots: list[Boot], machine: Machine, jobs: int, finished: Finished) -> None:
    """Runs all boots, and tells `finished` the samples of each experiment as soon as it is done.

    Those that are exact run first, `jobs` at a time: who counts instructions is not disturbed by others.
    """
    fresh = [boot for boot in boots if not machine.kept(boot)]
    print(f"{len(boots)} boots, {len(boots) - len(fresh)} of them kept from before", flush=True)
    progress = Progress(boots, jobs)
    gathered = Gathered(boots, finished)
    for part, at_a_time in (
        ([boot for boot in boots if not boot.is_alone], jobs),
        ([boot for boot in boots if boot.is_alone], 1),
    ):
        with closing(_outcomes(part, machine, at_a_time)) as outcomes:
            for outcome in outcomes:
                progress.done(outcome)
                gathered.add(outcome)


def _outcomes(boots: list[Boot], machine: Machine, at_a_time: int) -> Iterator[Outcome]:
    """As they come to their end. Who closes this early, or interrupts it, ends what still runs."""
    with ThreadPoolExecutor(at_a_time) as pool:
        futures = [pool.submit(_boot, machine, boot) for boot in boots]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            children.stop()
            raise


class Gathered:
    """Outcomes by experiment, until one has all of its own."""

    def __init__(self, boots: list[Boot], finished: Finished) -> None:
        self._finished = finished
        self._outcomes: dict[str, list[Outcome]] = {}
        self._missing = Counter(boot.experiment for boot in boots)

    def add(self, outcome: Outcome) -> None:
        experiment = outcome.boot.experiment
        self._outcomes.setdefault(experiment, []).append(outcome)
        self._missing[experiment] -= 1
        if self._missing[experiment] == 0:
            self._finished(experiment, _samples(self._outcomes.pop(experiment)))


def _samples(outcomes: list[Outcome]) -> Samples:
    samples = Samples()
    # In an order of their own, so that the same inputs give the same file.
    for outcome in sorted(outcomes, key=lambda it: it.boot.start):
        for one, output, reason in outcome.outputs:
            if output is None or reason:
                samples.add_fault(one.name, f"start {outcome.boot.start}: {reason}")
            else:
                samples.add(one.name, outcome.boot.start, output)
    return samples


def _boot(machine: Machine, boot: Boot) -> Outcome:
    began = time.monotonic()
    kept = machine.kept(boot) is not None
    try:
        outputs = _outputs(machine, boot)
    except Exception as error:  # whatever it is, it is this boot's alone: others go on
        reason = str(error) if isinstance(error, GuestError) else f"{type(error).__name__}: {error}"
        outputs = [(one, None, reason) for one in boot.runs]
    return Outcome(boot, outputs, kept, time.monotonic() - began)


def _outputs(machine: Machine, boot: Boot) -> list[tuple[Run, dict | None, str]]:
    if boot.scheduler is Scheduler.NATIVE:
        return [(one, *native.output(one)) for one in boot.runs]
    if boot.scheduler is Scheduler.SIMULATOR:
        return [(one, *simulator.output(machine.consort, one, boot.start)) for one in boot.runs]
    folder = machine.run(boot)
    outputs = []
    for one in boot.runs:
        try:
            output, reason = read_output(folder, one)
            outputs.append((one, output, reason or verify.fault(one, output or {})))
        except (OSError, ValueError, KeyError) as error:
            # The guest came to its end, but not this run of it.
            outputs.append((one, None, f"left no output that can be read: {error!r}"))
    return outputs
