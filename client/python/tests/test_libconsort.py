#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests the package, with a daemon of its own and without. See ../test."""

import errno
import os
import tempfile
import threading
import unittest

FOLDER = tempfile.TemporaryDirectory()
SOCKET = os.path.join(FOLDER.name, "consort.sock")
# Before the library looks.
os.environ.update(CONSORT_SOCKET=SOCKET, CONSORT_HOST="kernel")

import fake_daemon  # noqa: E402
import libconsort  # noqa: E402


def in_thread(body):
    """A thread has one membership: each test has a thread of its own."""
    outcome = []

    def run():
        try:
            body()
            outcome.append(None)
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if outcome[0]:
        raise outcome[0]


class Alone(unittest.TestCase):
    """Without a daemon everything runs. The names of tests put them first."""

    def test_a_member_is_on_its_own(self):
        def body():
            with libconsort.join("studio", event_ns=1_000_000, order="service") as member:
                now_ns = libconsort.now_ns()
                member.poll(due_ns=now_ns + 5_000_000)
                self.assertGreaterEqual(libconsort.now_ns(), now_ns + 4_900_000)
                others = member.poll(best_effort=(1, 2))
                self.assertEqual((others.standing, others.due_ns, others.best_effort), ("outside", None, None))
                self.assertEqual((member.why(), member.why_alone()), ("", None))
                with self.assertRaises(libconsort.Error) as refused:
                    member.poll()
                self.assertEqual(refused.exception.errno, errno.EINVAL)
                self.assertIn("sleep for ever", str(refused.exception))
            with self.assertRaises(libconsort.Error):
                member.poll(best_effort=(1, 2))

        in_thread(body)

    def test_b_what_is_wrong_is_said(self):
        def body():
            with self.assertRaises(ValueError):
                libconsort.join("studio", order="random")
            for name in ("two words", "x" * 64):
                with self.assertRaises(libconsort.Error):
                    libconsort.join(name)
                with self.assertRaises(libconsort.Error):
                    libconsort.announce(name)
            with self.assertRaises(libconsort.Error) as refused:
                libconsort.reserve("guaranteed", 0.3, 33_000_000)
            self.assertEqual(refused.exception.errno, errno.ENOTCONN)

        in_thread(body)

    def test_c_names_keep_what_they_say(self):
        def body():
            with libconsort.announce("read") as read:
                read.set_state(3, -5)
                self.assertEqual(read.control(0), 0)
                for index in (4, -1, 2**32):
                    with self.assertRaises(IndexError):
                        read.set_state(index, 0)
                read.done()
                with self.assertRaises(libconsort.Error) as refused:
                    libconsort.announce("again")
                self.assertEqual(refused.exception.errno, errno.EEXIST)

        in_thread(body)


class Served(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = fake_daemon.Daemon(SOCKET)

    @classmethod
    def tearDownClass(cls):
        cls.daemon.close()

    def test_a_member_polls(self):
        def body():
            with libconsort.join("studio") as member:
                self.assertEqual(self.daemon.name(fake_daemon.JOIN), "studio")
                others = member.poll(best_effort=(1, 2))
                self.assertEqual(others.standing, "member")
                self.assertIsNone(others.yield_by_ns)
                self.assertEqual(member.others().standing, "member")
            self.assertTrue(self.daemon.of(fake_daemon.LEAVE))

        in_thread(body)

    def test_a_thread_with_a_name_publishes(self):
        def body():
            with libconsort.announce("read") as read:
                slot = self.daemon.of(fake_daemon.ANNOUNCE)[-1][4]
                self.assertEqual(self.daemon.name(fake_daemon.ANNOUNCE), "read")
                read.set_state(1, -(2**63))
                level = read.share_state(0)
                in_thread(lambda: level.set(7))
                self.assertEqual(self.daemon.state(slot), (7, -(2**63), 0, 0))
                self.daemon.set_control(slot, 2, 99)
                self.assertEqual(read.control(2), 99)
                read.begin_submission()
                read.end_submission()
                read.done()
                read.trigger_plans()
                read.look()
                self.assertEqual(self.daemon.told(slot), (2, 1, 1))

        in_thread(body)

    def test_another_thread_may_not(self):
        def body():
            with libconsort.announce("read") as read, self.assertRaises(libconsort.Error) as refused:
                in_thread(lambda: read.set_state(0, 1))
            self.assertEqual(refused.exception.errno, errno.EPERM)

        in_thread(body)

    def test_reservations(self):
        libconsort.reserve("guaranteed", 0.3, 33_000_000)
        self.assertEqual(self.daemon.name(fake_daemon.RESERVE), "guaranteed")
        usage = libconsort.usage()
        self.assertEqual((usage.asked, usage.used_1s, usage.used_10s, usage.threads), (0.25, 0.1, None, 2))
        self.daemon.refuse[fake_daemon.USAGE] = errno.ENOENT
        with self.assertRaises(libconsort.Error) as refused:
            libconsort.usage()
        self.assertEqual(refused.exception.errno, errno.ENOENT)
        self.assertIn("because the test says so", str(refused.exception))
        self.daemon.refuse.clear()
        with self.assertRaises(libconsort.Error):
            libconsort.reserve("guaranteed", 2.0, 33_000_000)


if __name__ == "__main__":
    unittest.main()
