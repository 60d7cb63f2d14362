# SPDX-License-Identifier: MIT OR Apache-2.0
"""The table that people read, made from results.json."""

from __future__ import annotations

from .model import Experiment


def markdown(entries: list[dict], experiments: list[Experiment], plots: list[str]) -> str:
    """The whole page. Missed targets come first, so that nobody overlooks them."""
    judged = [entry for entry in entries if entry["met"] is not None]
    missed = [entry for entry in judged if not entry["met"]]
    lines = [
        "# Results",
        "",
        "Written by `bench/run`; do not edit. One CPU in an instruction-counted guest (1 us is 500",
        "instructions), so a number is exact and repeatable; each is the median of as many starts as",
        "`results.json` says beside it.",
        "`eevdf` is the same workload under the kernel's stock scheduler in the same bench; `ideal` is the",
        "same players inside one process. What is called simulated ran in the simulator, under its models.",
        "",
        f"Targets met: {len(judged) - len(missed)} of {len(judged)}.",
        "",
    ]
    if missed:
        lines += ["Missed:", ""]
        lines += [f"- {_missed_line(entry)}" for entry in missed]
        lines += [""]
    for experiment in experiments:
        rows = [entry for entry in entries if entry["experiment"] == experiment.name]
        if rows:
            lines += [f"## {experiment.title}", "", *_table(rows), ""]
    for plot in plots:
        lines += [f"![{plot}]({plot})", ""]
    return "\n".join(lines)


def _missed_line(entry: dict) -> str:
    value = _number(entry["value"])
    why = f" ({_one_line(entry['missing'])})" if "missing" in entry else ""
    return f"`{entry['id']}` is {value} {entry['unit']}, target {entry['target']}{why}"


def _table(rows: list[dict]) -> list[str]:
    names = list(dict.fromkeys(name for entry in rows for name in entry["against"]))
    head = ["id", "value", "unit", "target", "", *names, "kernel"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for entry in rows:
        verdict = {True: "met", False: "**missed**", None: ""}[entry["met"]]
        against = [_number(entry["against"].get(name)) for name in names]
        cells = [f"`{entry['id']}`", _number(entry["value"]), entry["unit"], entry["target"] or ""]
        lines.append("| " + " | ".join([*cells, verdict, *against, entry["kernel"]]) + " |")
    return lines


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}" if abs(value) < 10000 else f"{value:.0f}"


def _one_line(text: str, characters_max: int = 160) -> str:
    line = " ".join(text.split()).replace("|", "/")
    return line if len(line) <= characters_max else line[:characters_max] + " ..."


def terminal(entries: list[dict]) -> str:
    """A short table for the terminal."""
    lines = []
    for entry in entries:
        verdict = {True: "met", False: "MISSED", None: ""}[entry["met"]]
        against = ", ".join(f"{name} {_number(value)}" for name, value in entry["against"].items())
        value = _number(entry["value"]) or "-"
        target = entry["target"] or ""
        lines.append(
            f"{entry['id']:42} {value:>9} {entry['unit']:12} {target:14} {verdict:6} {against}".rstrip()
        )
    return "\n".join(lines)
