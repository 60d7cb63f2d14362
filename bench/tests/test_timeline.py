# SPDX-License-Identifier: MIT OR Apache-2.0
"""What is read from a trace: each number of docs/papers.md is made of these."""

import json
import sys
import tempfile
import tomllib
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from consort_bench import papers, timeline  # noqa: E402


def record(kind: str, name: str, **rest) -> dict:
    return {"ph": kind, "pid": timeline.TASKS, "tid": 1, "name": name, **rest}


# A CPU's track, and a task that waits, runs for 2 and for 3 ms, and is served at 2 and at 9 ms.
RECORDS = (
    {"ph": "X", "pid": 1, "tid": 1, "name": "on CPU", "ts": 0.0, "dur": 9000.0},
    record("M", "thread_name", args={"name": "loop-0"}),
    record("X", "waits", ts=0.0, dur=1000.0),
    record("X", "on CPU 0", ts=0.0, dur=2000.0),
    record("i", "due event", ts=2000.0, args={"due_us": 1000.0}),
    record("X", "on CPU 0", ts=6000.0, dur=3000.0),
    record("i", "due event", ts=9000.0, args={"due_us": 9000.0}),
)


class Timelines(unittest.TestCase):
    def setUp(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder) / "trace.json"
            lines = ",\n".join(json.dumps(one, separators=(",", ":")) for one in RECORDS)
            trace.write_text('{"traceEvents":[\n' + lines + "\n]}\n")
            self.tasks = timeline.read(trace)

    def test_only_tasks_are_read(self):
        self.assertEqual(list(self.tasks), ["loop-0"])
        self.assertEqual(papers.instances(self.tasks, "loop"), [self.tasks["loop-0"]])
        self.assertEqual(papers.instances(self.tasks, "lo"), [])

    def test_cpu_time_grows_only_while_the_task_runs(self):
        line = self.tasks["loop-0"]
        for at_ms, used_ms in ((0, 0), (1, 1), (4, 2), (7, 3), (9, 5), (20, 5)):
            self.assertAlmostEqual(1000 * line.cpu_s(at_ms / 1000), used_ms, 6, f"at {at_ms} ms")
        self.assertAlmostEqual(line.share_percent(0, 0.01), 50)

    def test_a_gap_counts_if_it_ends_later(self):
        line = self.tasks["loop-0"]
        self.assertAlmostEqual(line.gaps_ms(0.005)[0], 7)
        self.assertEqual(line.gaps_ms(0.01), [])

    def test_shares_are_measured_from_point_to_point(self):
        (point,) = self.tasks["loop-0"].cpu_until_each(0.004)
        self.assertAlmostEqual(point[0], 0.009)
        self.assertAlmostEqual(point[1], 100 * 5 / 9)

    def test_a_guest_says_the_same(self):
        said = {"stamps_us": [2000, 9000], "ran_us": [[0, 2000], [6000, 9000]], "answers_us": [300]}
        (line,) = timeline.of_processes({"loop-0": said}).values()
        self.assertEqual(line.stamps, self.tasks["loop-0"].stamps)
        self.assertAlmostEqual(line.cpu_s(0.007), self.tasks["loop-0"].cpu_s(0.007))
        self.assertAlmostEqual(line.answers[0], 0.0003)


class Scenarios(unittest.TestCase):
    def test_without_cgroups_nothing_else_changes(self):
        scenario = papers.load("004-figure-01")
        flat = papers.without_cgroups(scenario)
        self.assertNotIn("cgroups", flat)
        self.assertEqual(scenario["tasks"]["hog"]["taskgroup"], "/rest")
        self.assertEqual({**flat["tasks"]["hog"], "taskgroup": "/rest"}, scenario["tasks"]["hog"])

    def test_percentiles_are_values(self):
        self.assertEqual(papers.percentile([float(n) for n in range(200, 0, -1)], 99), 198)
        self.assertEqual(papers.percentile([7.0], 99), 7)


class InGuests(unittest.TestCase):
    def test_classes_are_those_of_the_daemon(self):
        text = papers.classes_file(papers.load("004-figure-09"))
        classes = tomllib.loads(text)["class"]
        self.assertEqual(
            classes, {"guaranteed": {"capacity": 0.3}, "ob70": {"capacity": 0.6, "overbooking": 0.7}}
        )

    def test_lengths_have_units(self):
        self.assertEqual([papers.seconds(it) for it in (30, "2s", "1200ms")], [30, 2, 1.2])


if __name__ == "__main__":
    unittest.main()
