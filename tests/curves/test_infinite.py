"""An infinite cache misses first uses only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tiermem.curves import infinite


def test_only_first_uses_miss(stream: Callable[..., Any]) -> None:
    """By hand; an id named twice in its first request hits once forward and not at all reverse."""
    ids, offsets = stream([[1, 2, 1], [1, 3], [3, 2]])
    forward = [False, False, True, True, False, True, True]
    assert infinite.hits(ids, offsets, "forward").tolist() == forward
    reverse = [False, False, False, True, False, True, True]
    assert infinite.hits(ids, offsets, "reverse").tolist() == reverse
