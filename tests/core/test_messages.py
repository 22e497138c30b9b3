"""Messages are dead data: immutable, compared by value, and all of them known to the loop."""

from __future__ import annotations

import pickle
from typing import Any, get_args

import pytest

from tiermem.core import messages
from tiermem.core.messages import Acquire, Done, Move, Run
from tiermem.models.operators import Step

EXAMPLES = [
    Acquire(1, (1, 2), (10, 4), "hbm"),
    Move(3, (1, 2), "dram", "hbm", 14, "fetch"),
    Run(4, Step(2, 300, ((100, 0),)), "hbm"),
    Done(4, True, 1),
]


@pytest.mark.parametrize("message", EXAMPLES)
def test_messages_cannot_be_changed(message: Any) -> None:
    """What a tap has seen stays as it was."""
    for field in message._fields:
        with pytest.raises(AttributeError):
            setattr(message, field, None)


@pytest.mark.parametrize("message", EXAMPLES)
def test_messages_survive_a_file(message: Any) -> None:
    """INV-10 compares recorded messages with new ones: by value, not by identity."""
    copy = pickle.loads(pickle.dumps(message))
    assert copy == message
    assert hash(copy) == hash(message)


def test_nine_events_and_ten_actions() -> None:
    """Eight events for a controller and Submit for the engine; three actions take time, and there
    is no name on both sides."""
    events, actions = get_args(messages.Event), get_args(messages.Action)
    assert (len(events), len(actions)) == (9, 10)
    assert not set(events) & set(actions)


def test_defaults_are_the_common_case() -> None:
    """No scratch; an answer without a word is a success; a run without a word runs to its end."""
    assert Acquire(1, (), (), "hbm").scratch_bytes == 0
    assert (Done(1).ok, Done(1).result) == (True, None)
    assert Run(1, Step(1, 1), "hbm").until is None
