#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests the asyncio loop: on its own, with a daemon that writes down what is published, and among two members that
cooperate at user level. See ../test."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

FOLDER = tempfile.TemporaryDirectory()
SOCKET = os.path.join(FOLDER.name, "consort.sock")
# Before the library looks. The test's own children choose another host.
if sys.argv[1:2] != ["member"]:
    os.environ.update(CONSORT_SOCKET=SOCKET, CONSORT_HOST="kernel")

import fake_daemon  # noqa: E402
import libconsort  # noqa: E402


def run(main, domain="studio", **options):
    with asyncio.Runner(loop_factory=libconsort.loop_factory(domain, **options)) as runner:
        return runner.run(main)


class Alone(unittest.TestCase):
    """What any loop does, this one does. The names of tests put them first."""

    def test_a_sleepers_wake_in_order_and_never_early(self):
        async def main():
            woken = []

            async def sleeper(delay_s):
                began = time.monotonic()
                await asyncio.sleep(delay_s)
                self.assertGreaterEqual(time.monotonic() - began, delay_s - 1e-6)
                woken.append(delay_s)

            await asyncio.gather(*map(sleeper, (0.03, 0.01, 0.02, 0)))
            return woken

        self.assertEqual(run(main()), [0, 0.01, 0.02, 0.03])

    def test_b_descriptors_threads_children_and_signals_wake_it(self):
        async def main():
            loop = asyncio.get_running_loop()
            ours, theirs = socket.socketpair()
            ours.setblocking(False)
            loop.call_later(0.005, theirs.send, b"hello")
            self.assertEqual(await loop.sock_recv(ours, 9), b"hello")
            ours.close()
            theirs.close()
            self.assertEqual(await asyncio.to_thread(lambda: 7), 7)
            told = loop.create_future()
            threading.Timer(0.005, lambda: loop.call_soon_threadsafe(told.set_result, 8)).start()
            self.assertEqual(await told, 8)
            signalled = asyncio.Event()
            loop.add_signal_handler(signal.SIGUSR1, signalled.set)
            loop.call_later(0.005, os.kill, os.getpid(), signal.SIGUSR1)
            await signalled.wait()
            child = await asyncio.create_subprocess_exec("true")
            self.assertEqual(await child.wait(), 0)

        run(main())

    def test_c_what_fails_leaves_no_member_behind(self):
        async def main():
            raise ValueError("on purpose")

        for _ in range(2):
            with self.assertRaises(ValueError):
                run(main())
        with self.assertRaises(libconsort.Error):
            libconsort.loop_factory("two words")()
        with libconsort.join("studio"):
            pass

    def test_d_a_callback_may_close_what_it_waits_for(self):
        async def main():
            loop = asyncio.get_running_loop()
            ours, theirs = socket.socketpair()
            seen = []
            loop.add_reader(ours, lambda: (seen.append(ours.recv(9)), loop.remove_reader(ours), ours.close()))
            theirs.send(b"x")
            await asyncio.sleep(0.01)
            theirs.close()
            return seen

        self.assertEqual(run(main()), [b"x"])


class Served(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = fake_daemon.Daemon(SOCKET)

    @classmethod
    def tearDownClass(cls):
        cls.daemon.close()

    def test_timers_are_due_events_and_ready_callbacks_best_effort(self):
        published = []

        async def main():
            loop = asyncio.get_running_loop()
            loop.best_effort = (3, 44)
            # While callbacks are ready: best effort, and the earliest timer that was not cancelled.
            first = loop.call_at(loop.time() + 50, print)
            second = loop.call_at(loop.time() + 60, print)
            await asyncio.sleep(0)
            published.append((self.daemon.next(slot), first.when()))
            first.cancel()
            await asyncio.sleep(0)
            published.append((self.daemon.next(slot), second.when()))
            second.cancel()
            await asyncio.sleep(0)
            published.append((self.daemon.next(slot), None))
            # While it sleeps: the timer alone.
            looked = []
            threading.Timer(0.02, lambda: looked.append(self.daemon.next(slot))).start()
            sleeper = loop.call_at(loop.time() + 0.05, lambda: None)
            await asyncio.sleep(0.05)
            published.append((looked[0], sleeper.when()))

        loop = libconsort.loop_factory("studio")()
        slot = self.daemon.of(fake_daemon.JOIN)[-1][4]
        loop.run_until_complete(main())
        loop.close()
        self.assertTrue(self.daemon.of(fake_daemon.LEAVE))
        for (due_ns, priority, key), when_s in published[:3]:
            self.assertEqual((priority, key), (3, 44))
            if when_s is None:
                self.assertEqual(due_ns, fake_daemon.NEVER)
            else:
                self.assertLess(abs(due_ns - when_s * 1e9), 1000)
        (due_ns, priority, _), when_s = published[3]
        self.assertEqual(priority, 0xFFFFFFFF)
        self.assertLess(abs(due_ns - when_s * 1e9), 1000)


class Together(unittest.TestCase):
    def test_members_of_two_programs_see_when_the_other_is_due(self):
        """At user level: real processes, with no daemon and no scheduler of ours."""
        environment = {**os.environ, "CONSORT_HOST": "user", "CONSORT_SOCKET": "/nonexistent"}

        def program(role):
            command = [sys.executable, __file__, "member", role]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            return subprocess.Popen(command, env=environment, text=True, **pipes)

        with program("sleeper") as sleeper, program("looker") as looker:
            said, _ = looker.communicate(timeout=90)
            sleeper.communicate(timeout=90)
            self.assertEqual((looker.returncode, sleeper.returncode, said), (0, 0, "seen\n"))


def member(role):
    """One sleeps for a minute, or until its input ends; the other looks until it has seen when that is due."""

    async def sleeper():
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        loop.add_reader(sys.stdin, ended.set)
        loop.call_later(60, ended.set)
        await ended.wait()

    async def looker():
        loop = asyncio.get_running_loop()
        until_s = loop.time() + 50
        while loop.time() < until_s:
            due_ns = loop.member.others().due_ns
            if due_ns is not None and due_ns > libconsort.now_ns() + 5_000_000_000:
                print("seen")
                return
            await asyncio.sleep(0.001)

    run(sleeper() if role == "sleeper" else looker(), f"loops-{os.getppid()}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["member"]:
        member(sys.argv[2])
    else:
        unittest.main()
