# SPDX-License-Identifier: MIT OR Apache-2.0
"""What is read from films that a group shows: histograms, what others lacked, the worst of several runs."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from consort_bench.experiments import groups  # noqa: E402
from consort_bench.model import Samples  # noqa: E402
from consort_bench.workloads import Length  # noqa: E402


def samples(**results) -> Samples:
    made = Samples()
    for name, result in results.items():
        made.add(name.replace("__", "."), 1, {"result": result, "kernel": "7.3"})
    return made


class Histograms(unittest.TestCase):
    def counted(self, values, end):
        outline = groups.histogram(values, end)
        self.assertEqual(len(outline), 2 * groups.BINS)
        return [count for _, count in outline[::2]]

    def test_each_value_is_in_one_bar(self):
        counts = self.counted([0, 0.01, 2.5, 4.99, 5.0], 5.0)
        self.assertEqual((counts[0], counts[groups.BINS // 2], counts[-1]), (2, 1, 2))

    def test_what_lies_beyond_is_in_none(self):
        self.assertEqual(sum(self.counted([1, 5.1, 80], 5.0)), 1)

    def test_nothing_late_is_the_first_bar(self):
        self.assertEqual(self.counted([0, 0], 0)[-1] + self.counted([0, 0], 0)[0], 2)


class Runs(unittest.TestCase):
    def test_heavy_load_has_what_it_needs(self):
        for run in groups.experiment(Length()).runs:
            is_heavy = ".heavy." in run.name
            self.assertEqual("--heavy" in run.arguments, is_heavy, run.name)
            self.assertEqual(run.settings.disk is not None, is_heavy, run.name)
            self.assertEqual(bool(run.settings.modules), is_heavy, run.name)
            self.assertEqual(run.arguments[0], "pipeline")


class Rows(unittest.TestCase):
    def setUp(self):
        self.experiment = groups.experiment(Length())
        self.rows = {row.id: row for row in self.experiment.rows}

    def value(self, id, **results):
        return self.rows[id].value(samples(**results))

    def test_the_worst_of_both_groups_counts(self):
        submitted = [{"submission": {"p95_ms": ms}} for ms in (0.2, 0.1)]
        value = self.value(
            "groups.playback.heavy.fdte_s_p95_ms",
            playback__heavy__rd=submitted[0],
            playback__heavy__rdx=submitted[1],
        )
        self.assertEqual(value, 0.2)

    def test_others_lack_what_their_promise_is_worth(self):
        others = [{"worth": 0.2, "least": 0.19}, {"worth": 0.1, "least": 0.3}]
        value = self.value("groups.others_share_error_percent", beside__heavy__rdx={"others": others})
        self.assertAlmostEqual(value, 1)

    def test_every_frame_has_to_be_shown_in_time(self):
        names = [run.name for run in self.experiment.runs if run.name.endswith(("heavy.rd", "heavy.rdx"))]
        shown = {"shown": 1970, "in_time": 1970, "frames": 1970}
        results = {name.replace(".", "__"): shown for name in names}
        self.assertEqual(self.value("groups.frames_shown_percent", **results), 100)
        results["pipeline3__heavy__rd"] = {"shown": 1970, "in_time": 985, "frames": 1970}
        self.assertEqual(self.value("groups.frames_shown_percent", **results), 50)


if __name__ == "__main__":
    unittest.main()
