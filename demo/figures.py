# SPDX-License-Identifier: MIT OR Apache-2.0
"""The figures of the demo's rounds, from the logs of their players."""

import json

import summary
from summary import LogError

# Left out of every figure: until then players live on what they decoded before the first frame was due.
SKIP_S = 4.0

# Played at the end of a round, and left out too: players that have ended write their logs and exit, all at
# the same time, outside of any domain.
REST_S = 1

ROUNDS = {
    "eevdf": "stock EEVDF",
    "fair": "Consort, fair share",
    "coop": "Consort, cooperative",
    "user": "user level, cooperative",
    "ideal": "one process (ideal)",
}

# What is compared, by host.
ROUNDS_OF = {"kernel": ["eevdf", "fair", "coop", "ideal"], "user": ["eevdf", "user", "ideal"]}


class Round:
    def __init__(self, name, players, seconds, switches_per_s):
        """seconds: when the figures end, after the first frame."""
        self.name = name
        self.title = ROUNDS[name]
        self.players = players
        self.switches_per_s = switches_per_s
        self.seconds = seconds
        self.figures = summary.merge(players, SKIP_S, seconds)

    def tardiness_ms(self):
        """Of all due events, in order of size."""
        spans = [p.between(int(SKIP_S * 1e9), self.seconds * 10**9) for p in self.players]
        return sorted(late_ns / 1e6 for span in spans for _, late_ns, _ in span)

    def frames_in_each_second(self):
        """For each player, the number of frames shown in each whole second."""
        series = []
        for player in self.players:
            shown = [0] * self.seconds
            for due_ns, _, was_shown in player.frames:
                second = (due_ns - player.origin_ns) // 10**9
                if second < self.seconds:
                    shown[second] += was_shown
            series.append(shown)
        return series


def player_number(path):
    text = path.stem.removeprefix("player-")
    return int(text) if text.isdigit() else 0


def read_round(folder, name, seconds):
    """Raises LogError."""
    logs = sorted(folder.glob("player-*.json"), key=player_number)
    if not logs:
        raise LogError(f"{folder}: no logs; the round '{name}' did not run")
    try:
        switches_per_s = float((folder / "switches-per-s").read_text())
    except (OSError, ValueError) as error:
        raise LogError(f"{folder}: context switches were not counted: {error}") from error
    players = [p for log in logs for p in summary.read_log(log)]
    return Round(name, players, seconds, switches_per_s)


def throughput_percent(round_, rounds):
    """Frames shown, against one process that plays all; None if that was not played."""
    ideal = next((r for r in rounds if r.name == "ideal"), None)
    if not ideal or not ideal.figures["frames_per_s_sum"]:
        return None
    return 100 * round_.figures["frames_per_s_sum"] / ideal.figures["frames_per_s_sum"]


def write_json(path, rounds):
    rows = [
        {"round": r.name, **r.figures, "switches_per_s": r.switches_per_s,
         "throughput_percent": throughput_percent(r, rounds)}
        for r in rounds
    ]
    path.write_text(json.dumps(rows, indent=1) + "\n")
