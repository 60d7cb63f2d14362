# SPDX-License-Identifier: MIT OR Apache-2.0
"""Targets, faults and missing values: nothing unmeasured may look like a success."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from consort_bench import bench, report, results, verify  # noqa: E402
from consort_bench.experiments import all_experiments  # noqa: E402
from consort_bench.guest import script_of  # noqa: E402
from consort_bench.model import Experiment, Row, Run, Samples, Scheduler, Target, of  # noqa: E402
from consort_bench.workloads import Length  # noqa: E402


def output(state="enabled", ops="consort", polls=0, pid=7, result=None) -> dict:
    """What the player prints; `polls` is how far that counter moved."""
    status = {"daemon": {"pid": 7}, "counters": {"polls": 5, "switches": 5}}
    later = {"daemon": {"pid": pid}, "counters": {"polls": 5 + polls, "switches": 9}}
    before = {"state": "enabled", "ops": "consort", "status": status}
    after = {"state": state, "ops": ops, "status": later}
    return {"kernel": "7.2", "scheduler": {"before": before, "after": after}, "result": result or {}}


COOP = Run("coop", Scheduler.CONSORT, ("fleet",), 1, moving=("polls",))


class Verifying(unittest.TestCase):
    def test_a_sound_run_has_no_fault(self):
        self.assertEqual(verify.fault(COOP, output(polls=1)), "")

    def test_an_ejected_scheduler_is_a_fault(self):
        self.assertIn("expected consort", verify.fault(COOP, output(state="disabled", ops="", polls=1)))

    def test_another_scheduler_is_a_fault(self):
        self.assertIn("other_1.0", verify.fault(COOP, output(ops="other_1.0", polls=1)))

    def test_counters_that_stand_still_are_a_fault(self):
        self.assertIn("polls", verify.fault(COOP, output(polls=0)))

    def test_a_restarted_daemon_is_a_fault(self):
        self.assertIn("daemon", verify.fault(COOP, output(polls=1, pid=8)))

    def test_stock_runs_must_be_stock(self):
        stock = Run("eevdf", Scheduler.EEVDF, ("fleet",), 1)
        self.assertIn("expected none", verify.fault(stock, output(polls=1)))


class Targets(unittest.TestCase):
    def test_bounds_are_inclusive(self):
        self.assertTrue(Target(at_most=2).met(2, {}))
        self.assertFalse(Target(at_most=2).met(2.001, {}))
        self.assertTrue(Target(at_least=2).met(2, {}))
        self.assertFalse(Target(near=50, tolerance=0.3).met(50.31, {}))

    def test_a_bound_may_be_another_schedulers_value(self):
        target = Target(at_most=1, reference="eevdf")
        self.assertTrue(target.met(3.9, {"eevdf": 4.0}))
        self.assertFalse(target.met(4.1, {"eevdf": 4.0}))
        self.assertEqual(target.text(), "<= eevdf")


class Rows(unittest.TestCase):
    row = Row("a.b", "ms", of("coop", "x.y"), Target(at_most=3))
    experiment = Experiment("a", "A", (COOP,), (row,), measures=("core",))

    def test_the_value_is_the_median_of_the_starts(self):
        samples = Samples()
        for start, value in enumerate((9.0, 1.0, 2.0), 1):
            samples.add("coop", start, output(result={"x": {"y": value}}))
        judged = results.judge(self.experiment, self.row, samples)
        self.assertEqual((judged.value, judged.met), (2.0, True))
        entry = judged.as_json()
        self.assertEqual((entry["starts"], entry["min"], entry["max"]), (3, 1.0, 9.0))

    def test_the_spread_of_a_ratio_is_that_of_its_starts(self):
        ratio = Row("a.ratio", "", lambda it: it.value("coop", "x") / it.value("eevdf", "x"))
        samples = Samples()
        for start, (ours, theirs) in enumerate(((2.0, 1.0), (3.0, 2.0), (8.0, 2.0)), 1):
            samples.add("coop", start, output(result={"x": ours}))
            samples.add("eevdf", start, output(result={"x": theirs}))
        judged = results.judge(self.experiment, ratio, samples)
        # Median over median; of a start, its own pair.
        self.assertEqual((judged.value, judged.spread), (1.5, (1.5, 4.0)))

    def test_one_failed_start_spoils_the_row(self):
        samples = Samples()
        samples.add("coop", 1, output(result={"x": {"y": 1.0}}))
        samples.add_fault("coop", "start 2: ejected")
        judged = results.judge(self.experiment, self.row, samples)
        self.assertEqual((judged.value, judged.met), (None, False))
        self.assertIn("ejected", judged.reason)

    def test_a_comparison_that_failed_takes_nothing_from_the_value(self):
        samples = Samples()
        samples.add("coop", 1, output(result={"x": {"y": 1.0}}))
        samples.add_fault("eevdf", "start 1: no room")
        others = {"eevdf": of("eevdf", "x.y")}
        for target, met in ((Target(at_most=3), True), (Target(at_most=1, reference="eevdf"), False)):
            row = Row("a.b", "ms", of("coop", "x.y"), target, others)
            judged = results.judge(self.experiment, row, samples)
            self.assertEqual((judged.value, judged.met), (1.0, met))
            self.assertIn("no room", judged.reason)

    def test_a_value_that_cannot_be_made_says_why(self):
        samples = Samples()
        samples.add("coop", 1, output(result={"x": {"y": None}}))
        broken = Row("a.b", "ms", lambda it: 1 / 0, Target(at_most=3))
        for row, why in ((self.row, "no number x.y"), (broken, "ZeroDivisionError")):
            judged = results.judge(self.experiment, row, samples)
            self.assertEqual((judged.value, judged.met), (None, False))
            self.assertIn(why, judged.reason)

    def test_a_missed_target_is_shown_first(self):
        samples = Samples()
        samples.add("coop", 1, output(result={"x": {"y": 8.0}}))
        entry = results.judge(self.experiment, self.row, samples).as_json()
        page = report.markdown([entry], [self.experiment], [], {})
        self.assertIn("0 of 1", page)
        self.assertIn("`a.b` is 8 ms, target <= 3", page)

    def test_other_rows_of_the_file_stay_and_unknown_ones_go(self):
        samples = Samples()
        samples.add("coop", 1, output(result={"x": {"y": 1.0}}))
        judged = results.judge(self.experiment, self.row, samples)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "results.json"
            path.write_text(json.dumps([{"id": "kept", "value": 1}, {"id": "gone", "value": 1}]))
            entries = results.write(path, [judged], ["a.b", "kept"])
        self.assertEqual([entry["id"] for entry in entries], ["a.b", "kept"])

    def test_what_was_not_run_leaves_the_row_and_what_failed_does_not(self):
        failed = Samples()
        failed.add_fault("coop", "start 1: ejected")
        for samples, value in ((Samples(), 1), (failed, None)):
            judged = results.judge(self.experiment, self.row, samples)
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "results.json"
                path.write_text(json.dumps([{"id": "a.b", "value": 1}]))
                (entry,) = results.write(path, [judged], ["a.b"])
            self.assertEqual(entry["value"], value)


class Planning(unittest.TestCase):
    experiments = all_experiments(Length())

    def test_what_the_simulator_runs_is_there(self):
        repository = Path(__file__).resolve().parents[2]
        for run in (run for experiment in self.experiments for run in experiment.runs):
            if run.scheduler is Scheduler.SIMULATOR:
                program = run.arguments[0] if run.arguments else ""
                is_there = program == "consort" or (program and (repository / program).exists())
                self.assertTrue(run.scenario or is_there, run)

    def test_ids_are_unique(self):
        ids = [row.id for experiment in self.experiments for row in experiment.rows]
        self.assertEqual(len(ids), len(set(ids)))

    def test_a_guest_has_one_scheduler_and_one_setting_and_no_run_is_lost(self):
        boots = bench.plan(self.experiments, starts=2, with_consort=True)
        for boot in boots:
            for run in boot.runs:
                self.assertEqual((run.scheduler, run.settings), (boot.scheduler, boot.settings))
        for experiment in self.experiments:
            planned = [run for boot in boots if boot.experiment == experiment.name for run in boot.runs]
            self.assertEqual(len(planned), len(experiment.runs) * (experiment.starts or 2))
            if experiment.runs_per_guest:
                self.assertTrue(
                    all(
                        len(boot.runs) <= experiment.runs_per_guest
                        for boot in boots
                        if boot.experiment == experiment.name
                    )
                )

    def test_starts_differ_in_their_seed(self):
        boots = bench.plan(self.experiments[:1], starts=2, with_consort=False)
        self.assertEqual(len({script_of(boot) for boot in boots}), 2)


if __name__ == "__main__":
    unittest.main()
