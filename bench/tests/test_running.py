# SPDX-License-Identifier: MIT OR Apache-2.0
"""What runs beside what, and what is left when something fails."""

import io
import json
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from consort_bench import bench, children  # noqa: E402
from consort_bench.book import Book, Finished  # noqa: E402
from consort_bench.commits import Commit, Repository  # noqa: E402
from consort_bench.guest import Boot, GuestError, Machine  # noqa: E402
from consort_bench.model import Experiment, Row, Run, Scheduler, Settings, of  # noqa: E402


class Guests:
    """Stands for the machine: guests that end when the test lets them."""

    consort = None

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now: set[str] = set()
        self.most = 0
        self.beside: dict[str, set[str]] = {}
        self.lock = threading.Lock()
        self.fails: dict[str, BaseException] = {}
        self.meet: threading.Barrier | None = None

    def kept(self, _boot: Boot) -> Path | None:
        return None

    def run(self, boot: Boot) -> Path:
        with self.lock:
            self.now.add(boot.experiment)
            self.most = max(self.most, len(self.now))
            for name in self.now:
                self.beside.setdefault(name, set()).update(self.now)
        try:
            if self.meet:
                self.meet.wait(timeout=10)
            if boot.experiment in self.fails:
                raise self.fails[boot.experiment]
        finally:
            with self.lock:
                self.now.discard(boot.experiment)
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        for run in boot.runs:
            when = {"state": "disabled", "ops": ""}
            said = {"kernel": "7", "scheduler": {"before": when, "after": when}, "result": {"x": boot.start}}
            (folder / f"{run.name}.json").write_text(json.dumps(said))
            (folder / f"{run.name}.status").write_text("0\n")
        return folder


def experiment(name: str, cpus: int = 1) -> Experiment:
    run = Run("run", Scheduler.EEVDF, ("x",), 1, Settings(cpus=cpus))
    return Experiment(name, name, (run,), (Row(f"{name}.x", "", of("run", "x")),), measures=("core",))


class Running(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.guests = Guests(self.folder)
        self.addCleanup(setattr, children, "_is_stopped", False)

    def measure(self, experiments: list[Experiment], starts: int, jobs: int) -> Book:
        book = Book(self.folder / "out", experiments, Repository(self.folder))
        finished = Finished(experiments, dict.fromkeys((it.name for it in experiments), Commit("c")), book)
        self.said = io.StringIO()
        with redirect_stdout(self.said), redirect_stderr(self.said):
            bench.run(bench.plan(experiments, starts, True), self.guests, jobs, finished.experiment)
        return book

    def test_two_run_side_by_side(self):
        # Each waits for the other: alone, neither would end.
        self.guests.meet = threading.Barrier(2)
        self.measure([experiment("a"), experiment("b")], 1, 2)
        self.assertEqual(self.guests.most, 2)

    def test_guests_with_several_cpus_run_alone(self):
        several = [experiment(f"smp{n}", cpus=4) for n in range(3)]
        self.measure([*several, *(experiment(f"a{n}") for n in range(6))], 1, 4)
        for one in several:
            self.assertEqual(self.guests.beside[one.name], {one.name})

    def test_what_is_timed_by_this_machine_runs_alone(self):
        timed = Run("run", Scheduler.NATIVE, (), 1, is_timed=True)
        boot = Boot("a", Scheduler.NATIVE, Settings(), 1, (timed,))
        self.assertTrue(boot.is_alone)
        self.assertFalse(replace(boot, runs=(replace(timed, is_timed=False),)).is_alone)

    def test_what_follows_this_machines_clock_has_its_cpus_at_a_time_where_the_emulator_bears_it(self):
        machine = Machine("7", Path("player"), None, Path("cache"))
        run = Run("run", Scheduler.EEVDF, (), 1)
        for settings, counts, is_parallel, is_alone in (
            (Settings(), True, False, False),
            (Settings(cpus=4), True, False, True),
            (Settings(cpus=4, counted=False), False, True, False),
            (Settings(cpus=4, counted=False, emulator="installed"), False, False, False),
        ):
            with self.subTest(settings=settings):
                boot = Boot("a", Scheduler.EEVDF, settings, 1, (run,))
                words = machine.command(Path("script"), Path("out"), boot)
                self.assertEqual("--icount" in words, counts)
                self.assertEqual("--parallel" in words, is_parallel)
                self.assertEqual(words[words.index("--qemu") + 1], settings.qemu)
                self.assertEqual(boot.is_alone, is_alone)

    def test_a_guest_that_fails_stops_no_other(self):
        for error in (GuestError("it did not boot"), OSError("no room"), ValueError("no JSON")):
            with self.subTest(error=error):
                self.guests.fails = {"b": error}
                book = self.measure([experiment("a"), experiment("b"), experiment("c")], 2, 2)
                rows = book.entries()
                self.assertEqual([rows[f"{it}.x"]["value"] for it in "abc"], [1.5, None, 1.5])
                self.assertIn(str(error), rows["b.x"]["missing"])
                self.assertIn("1 OF 1 RUNS FAILED", self.said.getvalue())

    def test_rows_are_written_before_the_bench_ends(self):
        self.guests.fails = {"c": KeyboardInterrupt()}
        with self.assertRaises(KeyboardInterrupt):
            self.measure([experiment(it) for it in "abcd"], 1, 1)
        rows = Book(self.folder / "out", [], Repository(self.folder)).entries()
        self.assertEqual(sorted(rows), ["a.x", "b.x"])
        self.assertEqual((rows["a.x"]["commit"], rows["a.x"]["dirty"]), ("c", None))

    def test_an_output_that_is_cut_off_is_a_failure_of_its_run(self):
        whole, cut = (replace(experiment(it).runs[0], name=it) for it in ("whole", "cut"))
        rows = (Row("a.whole", "", of("whole", "x")), Row("a.cut", "", of("cut", "x")))
        run = self.guests.run

        def run_and_cut(boot: Boot) -> Path:
            folder = run(boot)
            (folder / "cut.json").write_text('{"kernel": ')
            return folder

        self.guests.run = run_and_cut
        book = self.measure([Experiment("a", "A", (whole, cut), rows, measures=("core",))], 1, 1)
        self.assertEqual([it["value"] for it in book.entries().values()], [1, None])

    def test_each_line_says_one_thing(self):
        self.measure([experiment(it) for it in "ab"], 1, 2)
        lines = self.said.getvalue().splitlines()
        self.assertEqual(sum(line.startswith("[  1/2] ") for line in lines), 1)
        self.assertIn("left", [line for line in lines if line.startswith("[  1/2] ")][0])


class EqualBoots(unittest.TestCase):
    def test_an_equal_boot_of_another_experiment_is_not_run_twice(self):
        booted = []

        def boot(words: list[str]) -> subprocess.CompletedProcess[str]:
            booted.append(words)
            time.sleep(0.05)
            Path(words[words.index("--out") + 1]).mkdir()
            return subprocess.CompletedProcess(words, 0, "", "")

        with tempfile.TemporaryDirectory() as folder, mock.patch.object(children, "run", boot):
            player = Path(folder) / "player"
            player.write_text("")
            machine = Machine("7", player, None, Path(folder) / "cache")
            boots = [Boot(name, Scheduler.EEVDF, Settings(), 1, experiment("x").runs) for name in ("a", "b")]
            with ThreadPoolExecutor(2) as pool:
                first, second = pool.map(machine.run, boots)
        self.assertEqual((first, len(booted)), (second, 1))


class Children(unittest.TestCase):
    def tearDown(self):
        children._is_stopped = False

    def test_stopping_ends_what_runs_and_its_children(self):
        with tempfile.TemporaryDirectory() as folder:
            began = Path(folder) / "began"
            ended = []
            words = ["sh", "-c", f"sleep 60 & touch {began}; wait"]
            waiting = threading.Thread(target=lambda: ended.append(children.run(words)))
            waiting.start()
            while not began.exists():
                pass
            children.stop()
            # The sleeper has the pipes too: while it lived, this would not end.
            waiting.join(timeout=10)
        self.assertTrue(ended and ended[0].returncode != 0)
        with self.assertRaises(children.Stopped):
            children.run(["true"])


if __name__ == "__main__":
    unittest.main()
