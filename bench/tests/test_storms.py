# SPDX-License-Identifier: MIT OR Apache-2.0
"""Storms of reservations, and reservations beside 1000 threads: what is run, and what is read from it."""

import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from consort_bench.experiments import rate_storm, rate_storm_guest, rate_wait_smp  # noqa: E402
from consort_bench.model import Experiment, Samples, Scheduler  # noqa: E402
from consort_bench.workloads import Length  # noqa: E402


def values(experiment: Experiment, samples: Samples) -> dict[str, float]:
    return {row.id: row.value(samples) for row in experiment.rows}


def sampled(results: dict[str, dict]) -> Samples:
    samples = Samples()
    for run, result in results.items():
        samples.add(run, 1, {"result": result, "kernel": ""})
    return samples


class SimulatedStorm(unittest.TestCase):
    experiment = rate_storm.experiment(Length.quick())

    def scenarios(self) -> dict[str, dict]:
        return {run.name: json.loads(run.scenario) for run in self.experiment.runs}

    def test_who_holds_and_who_renews_ask_for_what_fits(self):
        for name, scenario in self.scenarios().items():
            if name.split(".")[0] not in ("held", "renewed"):
                continue
            clients = scenario["tasks"]["client"]
            asked = rate_storm.VIDEO["rate"] + clients["instance"] * rate_storm.SMALL["rate"]
            # The class has half of the machine. One video is there, however many CPUs there are.
            self.assertLessEqual(asked, 0.5 * scenario["machine"]["cpus"] + 1e-9, name)

    def test_cgroups_have_everybody_and_no_cgroup_is_without_a_weight(self):
        tasks = self.scenarios()["storm.1.eevdf"]["tasks"]
        groups = {task["taskgroup"] for task in tasks.values()}
        groups |= {phase["taskgroup"] for phase in tasks["client"]["phases"].values()}
        self.assertTrue(groups <= set(rate_storm.WEIGHTS), groups)

    def test_lateness_is_the_videos(self):
        late = {"p50_ms": 1.0, "p99_ms": 2.0, "max_ms": 3.0}
        other = {"name": "client", "tardiness": dict.fromkeys(late, 9.0)}
        result = {"tasks": [other, {"name": "video", "tardiness": late}], "total": {"frames_per_s": 24}}
        read = values(self.experiment, sampled({run.name: result for run in self.experiment.runs}))
        self.assertEqual(read["rate.storm.4cpu.storm.late_p99_ms"], 2.0)
        self.assertEqual(read["rate.storm.1cpu.renewed.frames_per_s"], 24)


class GuestStorm(unittest.TestCase):
    experiment = rate_storm_guest.experiment(Length.quick())

    def test_all_cpus_share_the_work_of_one(self):
        for run in self.experiment.runs:
            words = run.arguments
            if "--instructions-per-us" in words:
                each = int(words[words.index("--instructions-per-us") + 1])
                self.assertEqual(each * run.settings.cpus, rate_storm_guest.INSTRUCTIONS_PER_US)

    def test_each_storm_has_its_calm(self):
        names = {run.name for run in self.experiment.runs}
        for cpus in rate_storm_guest.CPUS:
            for calm in rate_storm_guest.CALM.values():
                self.assertIn(f"consort.{cpus}.{calm}", names)

    def test_one_difference_in_the_books_misses_the_target(self):
        def judged(wrong: list[str]) -> bool:
            samples = sampled({"consort.1.storm": {"books": {"wrong": wrong, "left": 0}}})
            row = next(it for it in self.experiment.rows if it.id.endswith("1cpu.storm.books_wrong"))
            return row.target.met(row.value(samples), {})

        self.assertTrue(judged([]))
        self.assertFalse(judged(["process 7 was told Nothing, and has 0.1"]))


class WaitOnFourCpus(unittest.TestCase):
    experiment = rate_wait_smp.experiment(Length.quick())

    def test_the_bound_is_a_quantum_and_one_at_the_effective_rate(self):
        result = {
            "tasks": [{"name": "reserved-0", "wait_max_ms": 1.25}, {"name": "thread", "wait_max_ms": 99}]
        }
        simulated = [run.name for run in self.experiment.runs if run.scheduler is Scheduler.SIMULATOR]
        samples = sampled(dict.fromkeys(simulated, result))
        over = {it.id: it.value(samples) for it in self.experiment.rows if it.id.endswith("over_bound")}
        # Four divide two thirds of the machine: 0.5 + 0.5 / (2 / 3). One has a CPU to itself: 0.5 + 0.5.
        self.assertAlmostEqual(over["rate.smp4.gr_beside_1000.each_cpu_wait_over_bound"], 1.0)
        self.assertAlmostEqual(over["rate.smp4.gr_beside_1000.one_wait_over_bound"], 1.25)

    def test_weights_and_reservations_are_not_mixed(self):
        for run in self.experiment.runs:
            if run.scheduler is Scheduler.SIMULATOR:
                reserved = json.loads(run.scenario)["tasks"]["reserved"]
                self.assertEqual("reserve" in reserved, run.configuration == "coop")


if __name__ == "__main__":
    unittest.main()
