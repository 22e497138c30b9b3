"""The twin test itself: it passes for an honest mind and notices one that answers otherwise."""

from __future__ import annotations

import pytest

from tiermem.core.messages import Action, Emit, Event, Wake
from tiermem.testing.twin import Tape, same_actions


class Counting:
    """Answers the n-th event with n."""

    def __init__(self, start: int = 0) -> None:
        self.events = start

    def on(self, event: Event, now: int) -> list[Action]:
        self.events += 1
        return [Wake(self.events, now)]


def taped() -> Tape:
    tape, mind = Tape(), Counting()
    for now in (3, 5):
        tape(now, Emit(1, 1), mind.on(Emit(1, 1), now))  # type: ignore[arg-type]
    return tape


def test_a_fresh_mind_answers_the_same() -> None:
    """INV-10: the number of actions compared."""
    assert same_actions(taped(), Counting()) == 2


def test_another_answer_is_named() -> None:
    """INV-10: the first event that differs, with both answers."""
    with pytest.raises(AssertionError, match=r"INV-10: event 0.*Wake\(id=1.*Wake\(id=8"):
        same_actions(taped(), Counting(7))
