"""The line of progress: late, short, and gone when it is over."""

from __future__ import annotations

import io
import time

import pytest

from tiermem.report import progress


class Terminal(io.StringIO):
    """A stream that says it is one."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_short_work_says_nothing(stream: io.StringIO) -> None:
    """Nothing appears before two seconds have passed."""
    with progress.ProgressLine(stream) as line:
        line.update("simulating lru", 0, 10)
    assert stream.getvalue() == ""


def test_nobody_reading_does_not_stop_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the stream is gone the line goes too, and nothing is raised."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    class Gone(Terminal):
        tries = 0

        def write(self, text: str) -> int:
            self.tries += 1
            raise BrokenPipeError

    stream = Gone()
    with progress.ProgressLine(stream) as line:
        for now[0] in (3.0, 30.0, 300.0):
            line.update("simulating lru", 5, 10)
    assert stream.tries == 1


def test_long_work_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a file a whole line, and not one for every call."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    with progress.ProgressLine(stream) as line:
        for now[0] in (1.0, 2.5, 3.0, 3.5, 14.0):
            line.update("simulating lru", int(now[0] * 100), 2000)
    assert stream.getvalue().splitlines() == [
        "simulating lru: 250 of 2,000 requests, 2 s",
        "simulating lru: 1,400 of 2,000 requests, 14 s",
    ]


def test_on_a_terminal_the_line_is_wiped(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line written over itself, blank at the end, no line feed."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    stream = Terminal()
    with progress.ProgressLine(stream) as line:
        now[0] = 5.0
        line.update("hit curves", 1, 3, "policies")
    shown = stream.getvalue()
    assert "hit curves: 1 of 3 policies" in shown
    assert "\n" not in shown
    assert shown.split("\r")[-2].strip() == ""
