# SPDX-License-Identifier: MIT OR Apache-2.0
"""What an experiment is made of: runs, which give samples, and rows, which are judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from statistics import median

# Where a guest has the operator's file of classes.
GUEST_CLASSES = "/etc/bench-classes.toml"
# Where a guest has the scenario of the run that is next.
GUEST_SCENARIO = "/tmp/scenario.json"


class Scheduler(Enum):
    """Who schedules while a run lasts."""

    EEVDF = "eevdf"
    CONSORT = "consort"
    # Consort too, in virtual time on this machine: no guest.
    SIMULATOR = "simulator"
    # Consort, by daemons that the run's program starts itself: it answers for them being in charge.
    OWN = "own"
    # None that matters: a program on this machine, by its clock.
    NATIVE = "native"


# Those that a guest's programs are compared under.
COMPARED = (Scheduler.EEVDF, Scheduler.CONSORT)


@dataclass(frozen=True)
class GuestFile:
    """A file of this machine that a workload needs in the guest, and what makes it where it is missing."""

    path: Path
    guest_path: str
    maker: str
    # The command that brings it up to date before anything is measured; none where its maker is asked to.
    build: tuple[str, ...] = ()


@dataclass(frozen=True)
class Settings:
    """How `consort serve` is started, its default where a field is empty, and on what machine."""

    granularity: str = ""
    min_slice: str = ""
    # Whether the daemon is in a cgroup of its own, which counts its memory.
    own_cgroup: bool = False
    # The operator's file of classes: its text.
    classes: str = ""
    # Whether the kernel may merge a program's pages while it runs. Its thread has nice 19, and holds the
    # program's memory meanwhile: beside loops, for seconds.
    huge_pages: bool = True
    # Of a guest with several, time is counted over all of them: compare nothing but ratios of one run.
    cpus: int = 1
    # Whether the guest counts instructions. Else its clock is this machine's, and its CPUs are threads of
    # it where the emulator bears that.
    counted: bool = True
    # The emulator, where it is not the usual one.
    emulator: str = ""
    # The image of its disk, mounted at /disk, and kernel modules that it loads.
    disk: GuestFile | None = None
    modules: tuple[str, ...] = ()

    @property
    def qemu(self) -> str:
        """The emulator: that of vm/fetch-qemu divides time between several CPUs."""
        return self.emulator or ("10" if self.cpus > 1 else "installed")

    @property
    def is_parallel(self) -> bool:
        return not self.counted and self.qemu == "10"

    def arguments(self) -> list[str]:
        pairs = (("--granularity", self.granularity), ("--min-slice", self.min_slice))
        words = [word for option, value in pairs if value for word in (option, value)]
        return [*words, "--classes", GUEST_CLASSES] if self.classes else words


DEFAULTS = Settings()


@dataclass(frozen=True)
class Run:
    """One workload under one scheduler. `{seed}` in the arguments becomes the number of the start."""

    name: str
    scheduler: Scheduler
    arguments: tuple[str, ...]
    guest_s: float
    settings: Settings = DEFAULTS
    # Counters of `consort status` of which at least one must grow during the run.
    moving: tuple[str, ...] = ()
    files: tuple[GuestFile, ...] = ()
    # The scenario, which the simulator runs, or a guest's processes; its seed is the number of the start.
    scenario: str = ""
    # For the simulator: as what it is scheduled, and whether the result is to have each task's timeline too.
    configuration: str = "coop"
    traced: bool = False
    # What is run; the player if there is nothing here.
    program: GuestFile | None = None
    # For the simulator: whether no rule may be broken. Where one may, the rows judge what comes of it.
    broken_rules_fail: bool = True
    # Whether this machine's own clock is in its result: then nothing else may run beside it.
    is_timed: bool = False


class Missing(Exception):
    """A value that a row needs was not measured; the text says why."""


class NotRun(Missing):
    """Nobody tried to measure it: what was measured before still holds."""


class Samples:
    """The results of all starts of all runs of an experiment."""

    def __init__(self) -> None:
        # By run and number of the start.
        self._results: dict[str, dict[int, dict]] = {}
        self._faults: dict[str, list[str]] = {}
        self.kernels: set[str] = set()

    def add(self, run: str, start: int, output: dict) -> None:
        self._results.setdefault(run, {})[start] = output["result"]
        if output["kernel"]:
            self.kernels.add(output["kernel"])

    def add_fault(self, run: str, reason: str) -> None:
        self._faults.setdefault(run, []).append(reason)

    def faults(self) -> list[str]:
        return [f"{run}: {reason}" for run, reasons in self._faults.items() for reason in reasons]

    def starts(self) -> list[int]:
        """The numbers of the starts that all runs have."""
        numbers = [set(results) for results in self._results.values()]
        return sorted(set.intersection(*numbers)) if numbers else []

    def alone(self, start: int) -> Samples:
        """Of that start only."""
        one = Samples()
        one._results = {run: {start: it[start]} for run, it in self._results.items() if start in it}
        one._faults, one.kernels = self._faults, self.kernels
        return one

    def results(self, run: str) -> list[dict]:
        """Of all starts; raises Missing if any start of the run failed, for then a median would flatter."""
        if run in self._faults:
            raise Missing(f"{run}: {self._faults[run][0]}")
        if run not in self._results:
            raise NotRun(f"{run} was not run")
        return [result for _, result in sorted(self._results[run].items())]

    def values(self, run: str, path: str) -> list[float]:
        """One value a start: `path` is like "tardiness.mean_ms" or "bystanders.0.share_percent"."""
        return [_follow(result, path) for result in self.results(run)]

    def require(self, run: str, path: str, otherwise: str) -> None:
        """Raises Missing, with what is so `otherwise`, if a value is 0 in any start."""
        if not all(self.values(run, path)):
            raise Missing(f"{run}: {otherwise}")

    def value(self, run: str, path: str) -> float:
        return median(self.values(run, path))


def _follow(result: dict, path: str) -> float:
    node = result
    try:
        for step in path.split("."):
            node = node[int(step)] if isinstance(node, list) else node[step]
        return float(node)
    except (LookupError, TypeError, ValueError) as error:
        raise Missing(f"the result has no number {path}") from error


@dataclass(frozen=True)
class Target:
    """What a value should be.

    `reference` names an entry of the row's `against` that the bound is a factor of.
    """

    at_most: float | None = None
    at_least: float | None = None
    near: float | None = None
    tolerance: float = 0.0
    reference: str = ""

    def text(self) -> str:
        of = f" x {self.reference}" if self.reference else ""
        if self.at_most is not None:
            return f"<= {self.reference}" if of and self.at_most == 1 else f"<= {self.at_most:g}{of}"
        if self.at_least is not None:
            return f">= {self.at_least:g}{of}"
        if self.near is not None:
            return f"{self.near:g} +- {self.tolerance:g}"
        return ""

    def met(self, value: float, against: dict[str, float]) -> bool:
        unit = against[self.reference] if self.reference else 1.0
        return (
            (self.at_most is None or value <= self.at_most * unit)
            and (self.at_least is None or value >= self.at_least * unit)
            and (self.near is None or abs(value - self.near) <= self.tolerance)
        )


Extract = Callable[[Samples], float]


def of(run: str, path: str) -> Extract:
    """The median over the starts of a run."""
    return reading((run,), lambda samples: samples.value(run, path))


def over_stock(run: str, path: str) -> Extract:
    """Consort's number over EEVDF's."""
    return over(f"consort.{run}", f"eevdf.{run}", path)


def stock_over(run: str, path: str) -> Extract:
    """The reverse, of rates: what an operation takes, below 1 less than under EEVDF."""
    return over(f"eevdf.{run}", f"consort.{run}", path)


def over(one: str, other: str, path: str) -> Extract:
    """The number of one run over that of another one."""
    return reading((one, other), lambda samples: samples.value(one, path) / samples.value(other, path))


def reading(runs: Iterable[str], extract: Extract) -> Extract:
    """Says which runs it reads, so that others need not be run for it."""
    extract.runs = frozenset(runs)
    return extract


@dataclass(frozen=True)
class Row:
    """One number of the table."""

    id: str
    unit: str
    value: Extract
    target: Target = Target()
    against: dict[str, Extract] = field(default_factory=dict)

    def runs(self) -> frozenset[str] | None:
        """Those that it reads; None if it does not say."""
        read = [getattr(it, "runs", None) for it in (self.value, *self.against.values())]
        return None if None in read else frozenset().union(*read)


@dataclass(frozen=True)
class Experiment:
    """What is run together, and what is read from it."""

    name: str
    title: str
    runs: tuple[Run, ...]
    rows: tuple[Row, ...]
    # Whose changes make the rows stale: paths, as git log takes them.
    measures: tuple[str, ...] = field(kw_only=True)
    # Draws the experiment's own plots into a folder; returns the files' names.
    plot: Callable[[Samples, object], list[str]] | None = None
    # Number of starts, where the usual number is not worth its time.
    starts: int | None = None
    # Most runs that share a guest: an interrupted bench goes on from the last guest that came to its end.
    runs_per_guest: int | None = None
