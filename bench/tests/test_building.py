# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which programs are built for what is chosen, and of which commit its rows then are."""

import argparse
import io
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stdout
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from consort_bench import build  # noqa: E402
from consort_bench.commits import ROOT, UNKNOWN, GitError, Repository  # noqa: E402
from consort_bench.experiments import all_experiments  # noqa: E402
from consort_bench.main import commit_of  # noqa: E402
from consort_bench.model import GuestFile  # noqa: E402
from consort_bench.workloads import Length  # noqa: E402

EXPERIMENTS = {experiment.name: experiment for experiment in all_experiments(Length())}


class Programs(unittest.TestCase):
    def names(self, experiment: str, **given: Path) -> list[str]:
        options = {"player": None, "consort": None, **given}
        return [it.path.name for it in build.programs([EXPERIMENTS[experiment]], **options)]

    def test_each_part_needs_its_own(self):
        self.assertEqual(self.names("coop"), ["consort-bench-player", "consort"])
        self.assertEqual(self.names("baseline"), ["consort-bench-player"])
        self.assertEqual(self.names("mix"), ["consort"])
        self.assertEqual(self.names("rate_admission"), ["admission"])
        self.assertIn("consort-bench-rates", self.names("rate_shares"))
        self.assertIn("disk.img", self.names("groups"))

    def test_what_is_given_is_not_built(self):
        given = build.programs([EXPERIMENTS["coop"]], Path("/my/player"), Path("/my/consort"))
        self.assertEqual(
            [(str(it.path), it.build) for it in given], [("/my/player", ()), ("/my/consort", ())]
        )


class Building(unittest.TestCase):
    def build(self, *words: str, makes: bool = True) -> str:
        with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
            path = Path(folder) / "program"
            command = words or (("touch", str(path)) if makes else ("true",))
            try:
                build.build([GuestFile(path, "", "somebody makes it", command)])
            except build.BuildError as error:
                return str(error)
        return ""

    def test_what_is_missing_is_made(self):
        self.assertEqual(self.build(), "")

    def test_what_cannot_be_made_is_told(self):
        self.assertIn("status 1", self.build("false"))
        self.assertIn("could not be started", self.build("/nowhere/cargo"))
        self.assertIn("somebody makes it", self.build(makes=False))


class Commits(unittest.TestCase):
    def of(self, **given):
        options = {"no_build": False, "player": None, "consort": None, "commit": None, **given}
        return commit_of(argparse.Namespace(**options), EXPERIMENTS["coop"], Repository())

    @unittest.skipUnless((ROOT / ".git").exists(), "not a clone")
    def test_what_was_built_here_is_of_this_commit(self):
        head = subprocess.run(
            ["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
        ).stdout.strip()
        self.assertEqual(self.of().id, head)
        self.assertEqual(self.of(consort=Path("/my/consort"), commit="HEAD").id, head)

    def test_of_given_programs_nobody_knows_the_commit(self):
        for given in ({"no_build": True}, {"player": Path("/my/player")}, {"consort": Path("/my/consort")}):
            self.assertEqual(self.of(**given), UNKNOWN)

    def test_a_commit_that_there_is_not_is_refused(self):
        with self.assertRaisesRegex(GitError, "no commit 'no-such-thing'"):
            self.of(no_build=True, commit="no-such-thing")


if __name__ == "__main__":
    unittest.main()
