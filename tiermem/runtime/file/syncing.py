"""Grouped sync: one thread makes what was written durable, for everyone who asked meanwhile.

A round that has begun may have missed the newest writes, so a caller waits for the next one to
begin, together with all others who came during this one. Nobody waits beyond a deadline for a
device that hangs; the one thread does. Without anyone asking, a round follows the first write
after a while.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from tiermem.runtime.stores import Fault, FaultKind


class _Round:
    """One turn of the thread, and what came of it."""

    def __init__(self) -> None:
        self.wanted = 0  # by so many callers
        self.done = threading.Event()
        self.fault: Fault | None = None


class Syncer:
    """The thread that runs `settle`, which must not raise."""

    def __init__(self, settle: Callable[[], Fault | None], settle_s: float) -> None:
        self._settle = settle
        self._settle_s = settle_s
        self._changed = threading.Condition()
        self._next = _Round()
        self._due_s: float | None = None
        self._closing = False
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._work, name="tiermem-file-sync", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Callers whose round has not begun."""
        with self._changed:
            return self._next.wanted

    def soon(self) -> None:
        """Something was written; it becomes durable in `settle_s`, unless asked for earlier."""
        with self._changed:
            if self._due_s is None:
                self._due_s = time.monotonic() + self._settle_s
                self._changed.notify()

    def now(self, deadline_s: float) -> Fault | None:
        """Wait until everything written before this call is durable; or say why it is not."""
        if self._process != os.getpid():
            return Fault(FaultKind.CLOSED, "the file store was opened before a fork; open it again")
        with self._changed:
            if self._closing:
                return Fault(FaultKind.CLOSED, "the file store is closed")
            mine = self._next
            mine.wanted += 1
            self._changed.notify()
        if not mine.done.wait(deadline_s):
            return Fault(FaultKind.TIMEOUT, f"not durable within {deadline_s:g} s")
        return mine.fault

    def close(self, deadline_s: float) -> None:
        """End the thread, unless it hangs."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._process == os.getpid():
            self._thread.join(deadline_s)

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._wait():
                    return
                current, self._next = self._next, _Round()
                self._due_s = None
            current.fault = self._settle()
            current.done.set()

    def _wait(self) -> bool:
        """Until a round is due; False at the end."""
        while not self._next.wanted:
            if self._closing:
                return False
            left = None if self._due_s is None else self._due_s - time.monotonic()
            if left is not None and left <= 0:
                return True
            self._changed.wait(left)
        return True
