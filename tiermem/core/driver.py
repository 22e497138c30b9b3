"""The loop that joins a brain to a body.

Ask the brain, hand each action to the executor, feed each `Done` back. A tap sees every event
with its actions; the log is a tap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tiermem.core.messages import Action, Done, Event


class Brain(Protocol):
    """Whatever answers events with actions: the controller alone, or the engine around it."""

    def on(self, event: Event, now: int) -> list[Action]:
        """Answer `event` at the time `now`, which never decreases (INV-7)."""
        ...


class Executor(Protocol):
    """A body: virtual time or real time."""

    def now(self) -> int:
        """Nanoseconds since this body began."""
        ...

    def submit(self, action: Action, done: Callable[[Done], None]) -> None:
        """Start `action`. `Move`, `Run` and `Wake` call `done` exactly once (INV-5), later and
        from inside `run`; notices call it never."""
        ...

    def run(self, until: Callable[[], bool]) -> None:
        """Deliver completions until `until()` is true or none is outstanding."""
        ...


Tap = Callable[[int, Event, Sequence[Action]], None]


class Driver:
    """One brain, one body, and whoever listens."""

    def __init__(self, brain: Brain, executor: Executor, taps: Sequence[Tap] = ()) -> None:
        self._on = brain.on
        self._now = executor.now
        self._submit = executor.submit
        self._run = executor.run
        self._taps = tuple(taps)

    def post(self, event: Event) -> None:
        """Give `event` to the brain now, and its actions to the body."""
        now = self._now()
        actions = self._on(event, now)
        for tap in self._taps:
            tap(now, event, actions)
        for action in actions:
            self._submit(action, self.post)

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Let the body work until `until()` is true or nothing is outstanding."""
        self._run(until)
