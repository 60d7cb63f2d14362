# SPDX-License-Identifier: MIT OR Apache-2.0
"""libconsort.so and its types, as consort.h declares them."""

import ctypes
import functools
import os
import pathlib
from ctypes import POINTER, c_char_p, c_double, c_int, c_int64, c_uint32, c_uint64, c_void_p

NEVER = 2**64 - 1
DUE_AHEAD_MAX_NS = 24 * 3600 * 1_000_000_000
SONAME = "libconsort.so.0"
# Where a wheel has it.
PACKED = pathlib.Path(__file__).with_name(SONAME)


class Error(OSError):
    """What libconsort refuses: errno, and in words what was wrong, what was expected and what to do."""

    @classmethod
    def last(cls, code):
        """Of this thread's last call."""
        text = library().consort_last_error_text().decode(errors="replace")
        return cls(-code, text or os.strerror(-code))


class Options(ctypes.Structure):
    _fields_ = [("event_ns", c_uint64), ("order", c_uint32), ("flags", c_uint32)]


class Next(ctypes.Structure):
    _fields_ = [
        ("due_ns", c_uint64),
        ("key", c_uint64),
        ("priority", c_uint32),
        ("best_effort", c_uint32),
    ]


class Others(ctypes.Structure):
    _fields_ = [
        ("yield_by_ns", c_uint64),
        ("due_ns", c_uint64),
        ("key", c_uint64),
        ("priority", c_uint32),
        ("standing", c_uint32),
    ]


class Usage(ctypes.Structure):
    _fields_ = [
        ("asked", c_double),
        ("lent", c_double),
        ("held", c_double),
        ("given", c_double),
        ("used_1s", c_double),
        ("used_10s", c_double),
        ("used_60s", c_double),
        ("suggested", c_double),
        ("late_s", c_uint32),
        ("threads", c_uint32),
    ]


# Room for one struct epoll_event, which some machines pack.
EpollEvent = ctypes.c_char * 16

# Results, and arguments.
FUNCTIONS = {
    "consort_now_ns": (c_uint64, []),
    "consort_last_error_text": (c_char_p, []),
    "consort_join": (c_int, [c_char_p, POINTER(Options), POINTER(c_void_p)]),
    "consort_why_alone": (c_int, [c_void_p]),
    "consort_leave": (c_int, [c_void_p]),
    "consort_poll": (c_int, [c_void_p, POINTER(Next), POINTER(Others)]),
    "consort_poll_epoll": (c_int, [c_void_p, POINTER(Next), c_int, c_void_p, c_int, POINTER(Others)]),
    "consort_others": (c_int, [c_void_p, POINTER(Others)]),
    "consort_why": (c_char_p, [c_void_p]),
    "consort_announce": (c_int, [c_char_p, POINTER(c_void_p)]),
    "consort_set_state": (c_int, [c_void_p, c_uint32, c_int64]),
    "consort_get_control": (c_int, [c_void_p, c_uint32, POINTER(c_int64)]),
    "consort_share_state": (c_int, [c_void_p, c_uint32, POINTER(c_void_p)]),
    "consort_shared_state_set": (None, [c_void_p, c_int64]),
    "consort_shared_state_end": (None, [c_void_p]),
    "consort_begin_submission": (c_int, [c_void_p]),
    "consort_end_submission": (c_int, [c_void_p]),
    "consort_done": (c_int, [c_void_p]),
    "consort_trigger_plans": (c_int, [c_void_p]),
    "consort_look": (c_int, [c_void_p]),
    "consort_reserve": (c_int, [c_char_p, c_double, c_uint64]),
    "consort_release": (c_int, []),
    "consort_lend": (c_int, [c_int, c_double]),
    "consort_recollect": (c_int, [c_int, c_double]),
    "consort_usage": (c_int, [POINTER(Usage)]),
    "consort_trace_event": (None, [c_char_p, c_char_p, c_int64]),
}


@functools.cache
def library():
    """The library, loaded when it is first needed: CONSORT_LIBRARY, or the wheel's, or the system's."""
    path = os.environ.get("CONSORT_LIBRARY") or (str(PACKED) if PACKED.exists() else SONAME)
    try:
        loaded = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"{path} cannot be loaded ({error}): install it by `make -C client install`") from error
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    loaded.Options = Options
    return loaded


def checked(code):
    """Raises what a function says by a negative code."""
    if code < 0:
        raise Error.last(code)
    return code
