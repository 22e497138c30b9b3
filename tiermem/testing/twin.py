"""The twin test: the recorded events of any run, fed to a fresh mind, give the same actions.

It is what keeps a simulated and a real run on one policy (INV-10). Give a `Tape` to the run as a
tap, and afterwards a new controller, made as the run's was, to `same_actions`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiermem.core.driver import Brain
from tiermem.core.messages import Action, Event


class Tape:
    """A tap that remembers everything."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, Event, tuple[Action, ...]]] = []

    def __call__(self, now: int, event: Event, actions: Sequence[Action]) -> None:
        """Write down one event with what was answered."""
        self.entries.append((now, event, tuple(actions)))


def same_actions(tape: Tape, fresh: Brain) -> int:
    """Feed the tape to `fresh`; the number of actions compared.

    Raises `AssertionError` that names the first event with another answer.
    """
    actions_compared = 0
    for index, (now, event, recorded) in enumerate(tape.entries):
        answered = tuple(fresh.on(event, now))
        same = answered == recorded and list(map(type, answered)) == list(map(type, recorded))
        assert same, (
            f"INV-10: event {index}, {event}, was answered with {recorded} in the run, and with"
            f" {answered} by a fresh mind"
        )
        actions_compared += len(recorded)
    return actions_compared
