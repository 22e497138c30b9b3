"""One-pass LRU equals the definition at every capacity, in both orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiermem.curves import replay
from tiermem.curves.lru import NEVER, stack_distances
from tiermem.curves.tally import tally
from tiermem.policies.lru import LRU

requests_ = st.lists(st.lists(st.integers(0, 9), max_size=6), max_size=14)
ORDERS = ["forward", "reverse"]


def test_distances_by_hand(stream: Callable[..., Any]) -> None:
    """forward: others used since. reverse: asked at the start, used last to first."""
    ids, offsets = stream([[1, 2, 3], [1, 2, 4], [2, 3]])
    forward = [NEVER, NEVER, NEVER, 2, 2, NEVER, 1, 3]
    assert stack_distances(ids, offsets, "forward").tolist() == forward
    # After request 0 the stack is 1 2 3 (top first), after request 1 it is 1 2 4 3.
    reverse = [NEVER, NEVER, NEVER, 0, 1, NEVER, 1, 3]
    assert stack_distances(ids, offsets, "reverse").tolist() == reverse


def test_an_id_twice_in_one_request(stream: Callable[..., Any]) -> None:
    """forward: the second finds what the first brought. reverse: both look at the start."""
    ids, offsets = stream([[1, 1], [2, 1, 1, 2]])
    assert stack_distances(ids, offsets, "forward").tolist() == [NEVER, 0, NEVER, 1, 0, 1]
    assert stack_distances(ids, offsets, "reverse").tolist() == [NEVER, NEVER, NEVER, 0, 0, NEVER]


@pytest.mark.parametrize("order", ORDERS)
@settings(deadline=None, max_examples=150)
@given(requests=requests_)
def test_equals_naive_and_replay(
    stream: Callable[..., Any], naive_lru: Callable[..., Any], order: str, requests: list[list[int]]
) -> None:
    """Stack distances, the LRU class in the plain loop, and a list searched: all three agree."""
    ids, offsets = stream(requests)
    distances = stack_distances(ids, offsets, order)
    for capacity in range(1, 12):
        wanted = naive_lru(requests, capacity, order)
        assert (distances < capacity).tolist() == wanted
        replayed = replay.hits(LRU(capacity), ids, offsets, capacity, order)
        assert replayed.tolist() == wanted


@pytest.mark.parametrize("order", ORDERS)
@settings(deadline=None)
@given(requests=requests_)
def test_more_room_never_hurts(
    stream: Callable[..., Any], order: str, requests: list[list[int]]
) -> None:
    """LRU has no Belady anomaly: block and prefix hits rise with capacity."""
    ids, offsets = stream(requests)
    distances = stack_distances(ids, offsets, order)
    counts = [tally(distances < capacity, offsets) for capacity in range(12)]
    for which in (0, 1):
        column = [count[which] for count in counts]
        assert column == sorted(column)
