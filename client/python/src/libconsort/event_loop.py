# SPDX-License-Identifier: MIT OR Apache-2.0
"""An asyncio loop that is a member of a cooperation domain.

    asyncio.run(main(), loop_factory=libconsort.loop_factory("studio", event_ns=1_000_000))

The loop polls once for each of its rounds: all callbacks that are ready at a time are one unit of work. It
publishes its earliest timer as its due event; while callbacks are ready, it has a best-effort event besides. Where
asyncio would wait for file descriptors, the thread sleeps in the poll. A callback that waits elsewhere, such as in
time.sleep(), breaks the contract; asyncio.to_thread() does not. asyncio.run() has loop_factory from Python 3.12
on, asyncio.Runner from 3.11 on.
"""

import asyncio
import ctypes
import functools
import math
import selectors

from ._library import DUE_AHEAD_MAX_NS, NEVER, EpollEvent, library
from ._library import Next as _Next
from ._library import checked as _checked

NS_PER_S = 1_000_000_000


class EventLoop(asyncio.SelectorEventLoop):
    """An event loop of the calling thread, which is a member; closing the loop leaves the domain."""

    def __init__(self, member):
        """member: of libconsort.join() in this thread. The loop leaves for it."""
        self.member = member
        # Priority and key of what is ready: of all members, 0 runs first, and then the smaller key.
        self.best_effort = (0, 0)
        super().__init__(_Selector(self))

    def close(self):
        """As any loop's; and leaves the domain."""
        super().close()
        self.member.leave()

    def next_event(self, timeout_s):
        """What the thread wants next, where asyncio would wait for timeout_s at most, None without an end; in ns.

        asyncio asks its selector to wait until the earliest timer at most, and not at all while callbacks are
        ready. Which of the two a timeout of 0 is, only its own queues say, and no public method shows them.
        """
        due_ns = NEVER
        if self._scheduled:
            now_ns = library().consort_now_ns()
            due_ns = min(math.ceil(self._scheduled[0].when() * NS_PER_S), now_ns + DUE_AHEAD_MAX_NS)
        raw = _Next(due_ns=due_ns)
        is_stopping = timeout_s == 0 and due_ns == NEVER
        if self._ready or is_stopping:
            raw.priority, raw.key = self.best_effort
            raw.best_effort = 1
        return raw


class _Selector(selectors.EpollSelector):
    """Gives way to the other members before each round, and sleeps in the poll."""

    def __init__(self, loop):
        super().__init__()
        self._loop = loop
        self._event = EpollEvent()

    def select(self, timeout=None):
        following = ctypes.byref(self._loop.next_event(timeout))
        # What is ready, the selector itself reads afterwards: descriptors stay ready until they are read.
        handle = self._loop.member._handle
        _checked(library().consort_poll_epoll(handle, following, self.fileno(), self._event, 1, None))
        return super().select(0)


def loop_factory(domain=None, **options):
    """For asyncio.run() and asyncio.Runner(): a loop whose thread joins the domain; options as for join()."""
    from . import join

    return functools.partial(_joined, join, domain, options)


def _joined(join, domain, options):
    member = join(domain, **options)
    try:
        return EventLoop(member)
    except BaseException:
        member.leave()
        raise
