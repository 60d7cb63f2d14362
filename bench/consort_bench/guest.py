# SPDX-License-Identifier: MIT OR Apache-2.0
"""Boots guests through vm/run, and remembers what they answered.

A boot runs, one after the other, the workloads of one experiment under one scheduler with one setting. The
guest counts instructions, so that the same inputs give the same outputs to the bit: outputs are kept by a
hash of the inputs, and an interrupted bench goes on where it was.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

from . import children
from .model import GUEST_CLASSES, GUEST_SCENARIO, GuestFile, Run, Scheduler, Settings

ROOT = Path(__file__).resolve().parents[2]
# Where tools/setup and the player's build leave what they fetch and make.
USER_CACHE = Path(
    os.environ.get("CONSORT_CACHE")
    or Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "consort"
)
VM_RUN = ROOT / "vm" / "run"
TARGET = "x86_64-unknown-linux-gnu"
# Where cargo leaves what guests run.
BUILT = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / TARGET / "release"
GUEST_CONSORT = "/bin/consort"
# Schedulers that a guest needs the command for.
WITH_CONSORT = (Scheduler.CONSORT, Scheduler.OWN)
SERVE_CGROUP = "/sys/fs/cgroup/consort-bench"
# Host seconds to boot and settle, and for a busy guest second beside others: a run that hangs is to be ended
# by its guest, which says so and goes on with the next.
BOOT_S = 15
HOST_S_PER_GUEST_S = 6
# Guest seconds that loading may take: the kernel verifies the program, at 500 instructions to the us.
LOAD_TRIES = 60
# A run that takes this many times its length hangs.
HANG_FACTOR = 4


def built_static(package: str) -> GuestFile:
    """A program of this repository, static, as guests have no libraries."""
    words = ("cargo", "build", "--release", "--target", TARGET, "-p", package)
    return GuestFile(
        BUILT / package,
        f"/bin/{package}",
        f"bench/run builds it with {' '.join(words)}, unless it is told --no-build",
        ("env", "RUSTFLAGS=-C target-feature=+crt-static", *words),
    )


PLAYER = built_static("consort-bench-player")
CONSORT = GuestFile(
    BUILT.parents[1] / "guest" / "consort", "/bin/consort", "cli/build-static makes it", ("cli/build-static",)
)


class GuestError(Exception):
    """A guest did not come to its end."""


@dataclass(frozen=True)
class Boot:
    """The runs that share a guest."""

    experiment: str
    scheduler: Scheduler
    settings: Settings
    start: int
    runs: tuple[Run, ...]

    @property
    def guest_s(self) -> float:
        return sum(run.guest_s for run in self.runs)

    @property
    def files(self) -> list[GuestFile]:
        programs = [run.program for run in self.runs if run.program]
        return list(dict.fromkeys([*programs, *(file for run in self.runs for file in run.files)]))

    @property
    def is_alone(self) -> bool:
        """Whether it must run by itself: what divides counted time, or is timed.

        A guest with one CPU is exact beside any other one.
        """
        divides_time = self.settings.counted and self.settings.cpus > 1
        return divides_time or any(run.is_timed for run in self.runs)

    def label(self) -> str:
        settings = " ".join(self.settings.arguments())
        pages = "" if self.settings.huge_pages else "no huge pages"
        cpus = f"{self.settings.cpus} CPUs" if self.settings.cpus > 1 else ""
        emulator = f"QEMU {self.settings.emulator}" if self.settings.emulator else ""
        # Where an experiment has a guest for each run, else all of these would be called the same.
        alone = self.runs[0].name if len(self.runs) == 1 else ""
        parts = (
            self.experiment,
            self.scheduler.value,
            alone,
            settings,
            pages,
            cpus,
            emulator,
            f"start {self.start}",
        )
        return " ".join(part for part in parts if part)


@dataclass(frozen=True)
class Machine:
    """What is booted."""

    kernel: str
    player: Path
    consort: Path | None
    cache: Path

    def command(self, script: Path, out: Path, boot: Boot) -> list[str]:
        words = [str(VM_RUN), "--kernel", self.kernel, "--seed", str(boot.start)]
        words += ["--icount"] if boot.settings.counted else []
        words += ["--parallel"] if boot.settings.is_parallel else []
        limit_s = BOOT_S * 4 + HOST_S_PER_GUEST_S * sum(limit_guest_s(run) for run in boot.runs)
        words += ["--timeout", str(limit_s)]
        words += ["--cpus", str(boot.settings.cpus)] if boot.settings.cpus > 1 else []
        words += ["--qemu", boot.settings.qemu]
        words += ["--disk", str(boot.settings.disk.path)] if boot.settings.disk else []
        for module in boot.settings.modules:
            words += ["--module", module]
        words += ["--file", f"{self.player}:{PLAYER.guest_path}"]
        if boot.scheduler in WITH_CONSORT:
            words += ["--file", f"{self.consort}:{GUEST_CONSORT}"]
        for file in boot.files:
            words += ["--file", f"{file.path}:{file.guest_path}"]
        return [*words, "--out", str(out), str(script)]

    def digest(self, boot: Boot) -> str:
        """Of everything that an output depends on."""
        digest = hashlib.sha256(script_of(boot).encode())
        digest.update(f"{self.kernel} {boot.start}".encode())
        if boot.settings.cpus > 1:
            digest.update(f" {boot.settings.cpus} CPUs".encode())
        if boot.settings.qemu != "installed":
            digest.update(f" QEMU {boot.settings.qemu}".encode())
        if not boot.settings.counted:
            digest.update(b" not counted")
        if boot.settings.disk:
            path = boot.settings.disk.path
            digest.update(f" disk {_content(path, path.stat().st_mtime_ns)}".encode())
        if boot.settings.modules:
            digest.update(f" modules {boot.settings.modules}".encode())
        files = [self.player, *sorted((ROOT / "vm").glob("*")), *(file.path for file in boot.files)]
        if boot.scheduler in WITH_CONSORT and self.consort:
            files.append(self.consort)
        for file in files:
            if file.is_file():
                digest.update(hashlib.sha256(file.read_bytes()).digest())
                digest.update(_libraries(file).encode())
        return digest.hexdigest()[:32]

    def kept(self, boot: Boot) -> Path | None:
        """Where the outputs of an earlier, equal boot are."""
        folder = self.cache / self.digest(boot)
        return folder if (folder / "complete").exists() else None

    def run(self, boot: Boot) -> Path:
        """Boots, unless an equal boot was done before. Returns the folder of the outputs."""
        # Experiments may have equal boots: the second one waits for the first.
        with _lock_of(self.digest(boot)):
            return self.kept(boot) or self._boot(boot)

    def _boot(self, boot: Boot) -> Path:
        disk = [boot.settings.disk] if boot.settings.disk else []
        for file in [*boot.files, *disk]:
            if not file.path.exists():
                raise GuestError(f"{file.path} is missing: {file.maker}")
        self.cache.mkdir(parents=True, exist_ok=True)
        folder = self.cache / self.digest(boot)
        with tempfile.TemporaryDirectory(dir=self.cache) as work:
            script = Path(work) / "script"
            out = Path(work) / "out"
            script.write_text(script_of(boot))
            done = children.run(self.command(script, out, boot))
            if done.returncode != 0:
                # Not kept: the next bench tries again.
                raise GuestError(_reason(done, out))
            # The kernel's complaints belong to what was measured.
            (out / "complaints").write_text(done.stderr)
            (out / "complete").write_text("")
            shutil.rmtree(folder, ignore_errors=True)
            out.rename(folder)
        return folder


_locks: dict[str, threading.Lock] = {}


def _lock_of(digest: str) -> threading.Lock:
    # One step, whatever other threads do.
    return _locks.setdefault(digest, threading.Lock())


@functools.cache
def _content(large: Path, _changed_ns: int) -> str:
    """A hash of a large file, which is read once."""
    with large.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@functools.cache
def _libraries(program: Path) -> str:
    """Which versions of shared libraries come with a program, if it needs any; vm/run takes them along."""
    done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return ""
    paths = [Path(word) for word in done.stdout.split() if word.startswith("/")]
    sizes = [f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in paths]
    return "\n".join(sizes)


def _reason(done: subprocess.CompletedProcess[str], out: Path) -> str:
    log = out / "serve.log"
    said = log.read_text(errors="replace") if log.exists() else ""
    text = "\n".join(part for part in (said, done.stdout, done.stderr) if part.strip())
    return f"vm/run ended with status {done.returncode}, expected 0: {text.strip()[-1500:]}"


def limit_guest_s(run: Run) -> int:
    """When a run is taken to hang."""
    return int(run.guest_s * HANG_FACTOR) + 20


def script_of(boot: Boot) -> str:
    """What the guest runs: an output and an error file for each run, in /results."""
    lines = ["# Written by bench/run.", "set -u"]
    options = []
    if not boot.settings.huge_pages:
        lines += ["echo never >/sys/kernel/mm/transparent_hugepage/enabled"]
    if boot.scheduler is Scheduler.CONSORT:
        if boot.settings.classes:
            lines += [f"echo {shlex.quote(boot.settings.classes)} >{GUEST_CLASSES}"]
        serve = shlex.join([GUEST_CONSORT, "serve", *boot.settings.arguments()])
        enter = ""
        if boot.settings.own_cgroup:
            lines += [f"mkdir {SERVE_CGROUP}", "echo +memory >/sys/fs/cgroup/cgroup.subtree_control"]
            enter = f"echo 0 >{SERVE_CGROUP}/cgroup.procs; "
        lines += [
            f"({enter}exec {serve}) >/results/serve.log 2>&1 &",
            "server=$!",
            "tries=0",
            f"until {GUEST_CONSORT} status --json >/dev/null 2>&1; do",
            "    tries=$((tries + 1))",
            f"    if [ $tries -gt {LOAD_TRIES} ] || ! kill -0 $server; then",
            f"        echo 'the scheduler was not loaded within {LOAD_TRIES} s'; exit 1",
            "    fi",
            "    sleep 1",
            "done",
            "sleep 1",
        ]
        options = ["--consort", GUEST_CONSORT]
    for run in boot.runs:
        words = [word.format(seed=boot.start) for word in run.arguments]
        if run.scenario:
            lines += [f"cat >{GUEST_SCENARIO} <<'EOF'", run.scenario, "EOF"]
        program = run.program.guest_path if run.program else PLAYER.guest_path
        command = shlex.join(["timeout", str(limit_guest_s(run)), program, *options, *words])
        lines += [
            f"{command} >/results/{run.name}.json 2>/results/{run.name}.err",
            f"echo $? >/results/{run.name}.status",
        ]
    if boot.scheduler is Scheduler.CONSORT:
        lines += ["kill $server 2>/dev/null", "wait $server"]
    return "\n".join([*lines, "exit 0", ""])


def read_output(folder: Path, run: Run) -> tuple[dict | None, str]:
    """A run's output, or why there is none."""
    status = (folder / f"{run.name}.status").read_text().strip()
    if status != "0":
        said = (folder / f"{run.name}.err").read_text(errors="replace").strip()
        what = "did not end in time" if status == "143" else f"ended with status {status}"
        return None, f"{what}: {said}" if said else what
    return json.loads((folder / f"{run.name}.json").read_text()), ""
