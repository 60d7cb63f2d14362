#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Merges the logs of consort-play processes that played at the same time.

Usage: apps/play/summary.py [--json] [--skip SECONDS] [--until SECONDS] LOG...

Prints, over all players: frames/s of each, their spread (coefficient of variation), the tardiness
of due events, and the sum of frames/s. --skip leaves out the frames that were due in the first
seconds, --until those that were due later than that. Exit status 1: a log is missing, cut off or empty."""

import argparse
import json
import statistics
import sys

ALL_S = 10**9


class LogError(Exception):
    pass


class Player:
    """One player's due events."""

    def __init__(self, name):
        self.name = name
        self.origin_ns = 0
        self.frames = []  # (due_ns, tardiness_ns, shown), in order
        self.summary = {}

    def between(self, skip_ns, until_ns):
        first_ns, end_ns = self.origin_ns + skip_ns, self.origin_ns + until_ns
        return [frame for frame in self.frames if first_ns <= frame[0] < end_ns]


def read_log(path):
    """The players of one process. Raises LogError."""
    players = {}
    origin_ns = None
    try:
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                record = json.loads(line)
                if record["type"] == "start":
                    origin_ns = record["origin_ns"]
                    continue
                number = record["player"]
                player = players.setdefault(number, Player(f"{path}:{number}"))
                if record["type"] == "summary":
                    player.summary = record
                    continue
                tardiness_ns = max(0, record["dispatch_ns"] - record["due_ns"])
                player.frames.append((record["due_ns"], tardiness_ns, record["shown"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LogError(f"{path}: not a log of consort-play: {error}") from error
    if origin_ns is None or not players or not all(p.summary for p in players.values()):
        raise LogError(f"{path}: cut off; the player did not end by itself")
    for player in players.values():
        player.origin_ns = origin_ns
    return [players[number] for number in sorted(players)]


def percentile(ordered, percent):
    return ordered[(len(ordered) - 1) * percent // 100] if ordered else 0


def frames_per_s(frames):
    """Frames shown per second of the time that frames were due."""
    if len(frames) < 2:
        return 0.0
    span_ns = (frames[-1][0] - frames[0][0]) * len(frames) / (len(frames) - 1)
    return sum(shown for _, _, shown in frames) * 1e9 / span_ns


def merge(players, skip_s=0.0, until_s=float(ALL_S)):
    """The figures of players that played at the same time, as a dictionary."""
    frames = [player.between(int(skip_s * 1e9), int(until_s * 1e9)) for player in players]
    rates = [frames_per_s(own) for own in frames]
    mean = statistics.fmean(rates)
    late_ms = sorted(frame[1] / 1e6 for own in frames for frame in own)
    if not late_ms:
        raise LogError("no frame was due in the time looked at")
    return {
        "players": len(players),
        "frames_per_s": [round(rate, 3) for rate in rates],
        "frames_per_s_sum": round(sum(rates), 3),
        "frames_per_s_cv_percent": round(100 * statistics.pstdev(rates) / mean, 3) if mean else None,
        "tardiness_mean_ms": round(statistics.fmean(late_ms), 4),
        "tardiness_p99_ms": round(percentile(late_ms, 99), 4),
        "tardiness_max_ms": round(late_ms[-1], 4),
        "due_events": len(late_ms),
        "wasted_pictures": sum(player.summary["wasted"] for player in players),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--skip", type=float, default=0.0, metavar="SECONDS",
                        help="leave out the first seconds")
    parser.add_argument("--until", type=float, default=float(ALL_S), metavar="SECONDS",
                        help="leave out what comes later")
    parser.add_argument("logs", nargs="+", metavar="LOG")
    arguments = parser.parse_args()
    try:
        figures = merge([p for path in arguments.logs for p in read_log(path)],
                        arguments.skip, arguments.until)
    except LogError as error:
        sys.exit(f"summary: error: {error}")
    if arguments.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:<26}{' '.join(map(str, value)) if isinstance(value, list) else value}")


if __name__ == "__main__":
    main()
