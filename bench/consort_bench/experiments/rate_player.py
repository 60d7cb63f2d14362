# SPDX-License-Identifier: MIT OR Apache-2.0
"""A player with a reserved share, everybody else wanting all the rest (001, Tables 4.3 and 4.4, Figure 4.8).

The player needs what the paper's does: 15.6 of 27.8 frames/s with 20 % of the CPU, so 36 % for all; here
35 %. Its period is 60 ms: with a longer one it is later, with a shorter one more goes into switches.
SCHED_DEADLINE does not compare: it promises to one thread, which may then start no other.
"""

from ..commits import RESERVATIONS
from ..model import Experiment, Row, Run, Samples, Scheduler, Settings, Target, of
from ..workloads import Length
from .rates import BY_CGROUPS, run

# A quarter of the CPU is for best effort; the classes divide the rest.
CAPACITY = 75
CLASSES = Settings(classes=f"[class.guaranteed]\ncapacity = '{CAPACITY}%'\n")
DIVISION = ("--classes", "guaranteed=0.75,flexible=0.25")
TARGETS = {50: 99, 40: 98, 30: 85}
MEANS = {"consort": (), "eevdf": BY_CGROUPS}


def experiment(length: Length) -> Experiment:
    def player(name: str, means: str, percent: int, loaded: bool) -> Run:
        words = ("video", *DIVISION, "--load", "0.35", "--period-ms", "60", "--seconds", str(length.seconds))
        words += ("--promised", f"guaranteed={percent / 100}", "--seed", "{seed}", *MEANS[means])
        if loaded:
            words += ("--beside", f"guaranteed={(CAPACITY - percent) / 100}", "--hogs", "1")
        is_ours = means == "consort"
        return run(
            name,
            Scheduler.CONSORT if is_ours else Scheduler.EEVDF,
            length.seconds,
            *words,
            **({"settings": CLASSES} if is_ours else {}),
        )

    runs = (
        *(player(f"{means}.idle", means, 50, False) for means in ("consort", "eevdf")),
        *(player(f"{means}.{percent}", means, percent, True) for means in MEANS for percent in TARGETS),
    )
    rows = tuple(
        Row(
            f"rate.player{percent}.idle_fps_percent",
            "%",
            _of_idle("consort", percent),
            Target(at_least=target),
            {"eevdf": _of_idle("eevdf", percent)},
        )
        for percent, target in TARGETS.items()
    ) + tuple(
        Row(
            f"rate.player{percent}.delay_max_ms",
            "ms",
            of(f"consort.{percent}", "delay.max_ms"),
            Target(at_most=2) if percent == 40 else Target(),
            {"eevdf": of(f"eevdf.{percent}", "delay.max_ms")},
        )
        for percent in TARGETS
    )
    return Experiment("rate_player", "A player with a reserved share", runs, rows, measures=RESERVATIONS)


def _of_idle(means: str, percent: int):
    """Frames a second, in percent of what the player shows alone under the same scheduler."""

    def value(samples: Samples) -> float:
        shown = samples.value(f"{means}.{percent}", "frames_per_s")
        return 100 * shown / samples.value(f"{means}.idle", "frames_per_s")

    return value
