# SPDX-License-Identifier: MIT OR Apache-2.0
"""A video that has reserved, beside processes of three users that storm the daemon, in the guest.

They reserve, change, lend, recollect, release, and ask for what must be refused, as fast as they are
answered. Under EEVDF the video has its cgroup's weights, and they make cgroups beside it, change their
weights and remove them: nobody admits that. Four CPUs share the instructions that one has alone.
"""

from __future__ import annotations

from dataclasses import replace

from ..commits import RESERVATIONS
from ..model import Experiment, Extract, Row, Run, Samples, Scheduler, Target, of
from ..workloads import Length
from .rates import against_cgroups, run

CLIENTS = 21
# Before the window, and until all has been given back.
AROUND_S = 10
CPUS = (1, 4)
LATE = ("p50", "p99", "max")
ANSWERS = ("p50", "p99")
# All CPUs of a guest share the instructions that one has alone.
INSTRUCTIONS_PER_US = 500
ANY = Target()
NONE = Target(at_most=0)
EACH_FRAME = Target(at_least=24)


def situations(cpus: int) -> dict[str, tuple[str, ...]]:
    hogs, storm = ("--hogs", str(2 * cpus)), ("--clients", str(CLIENTS))
    return {"alone": (), "hogs": hogs, "storm": storm, "storm_and_hogs": (*storm, *hogs)}


# What each storm is held against under the same scheduler.
CALM = {"storm": "alone", "storm_and_hogs": "hogs"}


def experiment(length: Length) -> Experiment:
    def runs_of(name: str, scheduler: Scheduler, *options: str) -> tuple[Run, ...]:
        runs = []
        for cpus in CPUS:
            words = ("storm", "--seconds", str(length.seconds // 2), "--seed", "{seed}", *options)
            words += ("--instructions-per-us", str(INSTRUCTIONS_PER_US // cpus))
            for situation, more in situations(cpus).items():
                made = run(
                    f"{name}.{cpus}.{situation}", scheduler, length.seconds // 2 + AROUND_S, *words, *more
                )
                runs.append(replace(made, settings=replace(made.settings, cpus=cpus)))
        return tuple(runs)

    after = run("after", Scheduler.CONSORT, length.seconds, "shares", "--seconds", str(length.seconds))
    rows = [row for cpus in CPUS for situation in CALM for row in rows_of(cpus, situation)]
    rows.append(
        Row("rate.guest_storm.window1s_after.error_percent", "%", of("after", "window_error_percent"))
    )
    title = "A storm of requests for reservations, in the guest"
    return Experiment(
        "rate_storm_guest",
        title,
        (*against_cgroups(runs_of), after),
        tuple(rows),
        starts=1,
        measures=RESERVATIONS,
    )


def rows_of(cpus: int, situation: str) -> list[Row]:
    prefix = f"rate.guest_storm.{cpus}cpu.{situation}"
    storm, calm = f"consort.{cpus}.{situation}", f"consort.{cpus}.{CALM[situation]}"
    kernel = f"eevdf.{cpus}.{situation}"

    def row(name: str, unit: str, path: str, target: Target = ANY, **against: str) -> Row:
        return Row(
            f"{prefix}.{name}",
            unit,
            of(storm, path),
            target,
            {it: of(at, path) for it, at in against.items()},
        )

    return [
        *(row(f"late_{it}_ms", "ms", f"delay.{it}_ms", calm=calm, eevdf=kernel) for it in LATE),
        row("frames_per_s", "1/s", "frames_per_s", EACH_FRAME, calm=calm, eevdf=kernel),
        row("video_percent", "%", "video_percent", calm=calm, eevdf=kernel),
        # Of those who may: EEVDF's others only hear that a cgroup is not theirs.
        Row(f"{prefix}.granted_per_s", "1/s", granted(storm), against={"eevdf": granted(kernel)}),
        row("answers_per_s", "1/s", "storm.answered_per_s"),
        *(row(f"answer_{it}_ms", "ms", f"storm.latency.{it}_ms") for it in ANSWERS),
        row("unanswered", "requests", "storm.unanswered", NONE),
        Row(f"{prefix}.books_wrong", "", wrong(storm), NONE),
        row("books_left", "", "books.left", NONE),
    ]


def granted(run: str) -> Extract:
    return lambda samples: samples.value(run, "storm.granted") / samples.value(run, "options.seconds")


def wrong(run: str) -> Extract:
    """How many differences there are between what was told and what is written, the most of all starts."""

    def value(samples: Samples) -> float:
        return max(len(result["books"]["wrong"]) for result in samples.results(run))

    return value
