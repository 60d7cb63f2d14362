# SPDX-License-Identifier: MIT OR Apache-2.0
"""Simulated machines of 16 to 256 CPUs: shares, promises, messages, and tasks that stay where they are."""

from __future__ import annotations

from ..commits import SIMULATION
from ..model import Experiment, Extract, Missing, Row, Samples, Target, reading
from ..workloads import Length, simulated

SIZES = (16, 64, 256)
CPUS_OF_A_CACHE = 8
WARMUP_S = 2
# Messages are millions a second on 256 CPUs, and nothing changes.
MESSAGES_S, MESSAGES_WARMUP_S = 0.2, 0.1
# The simulator counts how often a lock was waited for, not how long: there is no row of that.
NICE_10_WEIGHT = 110 / 1024
CGROUPS = {"/web": 300, "/db": 50}
# Pairs that send each other an item after so much work, for each CPU.
PAIRS, WORK = 1, "20us"


def experiment(length: Length) -> Experiment:
    seconds = min(10, length.seconds)
    runs = [
        simulated(f"{kind.__name__}.{cpus}", scenario(kind(cpus), cpus, seconds), broken_rules_fail=False)
        for kind in (mixed, at_rest, even)
        for cpus in SIZES
    ]
    runs.append(simulated("promises", scenario(promises(64), 64, seconds, cache=4), broken_rules_fail=False))
    runs += [
        simulated(
            f"messages.{cpus}.{model}",
            scenario(messages(cpus), cpus, MESSAGES_S, warmup_s=MESSAGES_WARMUP_S),
            model,
            broken_rules_fail=False,
        )
        for cpus in SIZES
        for model in ("coop", "eevdf")
    ]
    rows = [
        Row("smp16.sim.share_error_percent", "%", share_error(16)),
        Row("smp64.sim.share_error_percent", "%", share_error(64), Target(at_most=2)),
        Row("smp256.sim.share_error_percent", "%", share_error(256), Target(at_most=3)),
        Row(
            "smp64.sim.reserved_least", "ratio", reading(("promises",), reserved_least), Target(at_least=0.99)
        ),
    ]
    for cpus in SIZES:
        ratio = f"smp{cpus}.sim.switch_heavy.ratio"
        rows.append(Row(ratio, "ratio", messages_ratio(cpus), Target(at_least=0.95)))
        for kind, name in ((at_rest, "migrations_per_s"), (even, "migrations_even_per_s")):
            rows.append(
                Row(
                    f"smp{cpus}.sim.{name}",
                    "1/s per CPU",
                    migrations(f"{kind.__name__}.{cpus}"),
                    Target(at_most=1),
                )
            )
    return Experiment(
        "smp_sim", "Many CPUs, simulated", tuple(runs), tuple(rows), starts=1, measures=SIMULATION
    )


def scenario(
    tasks: dict, cpus: int, seconds: float, cache: int = CPUS_OF_A_CACHE, warmup_s: float = WARMUP_S
) -> dict:
    weights = {path: {"weight": weight} for path, weight in CGROUPS.items()}
    return {
        "global": {
            "duration": f"{round(1000 * (warmup_s + seconds))}ms",
            "warmup": f"{round(1000 * warmup_s)}ms",
        },
        "machine": {"cpus": cpus, "llc": cpus // cache},
        "cgroups": weights,
        "queues": {task["put"]: 1 for task in tasks.values() if "put" in task},
        "tasks": tasks,
    }


def hogs(count: int, **keys) -> dict:
    return {"instance": count, "hog": True, **keys}


def mixed(cpus: int) -> dict:
    """Weights, cgroups, masks, reservations and a domain, all of which always want the CPU."""
    half, quarter = cpus // 2, cpus // 4
    return {
        "build": hogs(half),
        "batch": hogs(half, priority=10),
        "web": hogs(cpus, taskgroup="/web"),
        "db": hogs(half, taskgroup="/db"),
        "masked": hogs(quarter, cpus=list(range(half))),
        "reserved": hogs(quarter, reserve={"class": "guaranteed", "rate": 0.5}),
        "player": {"instance": quarter, "player": {"domain": "studio", "load": 1.5}},
    }


def due_percent(cpus: int) -> dict[str, float]:
    """What each task of `mixed` is due, in percent of a CPU.

    The class of those that have reserved is worth more than the CPU that each of them can use: they have one.
    The others divide the rest by weight, and none of them is due more than a CPU.
    """
    half, quarter = cpus // 2, cpus // 4
    weights = {path: weight / 100 for path, weight in CGROUPS.items()}
    full = half + 2 * quarter
    unit = 100 * (cpus - quarter) / (full + half * NICE_10_WEIGHT + sum(weights.values()))
    return {
        "build": unit,
        "masked": unit,
        "player": unit,
        "batch": unit * NICE_10_WEIGHT,
        "web": unit * weights["/web"] / cpus,
        "db": unit * weights["/db"] / half,
        "reserved": 100,
    }


def share_error(cpus: int) -> Extract:
    """How far the task that is furthest from what it is due is from it, in percent of a CPU.

    Of the domain that is its members on average: it shows as many frames of each, whatever they cost.
    """
    run = f"mixed.{cpus}"

    def worst(samples: Samples) -> float:
        (result,) = samples.results(run)
        if broken := result["violation"]:
            raise Missing(
                f"{run}: a rule was broken at {broken['at_ns'] / 1e9:.2f} s: {broken['detail'][:120]}"
            )
        due = due_percent(cpus)
        members = [task["share_percent"] for task in result["tasks"] if kind_of(task) == "player"]
        others = [task for task in result["tasks"] if kind_of(task) != "player"]
        errors = [task["share_percent"] - due[kind_of(task)] for task in others]
        errors.append(sum(members) / len(members) - due["player"])
        return max(map(abs, errors))

    return reading((run,), worst)


def kind_of(task: dict) -> str:
    return task["name"].rsplit("-", 1)[0]


def promises(cpus: int) -> dict:
    """Nearly all that can be promised, by rates that fit no cache evenly."""
    return {
        "large": hogs(cpus // 2, reserve={"class": "guaranteed", "rate": 0.7}),
        "small": hogs(cpus // 2, reserve={"class": "guaranteed", "rate": 0.25}),
        "hog": hogs(2 * cpus),
    }


def reserved_least(samples: Samples) -> float:
    """The least part of its promise that a task had."""
    rates = {"large": 70, "small": 25}
    (result,) = samples.results("promises")
    return min(
        task["share_percent"] / rates[kind_of(task)] for task in result["tasks"] if kind_of(task) in rates
    )


def at_rest(cpus: int) -> dict:
    """More than fit, and nothing changes: to have equal shares some have to take turns on other CPUs."""
    return {"hog": hogs(cpus + cpus // 4)}


def even(cpus: int) -> dict:
    """The same, where each CPU may have as many as the others: nobody has to go anywhere."""
    return {"hog": hogs(2 * cpus)}


def migrations(run: str) -> Extract:
    cpus = int(run.rsplit(".", 1)[1])

    def per_cpu(samples: Samples) -> float:
        (result,) = samples.results(run)
        return sum(task["migrations_per_s"] for task in result["tasks"]) / cpus

    return reading((run,), per_cpu)


def messages(cpus: int) -> dict:
    """Pairs of which one works when the other has sent an item."""
    tasks = {}
    for pair in range(PAIRS * cpus):
        there, back = f"there{pair}", f"back{pair}"
        tasks[f"ping{pair}"] = {"loop": -1, "run": WORK, "put": there, "take": back}
        tasks[f"pong{pair}"] = {"loop": -1, "take": there, "run": WORK, "put": back}
    return tasks


def messages_ratio(cpus: int) -> Extract:
    """Wake-ups under Consort over those under EEVDF's model, which has the same costs but for locks."""
    runs = f"messages.{cpus}.coop", f"messages.{cpus}.eevdf"

    def ratio(samples: Samples) -> float:
        def wakeups(run: str) -> float:
            (result,) = samples.results(run)
            return sum(task["wakeups_per_s"] for task in result["tasks"])

        return wakeups(runs[0]) / wakeups(runs[1])

    return reading(runs, ratio)
