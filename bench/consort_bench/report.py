# SPDX-License-Identifier: MIT OR Apache-2.0
"""The table that people read, made from results.json."""

from __future__ import annotations

from .commits import SHORT
from .model import Experiment


def markdown(
    entries: list[dict], experiments: list[Experiment], plots: list[str], marks: dict[str, str]
) -> str:
    """The whole page. Missed targets come first, so that nobody overlooks them.

    `marks` says by id why rows should be measured anew.
    """
    judged = [entry for entry in entries if entry["met"] is not None]
    missed = [entry for entry in judged if not entry["met"]]
    lines = [
        "# Results",
        "",
        "Written by `bench/run`; do not edit. One CPU in an instruction-counted guest (1 us is 500",
        "instructions), so a number is exact and repeatable; each is the median of its starts, of which the",
        "least and the most stand behind it with the commit that they are of. *Stale* is what was measured",
        "before the last change of what it measures, as of when this page was written; `bench/run --stale`",
        "says it of today. [How that is known](../../bench/README.md).",
        "`eevdf` is the same workload under the kernel's stock scheduler in the same bench; `ideal` is the",
        "same players inside one process. What is called simulated ran in the simulator, under its models.",
        "",
        f"Targets met: {len(judged) - len(missed)} of {len(judged)}. "
        f"Rows to be measured anew: {len(marks)} of {len(entries)}.",
        "",
    ]
    if missed:
        lines += ["Missed:", ""]
        lines += [f"- {_missed_line(entry)}" for entry in missed]
        lines += [""]
    for experiment in experiments:
        rows = [entry for entry in entries if entry["experiment"] == experiment.name]
        if rows:
            lines += [f"## {experiment.title}", "", *_table(rows, marks), ""]
    for plot in plots:
        lines += [f"![{plot}]({plot})", ""]
    return "\n".join(lines)


def _missed_line(entry: dict) -> str:
    is_none = entry["value"] is None
    said = "has no value" if is_none else f"is {_number(entry['value'])} {entry['unit']}"
    why = f" ({_one_line(entry['missing'])})" if "missing" in entry else ""
    return f"`{entry['id']}` {said}, target {entry['target']}{why}"


def _table(rows: list[dict], marks: dict[str, str]) -> list[str]:
    names = list(dict.fromkeys(name for entry in rows for name in entry["against"]))
    head = ["id", "value", "unit", "target", "", *names, "kernel", "measured on"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for entry in rows:
        verdict = {True: "met", False: "**missed**", None: ""}[entry["met"]]
        against = [_number(entry["against"].get(name)) for name in names]
        cells = [f"`{entry['id']}`", _number(entry["value"]), entry["unit"], entry["target"] or ""]
        last = [entry["kernel"], measured(entry, marks.get(entry["id"], ""))]
        lines.append("| " + " | ".join([*cells, verdict, *against, *last]) + " |")
    return lines


def measured(entry: dict, mark: str) -> str:
    """On which commit, by how many starts, and how far they are apart."""
    commit = entry["commit"][:SHORT] if entry.get("commit") else "unknown commit"
    # Not seen by the bench itself.
    if entry.get("commit") and entry.get("dirty") is None:
        commit += "?"
    parts = [commit + (" with changes" if entry.get("dirty") else "")]
    starts = entry.get("starts") or 0
    parts.append(f"{starts} start{'' if starts == 1 else 's'}")
    if starts > 1 and entry.get("min") is not None:
        parts.append(f"{_number(entry['min'])} to {_number(entry['max'])}")
    return ", ".join(parts) + ("; stale" if mark.startswith("stale") else "")


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
