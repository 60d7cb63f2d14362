# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which rows are stale: by a repository of the test's own."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from consort_bench import report  # noqa: E402
from consort_bench.book import Book  # noqa: E402
from consort_bench.commits import ROOT, Repository, mark  # noqa: E402
from consort_bench.experiments import all_experiments  # noqa: E402
from consort_bench.model import Experiment, Row, of  # noqa: E402
from consort_bench.workloads import Length  # noqa: E402

MEASURES = ("core", ":!core/tests")


class Staleness(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.git("init", "-q")
        self.measured = self.commit("core/place.h", "1")

    def git(self, *words: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        done = subprocess.run(
            ["git", "-C", str(self.folder), *identity, *words], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def write(self, path: str, text: str) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def commit(self, path: str, text: str) -> str:
        self.write(path, text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", path)
        return self.git("rev-parse", "HEAD")

    def mark(self, commit: str | None) -> str:
        return mark({"commit": commit}, MEASURES, Repository(self.folder))

    def test_changes_elsewhere_leave_a_row_as_it_is(self):
        self.commit("docs/a.md", "1")
        self.commit("core/tests/a.rs", "1")
        self.assertEqual(self.mark(self.measured), "")

    def test_a_change_of_what_it_measures_makes_it_stale_until_it_is_measured_anew(self):
        changed = self.commit("core/place.h", "2")
        self.commit("docs/a.md", "1")
        self.assertEqual(self.mark(self.measured), f"stale since {changed[:10]}")
        self.assertEqual(self.mark(changed), "")

    def test_a_change_that_comes_by_a_merge_counts(self):
        self.git("checkout", "-q", "-b", "side")
        self.commit("core/place.h", "2")
        self.git("checkout", "-q", "-")
        here = self.commit("docs/a.md", "1")
        self.git("merge", "-q", "--no-edit", "side")
        self.assertIn("stale", self.mark(here))

    def test_a_commit_that_nobody_knows_is_not_taken_for_fresh(self):
        self.assertEqual(self.mark(None), "unknown commit")
        self.assertEqual(self.mark("0" * 40), "unknown commit")

    def test_uncommitted_changes_of_what_is_measured_are_told(self):
        repository = Repository(self.folder)
        self.write("docs/a.md", "1")
        self.assertEqual(repository.head(MEASURES).dirty, False)
        self.write("core/new.h", "1")
        head = repository.head(MEASURES)
        self.assertEqual((head.id, head.dirty), (self.measured, True))

    def test_the_page_shows_it(self):
        row = Row("a.b", "ms", of("run", "x"))
        experiment = Experiment("a", "A", (), (row,), measures=MEASURES)
        entry = {"id": "a.b", "value": 1.03, "unit": "ms", "target": None, "met": None, "against": {}}
        entry |= {"kernel": "7", "starts": 3, "min": 1.02, "max": 1.05, "experiment": "a", "dirty": False}
        entry["commit"] = self.measured
        self.commit("core/place.h", "2")
        with tempfile.TemporaryDirectory() as out:
            (Path(out) / "results.json").write_text(json.dumps([entry]))
            Book(Path(out), [experiment], Repository(self.folder)).report()
            page = (Path(out) / "results.md").read_text()
        self.assertIn(f"{self.measured[:10]}, 3 starts, 1.02 to 1.05; stale", page)
        self.assertIn("measured anew: 1 of 1", page)
        self.assertNotIn("stale", report.measured(entry, ""))


class Declared(unittest.TestCase):
    def test_every_experiment_names_paths_that_there_are(self):
        for experiment in all_experiments(Length()):
            measured = [path for path in experiment.measures if not path.startswith(":!")]
            self.assertTrue(measured, experiment.name)
            for path in experiment.measures:
                self.assertTrue((ROOT / path.removeprefix(":!")).exists(), f"{experiment.name}: {path}")


if __name__ == "__main__":
    unittest.main()
