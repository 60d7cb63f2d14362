# SPDX-License-Identifier: MIT OR Apache-2.0
"""What git knows: on which commit a row was measured, and whether what it measures has changed since."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHORT = 10

# What rows measure, tests and documentation left out.
SCHEDULER = ("core", ":!core/tests", "kernel", "abi")
CLIENT = ("client", ":!client/tests", ":!client/examples")
SERVICE = ("daemon", ":!daemon/tests", "rates")
# The model around the scheduler's source.
SIMULATOR = ("sim/src", "sim/shim", "sim/build.rs")
# Members of domains, in guests; those that reserve, there; and both in the simulator.
COOPERATION = (*SCHEDULER, *CLIENT)
RESERVATIONS = (*SCHEDULER, *CLIENT, *SERVICE)
SIMULATION = (*SCHEDULER, "rates", *SIMULATOR)


class GitError(Exception):
    """Git did not answer."""


@dataclass(frozen=True)
class Commit:
    """Of a measurement: what its programs were built from, and whether that has been committed."""

    # None where nobody knows.
    id: str | None = None
    dirty: bool | None = None


UNKNOWN = Commit()


@dataclass
class Repository:
    """A work tree; remembers what it was told, for rows share their questions."""

    folder: Path = ROOT
    _changes: dict[tuple, str | None] = field(default_factory=dict)

    def head(self, paths: tuple[str, ...]) -> Commit:
        """The commit that is checked out; dirty where files in `paths` differ from it, or are new."""
        try:
            id = self._git("rev-parse", "HEAD")
            changed = self._git("status", "--porcelain", "--", *paths)
        except GitError:
            return UNKNOWN
        return Commit(id, bool(changed))

    def commit(self, name: str) -> str:
        """The full name of a commit; raises GitError if there is none."""
        try:
            return self._git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        except GitError as error:
            raise GitError(f"git knows no commit '{name}'; git log lists those that there are") from error

    def changed_since(self, id: str, paths: tuple[str, ...]) -> str | None:
        """The last commit after `id` that changed `paths`; empty if none, None if `id` is unknown."""
        key = (id, paths)
        if key not in self._changes:
            try:
                self._changes[key] = self._git("log", "-1", "--format=%H", f"{id}..HEAD", "--", *paths)
            except GitError:
                self._changes[key] = None
        return self._changes[key]

    def _git(self, *words: str) -> str:
        try:
            done = subprocess.run(
                ["git", "-C", str(self.folder), *words], capture_output=True, text=True, check=False
            )
        except OSError as error:
            raise GitError(str(error)) from error
        if done.returncode != 0:
            raise GitError(done.stderr.strip())
        return done.stdout.strip()


def mark(entry: dict, paths: tuple[str, ...], repository: Repository) -> str:
    """Why a row of results.json should be measured anew; empty if it need not be."""
    if not entry.get("commit"):
        return "unknown commit"
    since = repository.changed_since(entry["commit"], paths)
    if since is None:
        return "unknown commit"
    return f"stale since {since[:SHORT]}" if since else ""
