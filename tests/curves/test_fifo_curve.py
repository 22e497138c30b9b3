"""FIFO by insertion numbers equals the FIFO class in the plain loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiermem.curves import fifo, replay
from tiermem.policies.fifo import FIFO


def test_belady_anomaly_by_hand(stream: Callable[..., Any]) -> None:
    """The textbook string: FIFO has 3 hits of 12 with 3 blocks and 2 with 4."""
    ids, offsets = stream([[1], [2], [3], [4], [1], [2], [5], [1], [2], [3], [4], [5]])
    assert fifo.hits(ids, offsets, 3, "forward").sum() == 3
    assert fifo.hits(ids, offsets, 4, "forward").sum() == 2


@pytest.mark.parametrize("order", ["forward", "reverse"])
@settings(deadline=None, max_examples=150)
@given(
    requests=st.lists(st.lists(st.integers(0, 9), max_size=6), max_size=14),
    capacity=st.integers(1, 8),
)
def test_equals_replay(
    stream: Callable[..., Any], order: str, requests: list[list[int]], capacity: int
) -> None:
    """In both orders, also where a request is larger than the cache or names an id twice."""
    ids, offsets = stream(requests)
    wanted = replay.hits(FIFO(capacity), ids, offsets, capacity, order)
    assert fifo.hits(ids, offsets, capacity, order).tolist() == wanted.tolist()
