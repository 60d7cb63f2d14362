# SPDX-License-Identifier: MIT OR Apache-2.0
"""Be on time together with the other programs of a cooperation domain.

A thread joins a domain and polls between its units of work; or it says what it is called, and group files say
when it runs. Where no scheduler is there, the same program runs on its own. Times are nanoseconds of
CLOCK_MONOTONIC, and what belongs to a thread is refused to others.
"""

import ctypes

from ._library import NEVER, Error, library
from ._library import Next as _Next
from ._library import Others as _Others
from ._library import Usage as _Usage
from ._library import checked as _checked
from .event_loop import EventLoop, loop_factory

__all__ = [
    "NEVER",
    "VARIABLES",
    "Announced",
    "Error",
    "EventLoop",
    "Member",
    "Others",
    "SharedState",
    "Usage",
    "announce",
    "join",
    "lend",
    "loop_factory",
    "now_ns",
    "recollect",
    "release",
    "reserve",
    "trace_event",
    "usage",
]

# State variables of a thread, and control variables.
VARIABLES = 4
ORDERS = ("program", "progress", "service")
PREEMPT = 1


def now_ns():
    """The clock that every time here is of."""
    return library().consort_now_ns()


class Others:
    """What the other members want, and what the scheduler says of this one; None where there is no such thing."""

    STANDINGS = ("outside", "member", "demoted")
    PRIORITY_NONE = 0xFFFFFFFF

    def __init__(self, raw):
        self.yield_by_ns = None if raw.yield_by_ns == NEVER else raw.yield_by_ns
        self.due_ns = None if raw.due_ns == NEVER else raw.due_ns
        has_event = raw.priority != self.PRIORITY_NONE
        self.best_effort = (raw.priority, raw.key) if has_event else None
        self.standing = self.STANDINGS[raw.standing] if raw.standing < len(self.STANDINGS) else "unknown"

    def __repr__(self):
        return f"Others({self.__dict__})"


class _OfThread:
    """What a thread has until it leaves."""

    def __init__(self, handle):
        self._handle = handle

    def leave(self):
        """Leaves; once only."""
        handle, self._handle = self._handle, None
        if handle:
            _checked(library().consort_leave(handle))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.leave()

    def why_alone(self):
        """Why the daemon has not let the thread in, as an Error; None: it has, or no daemon is there."""
        code = library().consort_why_alone(self._handle)
        return Error.last(code) if code else None

    def poll(self, due_ns=None, best_effort=None):
        """Publishes what the thread wants next, returns when it is its turn; see consort_poll.

        best_effort is (priority, key): 0 runs first, and then the smaller key.
        """
        raw = _Next(due_ns=NEVER if due_ns is None else due_ns)
        if best_effort is not None:
            raw.priority, raw.key = best_effort
            raw.best_effort = 1
        others = _Others()
        _checked(library().consort_poll(self._handle, ctypes.byref(raw), ctypes.byref(others)))
        return Others(others)

    def others(self):
        """What the others want now, without polling."""
        others = _Others()
        _checked(library().consort_others(self._handle, ctypes.byref(others)))
        return Others(others)


class Member(_OfThread):
    """A thread's membership in a domain."""

    def why(self):
        """Why it was last demoted, in words; "" if it never was."""
        text = library().consort_why(self._handle)
        return text.decode() if text else ""


def join(domain=None, event_ns=0, order="program", preempt=False):
    """Makes the calling thread a member; without a name, of `consort run --domain`'s domain, or of its own."""
    if order not in ORDERS:
        raise ValueError(f"order is {order!r}: expected one of {', '.join(ORDERS)}")
    handle = ctypes.c_void_p()
    options = library().Options(event_ns, ORDERS.index(order), PREEMPT if preempt else 0)
    name = None if domain is None else domain.encode()
    _checked(library().consort_join(name, ctypes.byref(options), ctypes.byref(handle)))
    return Member(handle)


class SharedState:
    """A state variable of a thread that any thread of the program may set."""

    def __init__(self, handle):
        self._handle = handle

    def set(self, value):
        library().consort_shared_state_set(self._handle, value)

    def __del__(self):
        handle, self._handle = self._handle, None
        if handle:
            library().consort_shared_state_end(handle)


class Announced(_OfThread):
    """The calling thread under the name that group files know it by."""

    def __init__(self, name):
        super().__init__(None)
        handle = ctypes.c_void_p()
        _checked(library().consort_announce(name.encode(), ctypes.byref(handle)))
        self._handle = handle

    def set_state(self, index, value):
        """Publishes a state variable, by its place in the group file."""
        _checked(library().consort_set_state(self._handle, _place(index), value))

    def control(self, index):
        """A control variable, by its place in the group file."""
        value = ctypes.c_int64()
        _checked(library().consort_get_control(self._handle, _place(index), ctypes.byref(value)))
        return value.value

    def share_state(self, index):
        """A state variable that other threads set as well, such as the level of a queue."""
        handle = ctypes.c_void_p()
        _checked(library().consort_share_state(self._handle, _place(index), ctypes.byref(handle)))
        return SharedState(handle)

    def begin_submission(self):
        """The thread is about to submit something to the server that follows it."""
        _checked(library().consort_begin_submission(self._handle))

    def end_submission(self):
        """It has submitted: the server runs next."""
        _checked(library().consort_end_submission(self._handle))

    def done(self):
        """It has done what its interval was for."""
        _checked(library().consort_done(self._handle))

    def trigger_plans(self):
        """The plans of its group begin now."""
        _checked(library().consort_trigger_plans(self._handle))

    def look(self):
        """The decision function looks at once at what was published."""
        _checked(library().consort_look(self._handle))


def _place(index):
    """What does not fit into C's argument would be another place there."""
    if not 0 <= index < VARIABLES:
        raise IndexError(f"variable {index} is out of range: expected 0 to {VARIABLES - 1}")
    return index


def announce(name):
    """Says what the calling thread is called in group files."""
    return Announced(name)


def reserve(class_name, rate, period_ns):
    """Reserves a part of a CPU for this process, or changes what it has."""
    _checked(library().consort_reserve(class_name.encode(), rate, period_ns))


def release():
    """Ends this process' reservation."""
    _checked(library().consort_release())


def lend(to, rate):
    """Lends a part of it to another process or thread."""
    _checked(library().consort_lend(to, rate))


def recollect(to, rate=None):
    """Takes back what was lent; all of it, if no rate is given."""
    _checked(library().consort_recollect(to, 0.0 if rate is None else rate))


class Usage:
    """What a reservation asked for, has, and uses: parts of one CPU; None where there is nothing to tell yet."""

    RATES = ("asked", "lent", "held", "given", "used_1s", "used_10s", "used_60s", "suggested")

    def __init__(self, raw):
        for name in self.RATES:
            rate = getattr(raw, name)
            setattr(self, name, None if rate < 0 else rate)
        self.late_s = raw.late_s
        self.threads = raw.threads

    def __repr__(self):
        return f"Usage({self.__dict__})"


def usage():
    """What this process' reservation has now."""
    raw = _Usage()
    _checked(library().consort_usage(ctypes.byref(raw)))
    return Usage(raw)


def trace_event(family, name, value):
    """Says a value of the calling thread to `consort trace record`."""
    library().consort_trace_event(family.encode(), name.encode(), value)
