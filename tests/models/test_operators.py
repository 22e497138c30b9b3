"""A Step says how much work there is, and is a value."""

from __future__ import annotations

import pytest

from tiermem.models.operators import Step


def test_a_step_is_a_value() -> None:
    """Equal work compares equal, can be a key, and cannot be changed."""
    step = Step(2, 300, ((100, 0),))
    assert step == Step(2, 300, ((100, 0),), 1)
    assert len({step, Step(2, 300, ((100, 0),), 1), Step(2, 301)}) == 2
    with pytest.raises(AttributeError):
        step.steps = 4  # type: ignore[misc]


def test_decode_alone_is_the_short_form() -> None:
    """Without prefill named there is none, and without a number there is one pass."""
    assert Step(4, 1000).prefill == ()
    assert Step(4, 1000).steps == 1
