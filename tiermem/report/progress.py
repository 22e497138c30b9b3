"""A line of progress on anything past two seconds, on stderr, and nothing before that.

On a terminal the line is written over itself; elsewhere (a log file) there is a new one now and
then. What is reported never depends on it: it reads the wall clock, and only here.
"""

from __future__ import annotations

import math
import sys
import time
from typing import TextIO

FIRST_AFTER_S = 2.0
_TERMINAL_EVERY_S, _FILE_EVERY_S = 0.2, 10.0


class ProgressLine:
    """Call `update` as often as you like; use as a context manager, so that the line is ended."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._terminal = self._stream.isatty()
        self._begun = time.monotonic()
        self._due = self._begun + FIRST_AFTER_S
        self._width = 0

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        if self._width and self._terminal:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()

    def update(self, task: str, done: int, total: int, unit: str = "requests") -> None:
        """`done` of `total` are finished in `task`; `done` = 0 means that it begins."""
        now = time.monotonic()
        if now < self._due:
            return
        text = f"{task}: {done:,} of {total:,} {unit}, {now - self._begun:.0f} s"
        self._due = now + (_TERMINAL_EVERY_S if self._terminal else _FILE_EVERY_S)
        try:
            self._stream.write("\r" + text.ljust(self._width) if self._terminal else f"{text}\n")
            self._stream.flush()
        except OSError:  # nobody reads it any more: no reason to stop the work
            self._due, self._width = math.inf, 0
            return
        self._width = len(text)
