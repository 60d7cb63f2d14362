# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which tests in guests are tried again (tests/run)."""

import importlib.util
import io
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
