# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kernel memory that the scheduler spends on a task, and on a program that joined."""

from ..model import Experiment, Row, Run, Samples, Scheduler, Target
from ..workloads import Length

THREADS = ("memory", "--kind", "threads", "--count", "4000")
PROGRAMS = ("memory", "--kind", "programs", "--count", "200")
MEMBERS = ("memory", "--kind", "members", "--count", "200")


def experiment(_length: Length) -> Experiment:
    runs = (
        Run("eevdf.threads", Scheduler.EEVDF, THREADS, 5),
        Run("consort.threads", Scheduler.CONSORT, THREADS, 5),
        Run("consort.programs", Scheduler.CONSORT, PROGRAMS, 5),
        Run("consort.members", Scheduler.CONSORT, MEMBERS, 5),
    )
    rows = (
        Row(
            "memory.task_bytes",
            "B",
            _difference("consort.threads", "eevdf.threads"),
            Target(at_most=512),
        ),
        Row(
            "memory.client_bytes",
            "B",
            _difference("consort.members", "consort.programs"),
            Target(at_most=8192),
        ),
    )
    return Experiment("memory", "Kernel memory of tasks and programs", runs, rows)


def _difference(run: str, base: str):
    def value(samples: Samples) -> float:
        return samples.value(run, "kernel_bytes") - samples.value(base, "kernel_bytes")

    return value
