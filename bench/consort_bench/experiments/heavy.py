# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a guest needs for heavy load, as `--heavy` of consort-bench-rates makes it."""

from __future__ import annotations

from dataclasses import replace

from ..guest import USER_CACHE
from ..model import GuestFile, Run

DISK = GuestFile(
    USER_CACHE / "heavy/disk.img", "/disk", "bench/heavy/make-disk makes it", ("bench/heavy/make-disk",)
)
# The network file system's server and client.
MODULES = ("nfsd", "nfsv4")
# Until every part of it is at work.
START_S = 15


def under_heavy_load(run: Run) -> Run:
    """The run, with `--heavy` after the name of its workload."""
    arguments = (*run.arguments[:1], "--heavy", *run.arguments[1:])
    settings = replace(run.settings, disk=DISK, modules=MODULES)
    return replace(run, arguments=arguments, settings=settings, guest_s=run.guest_s + START_S)
