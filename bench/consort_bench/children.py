# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs that the bench waits for, in several threads; all can be stopped at once."""

from __future__ import annotations

import os
import signal
import subprocess
import threading


class Stopped(Exception):
    """The bench is ending: nothing is started any more."""


_lock = threading.Lock()
_running: set[subprocess.Popen] = set()
_is_stopped = False


def run(words: list[str], timeout_s: float | None = None) -> subprocess.CompletedProcess[str]:
    """As subprocess.run() with its output captured. Ctrl-C does not reach it, only stop() does."""
    with _lock:
        if _is_stopped:
            raise Stopped
        child = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        _running.add(child)
    try:
        out, err = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _kill(child, signal.SIGKILL)
        child.communicate()
        raise
    finally:
        with _lock:
            _running.discard(child)
    return subprocess.CompletedProcess(words, child.returncode, out, err)


def stop() -> None:
    """Ends what runs, with its own children, and lets nothing start again."""
    global _is_stopped
    with _lock:
        _is_stopped = True
        for child in _running:
            _kill(child, signal.SIGTERM)


def _kill(child: subprocess.Popen, number: signal.Signals) -> None:
    # Its group has its number, as it began a session.
    if child.poll() is None:
        os.killpg(child.pid, number)
