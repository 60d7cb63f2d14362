# SPDX-License-Identifier: MIT OR Apache-2.0
"""A video that has reserved, beside programs that reserve, change, lend and release all the time: simulated.

The simulated daemon answers at once, so that requests come as fast as those who ask have the CPU: harder than
any guest. Under EEVDF the same programs are moved between cgroups, whose weights are the rates.
"""

from __future__ import annotations

from ..commits import SIMULATION
from ..model import Experiment, Extract, Row, Run, Samples, of
from ..workloads import Length, simulated

CPUS = (1, 4)
WARMUP_S = 2
STATISTICS = ("p50", "p99", "max")
VIDEO = {"class": "guaranteed", "rate": 0.3, "period": "33ms"}
# Of a CPU; in pieces that do not fall into step with anything.
PIECE = {"uniform": ["10us", "600us"]}
# What the video leaves of its class, in four parts for each CPU.
SMALL = {"class": "guaranteed", "rate": 0.05, "period": "1ms"}


def reserve(rate: float, period: str, part: str = "guaranteed") -> dict:
    return {"class": part, "rate": rate, "period": period}


def held(cpus: int) -> dict:
    """Nobody asks: tasks keep what they have reserved."""
    return {"client": {"instance": 4 * cpus, "hog": True, "reserve": SMALL}}


def renewed(cpus: int) -> dict:
    """As many as fit release what they have, and reserve it again, after each piece of work."""
    again = {"loop": -1, "reserve": SMALL, "run": "300us", "release": ""}
    return {"client": {"instance": 4 * cpus, "phases": {"again": again}}}


def storm(cpus: int) -> dict:
    """More than fit, so that many are refused, in all ways that there are."""
    phase = {
        "loop": -1,
        "reserve": reserve(0.02, "10ms"),
        "run": PIECE,
        "lend": {"to": "holder", "rate": 0.01},
        "run1": PIECE,
        "recollect": "holder",
        "reserve1": reserve(0.05, "1ms", "adaptive"),
        "run2": PIECE,
        "reserve2": reserve(0.1, "100ms"),
        "run3": PIECE,
        "release": "",
        "run4": PIECE,
    }
    return {
        "holder": {"hog": True, "reserve": reserve(0.05, "100ms")},
        "client": {"instance": 20 * cpus, "phases": {"ask": phase}},
    }


SITUATIONS = {"held": held, "renewed": renewed, "storm": storm}


def experiment(length: Length) -> Experiment:
    runs: list[Run] = []
    rows: list[Row] = []
    for cpus in CPUS:
        runs.append(simulated(f"alone.{cpus}", scenario(length, cpus, {})))
        for name, make in SITUATIONS.items():
            tasks = {**make(cpus), "hog": {"instance": 4 * cpus, "hog": True}}
            runs.append(simulated(f"{name}.{cpus}", scenario(length, cpus, tasks)))
            if name == "storm":
                by_weights = scenario(length, cpus, in_cgroups(tasks))
                by_weights["cgroups"] = WEIGHTS
                runs.append(simulated(f"{name}.{cpus}.eevdf", by_weights, "eevdf"))
            rows += rows_of(name, cpus)
    title = "A storm of reservations, simulated"
    return Experiment("rate_storm", title, tuple(runs), tuple(rows), starts=1, measures=SIMULATION)


def rows_of(name: str, cpus: int) -> list[Row]:
    others = {"alone": f"alone.{cpus}", **({"eevdf": f"{name}.{cpus}.eevdf"} if name == "storm" else {})}
    return [
        Row(
            f"rate.storm.{cpus}cpu.{name}.late_{statistic}_ms",
            "ms",
            late(f"{name}.{cpus}", statistic),
            against={other: late(run, statistic) for other, run in others.items()},
        )
        for statistic in STATISTICS
    ] + [Row(f"rate.storm.{cpus}cpu.{name}.frames_per_s", "1/s", of(f"{name}.{cpus}", "total.frames_per_s"))]


def late(run: str, statistic: str) -> Extract:
    """How late the video is served when a frame is due."""
    return lambda samples: video(samples, run)["tardiness"][f"{statistic}_ms"]


def video(samples: Samples, run: str) -> dict:
    (result,) = samples.results(run)
    return next(row for row in result["tasks"] if row["name"] == "video")


def scenario(length: Length, cpus: int, others: dict) -> dict:
    return {
        "global": {"duration": f"{WARMUP_S + length.seconds}s", "warmup": f"{WARMUP_S}s"},
        "machine": {"cpus": cpus},
        "tasks": {
            "video": {"player": {"load": 0.25}, "reserve": VIDEO, "taskgroup": "/guaranteed/video"},
            **others,
        },
    }


# Per thousand of a CPU, as the default classes have it.
WEIGHTS = {
    "/guaranteed": {"weight": 500},
    "/guaranteed/video": {"weight": 300},
    "/guaranteed/others": {"weight": 200},
    "/adaptive": {"weight": 250},
    "/flexible": {"weight": 250},
}


def in_cgroups(tasks: dict) -> dict:
    """Each task where its class' cgroup is; a task that reserves moves there, and back when it releases."""
    moved = {}
    for name, task in tasks.items():
        group = "/guaranteed/others" if "reserve" in task else "/flexible"
        moved[name] = {**task, "taskgroup": group}
        if "phases" in task:
            moved[name]["phases"] = {
                "guaranteed": {"run": PIECE, "run1": PIECE, "taskgroup": "/guaranteed/others"},
                "adaptive": {"run": PIECE, "taskgroup": "/adaptive"},
                "again": {"run": PIECE, "taskgroup": "/guaranteed/others"},
                "released": {"run": PIECE, "taskgroup": "/flexible"},
            }
    return moved
