# SPDX-License-Identifier: MIT OR Apache-2.0
"""Mixes, churn, orders and preemption: what is read from results. Nothing shown is nothing measured."""

import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from consort_bench import results, simulator  # noqa: E402
from consort_bench.experiments import churn, groups, mix, orders, preempt  # noqa: E402
from consort_bench.main import choose  # noqa: E402
from consort_bench.model import Experiment, Run, Samples, Scheduler  # noqa: E402
from consort_bench.results import Judged  # noqa: E402
from consort_bench.workloads import Length  # noqa: E402

ORDERS = orders.experiment(Length.quick())


def judged(experiment: Experiment, of: dict[str, dict]) -> dict[str, Judged]:
    samples = Samples()
    for run, result in of.items():
        samples.add(run, 1, {"result": result, "kernel": ""})
    return {row.id: results.judge(experiment, row, samples) for row in experiment.rows}


def fleet(shown: float, due: int, spread: int = 0) -> dict:
    late = {"count": due, "mean_ms": 0.05, "p99_ms": 0.2, "max_ms": 1.0}
    return {
        "tardiness": late,
        "frames_per_s_mean": shown,
        "useful_cpu_percent": 97.0 if shown else 0.0,
        "switches_per_s": 18000.0,
        "share_cv_percent": 0.1,
        "served_spread": spread,
    }


class Preempting(unittest.TestCase):
    experiment = preempt.experiment(Length.quick())

    def judged(self, result: dict) -> dict[str, Judged]:
        return judged(self.experiment, {run.name: result for run in self.experiment.runs})

    def test_players_that_do_nothing_are_not_on_time(self):
        rows = self.judged(fleet(0, 0))
        for id in ("coop.preempt.n12.tardiness_mean_ms", "coop.preempt5ms.n12.tardiness_p99_ms"):
            self.assertEqual((rows[id].value, rows[id].met), (None, False))
            self.assertIn("no due event", rows[id].reason)
        self.assertEqual(rows["coop.preempt.n12.useful_cpu_percent"].met, False)

    def test_players_that_play_are_judged_by_what_they_say(self):
        rows = self.judged(fleet(12, 5760))
        self.assertEqual({row.met for row in rows.values()}, {True, None})

    def test_chunks_differ_and_only_one_side_is_preempted(self):
        words = {run.name: run.arguments for run in self.experiment.runs}
        self.assertIn("5000", words["preempt5ms"])
        self.assertEqual({name for name, it in words.items() if "--preempt" in it}, {"preempt", "preempt5ms"})


class Ordering(unittest.TestCase):
    experiment = orders.experiment(Length.quick())

    def judged(self, result: dict) -> dict[str, Judged]:
        return judged(self.experiment, {run.name: result for run in self.experiment.runs})

    def test_who_shows_nothing_is_not_fair(self):
        rows = self.judged(fleet(0, 0))
        self.assertEqual(rows["coop.service.n12.share_cv_percent"].met, False)
        self.assertEqual(rows["coop.progress.n12.served_spread"].met, False)

    def test_a_spread_of_two_misses(self):
        for spread, met in ((1, True), (2, False)):
            rows = self.judged(fleet(12, 2880, spread))
            self.assertEqual(rows["coop.progress.n12.served_spread"].met, met)


class Churning(unittest.TestCase):
    experiment = churn.experiment(Length())

    def test_the_gain_is_what_is_above_an_equal_part(self):
        self.assertAlmostEqual(churn.gained({"cheat": 34.6, "a": 21.8, "b": 21.8, "c": 21.8}), 9.6)
        # What others had of the CPU does not count.
        self.assertAlmostEqual(churn.gained({"cheat": 20.0, "a": 20.0, "b": 20.0, "c": 20.0}), 0)

    def test_the_worst_pattern_is_told(self):
        def simulated(cheat: float) -> dict:
            others = [{"name": f"hog-{n}", "share_percent": (100 - cheat) / 3} for n in range(3)]
            return {"tasks": [{"name": "cheat", "share_percent": cheat}, *others]}

        rows = judged(
            self.experiment, {"simulated.often": simulated(25.1), "simulated.calm": simulated(26.0)}
        )
        self.assertAlmostEqual(rows["churn.share_gain_percent"].value, 1.0)
        self.assertEqual(rows["churn.share_gain_percent"].met, False)
        self.assertTrue(rows["churn.guest.share_gain_percent"].is_untried)

    def test_guest_and_simulator_have_the_same_scenario(self):
        scenarios = {run.name: run.scenario for run in self.experiment.runs}
        for pattern in churn.PATTERNS:
            self.assertEqual(scenarios[f"guest.{pattern}"], scenarios[f"simulated.{pattern}"])
        tasks = json.loads(scenarios["guest.often"])["tasks"]
        self.assertEqual(len(tasks["cheat"]["phases"]), 3 * churn.PATTERNS["often"][0])


class Mixes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name in ("desktop", "wd3", "wd5"):
            (Path(folder.name) / f"{name}.json").write_text("{}")
        with mock.patch.object(mix, "FOLDER", Path(folder.name)):
            self.experiment = mix.experiment(Length())

    def results(self) -> dict[str, dict]:
        good = {
            "share_ratio_min": 0.99,
            "wait_ratio_max": 1.2,
            "wait_max_ms": 100.0,
            "join.share_ratio_min": 1.0,
            "join.tardiness_p99_ratio_max": 0.9,
            "fluid_lag_max_slices": 2.0,
            "fluid_lag_bound_slices": 2.5,
        }
        return {run.name: {"worst": dict(good)} for run in self.experiment.runs}

    def test_all_is_well_where_all_is_well(self):
        rows = judged(self.experiment, self.results())
        self.assertEqual({row.met for row in rows.values()}, {True})

    def test_one_bad_mix_misses_its_rows_and_those_of_all(self):
        last = f"generated.{mix.PARTS - 1}"
        for run, name, bad, ids in (
            ("mix.desktop", "share_ratio_min", 0.9, ["mix.desktop.share_ratio_min"]),
            ("mix.wd3", "wait_max_ms", 31034.6, ["liveness.wait_max_ms"]),
            ("generated.1", "wait_max_ms", 2501.0, ["liveness.wait_max_ms"]),
            ("mix.desktop", "join.share_ratio_min", 0.97, ["mix.join.share_ratio_min"]),
            ("generated.0", "join.tardiness_p99_ratio_max", 1.1, ["mix.join.tardiness_p99_ratio_max"]),
            (last, "fluid_lag_max_slices", 2.6, ["mix.generated.fluid_lag_max_slices"]),
        ):
            with self.subTest(run=run, name=name):
                found = self.results()
                found[run]["worst"][name] = bad
                rows = judged(self.experiment, found)
                missed = [id for id, row in rows.items() if not row.met]
                self.assertEqual(missed, ids)
                self.assertEqual(rows[ids[0]].value, bad)

    def test_where_nobody_joins_nothing_is_compared(self):
        found = self.results()
        found["mix.wd5"]["worst"]["join.share_ratio_min"] = None
        self.assertTrue(judged(self.experiment, found)["mix.join.share_ratio_min"].met)
        for said in found.values():
            said["worst"]["join.share_ratio_min"] = None
        self.assertIn("no mix", judged(self.experiment, found)["mix.join.share_ratio_min"].reason)

    def test_a_bound_that_is_not_stated_is_not_kept(self):
        found = self.results()
        for said in found.values():
            del said["worst"]["fluid_lag_bound_slices"]
        row = judged(self.experiment, found)["mix.generated.fluid_lag_max_slices"]
        self.assertEqual((row.value, row.met), (2.0, False))

    def test_a_mix_that_did_not_run_misses_what_is_said_of_all(self):
        found = self.results()
        del found["mix.desktop"]
        rows = judged(self.experiment, found)
        self.assertIsNone(rows["mix.join.share_ratio_min"].value)
        self.assertIsNone(rows["mix.desktop.wait_ratio_max"].value)
        self.assertEqual(rows["mix.wd3.wait_ratio_max"].value, 1.2)

    def test_one_mix_does_not_need_the_others(self):
        def runs(pattern: str) -> list[str]:
            (chosen,) = choose([self.experiment], [pattern])
            return [run.name for run in chosen.runs]

        self.assertEqual(runs("mix.desktop.*"), ["mix.desktop"])
        self.assertEqual(
            runs("liveness.*"), ["mix.wd3", "mix.wd5", *(f"generated.{n}" for n in range(mix.JOINING_PARTS))]
        )
        self.assertEqual(len(runs("mix")), 3 + mix.PARTS)

    def test_several_patterns_choose_what_each_of_them_does(self):
        (chosen,) = choose([self.experiment], ["mix.desktop.*", "mix.wd3.*"])
        self.assertEqual({row.id.split(".")[1] for row in chosen.rows}, {"desktop", "wd3"})
        self.assertEqual(choose([self.experiment, ORDERS], None), [self.experiment, ORDERS])
        self.assertEqual(choose([self.experiment], ["nothing"]), [])

    def test_guests_keep_all_their_runs(self):
        (whole,) = choose([ORDERS], ["orders"])
        (part,) = choose([ORDERS], ["coop.service.n12.share_cv_percent"])
        self.assertEqual(part.runs, whole.runs)

    def test_of_runs_with_a_guest_each_only_those_that_are_read_are_kept(self):
        films = groups.experiment(Length.quick())
        (part,) = choose([films], ["groups.pipeline4.heavy.fdte_c_p95_ms"])
        read = {f"pipeline4.heavy.{control}" for control in ("rdx", "st", "st_cgroups")}
        self.assertEqual({run.name for run in part.runs}, read)

    def test_every_seed_is_drawn_once(self):
        words = [run.arguments for run in self.experiment.runs if "--generated" in run.arguments]
        first = [int(it[it.index("--seed") + 1]) for it in words]
        self.assertEqual(first, list(range(0, mix.PARTS * mix.OF_PART, mix.OF_PART)))


class Simulating(unittest.TestCase):
    """With a command of the test's own."""

    def said(self, script: str, run: Run) -> tuple[dict | None, str]:
        with tempfile.TemporaryDirectory() as folder:
            command = Path(folder) / "consort"
            command.write_text(f"#!/bin/sh\n{script}\n")
            command.chmod(0o755)
            return simulator.output(command, run, 1)

    def test_a_broken_rule_is_a_fault_unless_the_rows_judge_it(self):
        script = "echo '{}'; echo 'broke the rule debt' >&2; exit 8"
        strict = Run("a", Scheduler.SIMULATOR, (), 0, scenario="{}")
        said, reason = self.said(script, strict)
        self.assertIsNone(said)
        self.assertIn("the rule debt", reason)
        said, reason = self.said(script, mix.mixes("a", "FILE"))
        self.assertEqual((said, reason), ({"result": {}, "kernel": ""}, ""))

    def test_a_command_that_is_not_known_is_told(self):
        said, reason = self.said("echo 'no mixes' >&2; exit 2", mix.mixes("a", "FILE"))
        self.assertIsNone(said)
        self.assertIn("status 2: no mixes", reason)


if __name__ == "__main__":
    unittest.main()
