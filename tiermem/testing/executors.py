"""Bodies for tests: one that answers at once, and one that does what the test says."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from tiermem.core.messages import Action, Cut, Done, Move, Run, Wake

Answer = Callable[[Done], None]
Timed = Move | Run | Wake


class InstantExecutor:
    """Everything succeeds in no time, in the order submitted. Time moves only for a `Wake`."""

    def __init__(self) -> None:
        self._now = 0
        self._pending: deque[tuple[Timed, Answer]] = deque()

    def now(self) -> int:
        """Nanoseconds: the latest time that anybody asked to be woken at."""
        return self._now

    def submit(self, action: Action, done: Answer) -> None:
        """Queue what takes time; notices are ignored."""
        if isinstance(action, Move | Run | Wake):
            self._pending.append((action, done))

    def run(self, until: Callable[[], bool]) -> None:
        """Answer in order until `until()` is true or nothing is queued; wakes come last, since
        everything else takes no time, and in the order of their times."""
        while self._pending and not until():
            busy = [entry for entry in self._pending if not isinstance(entry[0], Wake)]
            entry = busy[0] if busy else min(self._pending, key=_wake_time)
            self._pending.remove(entry)
            action, done = entry
            if isinstance(action, Wake):
                self._now = max(self._now, action.when)
            steps = action.operator.steps if isinstance(action, Run) else None
            done(Done(action.id, True, steps))


class ScriptedExecutor:
    """Nothing happens until the test says so: which action ends, when, and how.

    `pending` holds what was submitted and not answered, by id; `notices` everything else.
    """

    def __init__(self) -> None:
        self._now = 0
        self._answers: dict[int, Answer] = {}
        self.pending: dict[int, Timed] = {}
        self.notices: list[Action] = []

    def now(self) -> int:
        """Nanoseconds, as `finish` and `advance` left them."""
        return self._now

    def submit(self, action: Action, done: Answer) -> None:
        """Remember `action`."""
        if isinstance(action, Move | Run | Wake):
            assert action.id not in self.pending, "INV-5: an id is used once"
            self.pending[action.id] = action
            self._answers[action.id] = done
        elif not isinstance(action, Cut):
            self.notices.append(action)

    def advance(self, now: int) -> None:
        """Let time pass without an answer."""
        assert now >= self._now, "INV-7: time never runs backwards"
        self._now = now

    def finish(self, action_id: int, *, ok: bool = True, result: object = None) -> None:
        """Answer one pending action now."""
        del self.pending[action_id]
        self._answers.pop(action_id)(Done(action_id, ok, result))

    def run(self, until: Callable[[], bool]) -> None:
        """Answer everything that succeeds by itself, oldest first, until `until()` is true."""
        while self.pending and not until():
            action = next(iter(self.pending.values()))
            if isinstance(action, Wake):
                self.advance(max(self._now, action.when))
            steps = action.operator.steps if isinstance(action, Run) else None
            self.finish(action.id, result=steps)


def _wake_time(entry: tuple[Timed, Answer]) -> int:
    action = entry[0]
    assert isinstance(action, Wake)
    return action.when
