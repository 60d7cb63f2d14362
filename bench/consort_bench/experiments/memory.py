# SPDX-License-Identifier: MIT OR Apache-2.0
"""Memory that the scheduler spends on a task, a CPU and a cgroup, and with its daemon on a program."""

from ..commits import RESERVATIONS
from ..guest import SERVE_CGROUP
from ..model import Experiment, Row, Run, Samples, Scheduler, Settings, Target, of, reading
from ..workloads import Length

IN_A_CGROUP = Settings(own_cgroup=True)
THREADS = ("memory", "--kind", "threads", "--count", "4000", "--cgroup", SERVE_CGROUP)
# The kernel counts by batches of 64 pages, and a member's mapping is four, one of which is the map's own.
MEMBERS = ("memory", "--kind", "members", "--count", "224", "--cgroup", SERVE_CGROUP)
IDLE = ("memory", "--kind", "idle", "--cgroup", SERVE_CGROUP)
CGROUPS = ("memory", "--kind", "cgroups", "--count", "200", "--cgroup", SERVE_CGROUP)
FEW, MANY, MOST = 4, 16, 64
IDLE_ON = {cpus: Settings(own_cgroup=True, cpus=cpus) for cpus in (FEW, MANY)}


def per_cpu(samples: Samples) -> float:
    """What each further CPU takes; what there is one of in any machine is not divided."""
    few, many = (samples.value(f"idle.{cpus}", "bytes.kernel") for cpus in (FEW, MANY))
    return (many - few) / (MANY - FEW)


def experiment(_length: Length) -> Experiment:
    runs = (
        Run("members", Scheduler.CONSORT, MEMBERS, 15, IN_A_CGROUP),
        Run("threads", Scheduler.CONSORT, THREADS, 15, IN_A_CGROUP),
        Run("cgroups", Scheduler.CONSORT, CGROUPS, 15, Settings(own_cgroup=True, cpus=MOST)),
        *(Run(f"idle.{cpus}", Scheduler.CONSORT, IDLE, 5, settings) for cpus, settings in IDLE_ON.items()),
    )
    rows = (
        Row("memory.task_bytes", "B", of("threads", "bytes.kernel"), Target(at_most=512)),
        Row("memory.cpu_bytes", "B", reading(("idle.4", "idle.16"), per_cpu), Target(at_most=65536)),
        # On 64 CPUs: a group for each place, which are the CPUs and their caches.
        Row("memory.cgroup_bytes", "B", of("cgroups", "bytes.kernel")),
        # Its mapping; then with its connection and all else in the kernel; then the daemon's own memory.
        Row("memory.client_bytes", "B", of("members", "bytes.vmalloc"), Target(at_most=8192)),
        Row("memory.client_kernel_bytes", "B", of("members", "bytes.kernel")),
        Row("memory.client_daemon_bytes", "B", of("members", "bytes.anon")),
    )
    return Experiment("memory", "Memory of tasks and programs", runs, rows, measures=RESERVATIONS)
