# SPDX-License-Identifier: MIT OR Apache-2.0
"""In which guests tests run, and which are tried again (tests/run)."""

import importlib.util
import io
import os
import sys
import tempfile
import unittest
from contextlib import redirect_stdout
from importlib.machinery import SourceFileLoader
from pathlib import Path

RUN = Path(__file__).resolve().parents[2] / "tests/run"


def load():
    spec = importlib.util.spec_from_loader("tests_run", SourceFileLoader("tests_run", str(RUN)))
    assert spec
    module = importlib.util.module_from_spec(spec)
    sys.modules["tests_run"] = module
    SourceFileLoader("tests_run", str(RUN)).exec_module(module)
    return module


tests_run = load()
GOOD = "ok a 1.0\nok b 1.0\nok c 1.0\nend of suite\n"
BAD = GOOD.replace("ok b 1.0", "FAILED b 1.0\n    why")


class Turns(unittest.TestCase):
    LISTED = ["a.one one own", "a.many many shared", "a.any any shared", "b.any any shared"]
    LISTED += ["a.steady one steady", "a.grows growing shared"]

    def guests(self, turn: int | None, patterns: tuple[str, ...] = ()) -> list[tuple[str, str]]:
        """Which test runs in which guest."""
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder, "tests")
            program.write_text("\n".join(["#!/bin/sh", "cat <<END", *self.LISTED, "END", ""]))
            os.chmod(program, 0o755)
            guests = tests_run.guests_for(program, ["6.18", "7"], list(patterns), turn)
        return [(test, guest.name) for guest in guests for test in guest.tests]

    def test_without_a_turn_each_runs_wherever_it_can(self) -> None:
        whole = self.guests(None)
        self.assertEqual(len(whole), len(set(whole)))
        self.assertEqual(len(whole), 2 + 2 + 4 + 4 + 2 + 1)
        self.assertIn(("a.steady", "7/1cpu/counts"), whole)
        self.assertNotIn(("a.one", "7/4cpu"), whole)
        self.assertIn(("a.grows", "6.18/4cpu/grows"), whole)

    def test_each_runs_once_a_turn_and_in_four_turns_everywhere(self) -> None:
        turns = [self.guests(turn) for turn in range(4)]
        tests = sorted(line.split()[0] for line in self.LISTED)
        for turn in turns:
            self.assertEqual(sorted(test for test, _ in turn), tests)
        self.assertEqual({pair for turn in turns for pair in turn}, set(self.guests(None)))

    def test_only_what_is_asked_for(self) -> None:
        self.assertEqual({test for test, _ in self.guests(None, ("b.", "steady"))}, {"b.any", "a.steady"})

    def test_only_what_is_asked_for_is_listed(self) -> None:
        for patterns, status, lines in (
            (["b."], 0, ["b.any any shared"]),
            (["nosuch"], 2, ["no test has a name like that; see tests/run --list"]),
        ):
            out = io.StringIO()
            with redirect_stdout(out):
                self.assertEqual(tests_run.print_list(self.LISTED, patterns), status)
            self.assertEqual(out.getvalue().splitlines(), lines)


class TryingAgain(unittest.TestCase):
    def outcome(self, counts: bool, first: str, second: str, cpus: int = 4) -> tuple[int, int, int]:
        """How many passed, failed, and were tried again."""
        report = tests_run.Report()
        guest = tests_run.Guest("7", cpus, ["a", "b", "c"], counts)

        def command(of, _out: Path) -> list[str]:
            self.assertEqual(of.counts, counts or of.is_second and cpus == 1)
            return ["printf", "%s", second if of.is_second else first]

        with tempfile.TemporaryDirectory() as logs, redirect_stdout(io.StringIO()):
            tests_run.run_guests([guest], 1, command, Path(logs), report)
        return report.passed, report.failed, report.tried_again

    def test_all_is_well_at_once(self) -> None:
        self.assertEqual(self.outcome(False, GOOD, ""), (3, 0, 0))

    def test_one_that_fails_once_where_the_clock_is_the_hosts(self) -> None:
        self.assertEqual(self.outcome(False, BAD, "ok b 1.0\nend of suite\n"), (3, 0, 1))

    def test_one_that_fails_twice(self) -> None:
        self.assertEqual(self.outcome(False, BAD, "FAILED b 1.0\n    why\nend of suite\n"), (2, 1, 1))

    def test_none_where_instructions_are_counted(self) -> None:
        self.assertEqual(self.outcome(True, BAD, GOOD, 1), (2, 1, 0))

    def test_all_that_fail_on_one_cpu_are_tried_again_where_instructions_are_counted(self) -> None:
        self.assertEqual(self.outcome(False, GOOD.replace("ok", "FAILED"), GOOD, 1), (3, 0, 3))

    def test_none_where_many_fail(self) -> None:
        self.assertEqual(self.outcome(False, GOOD.replace("ok", "FAILED"), GOOD), (0, 3, 0))

    def test_none_of_a_guest_that_did_not_get_to_its_end(self) -> None:
        self.assertEqual(self.outcome(False, BAD.replace("end of suite\n", ""), GOOD), (2, 2, 0))

    def test_the_second_guest_does_not_get_to_its_end(self) -> None:
        self.assertEqual(self.outcome(False, BAD, ""), (2, 1, 1))


if __name__ == "__main__":
    unittest.main()
