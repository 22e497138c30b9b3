"""LRU: the order is that of the last use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tiermem.policies.lru import LRU
from tiermem.testing.evict import EvictTests, fill


class TestLRU(EvictTests):
    """Conformance."""

    evict = LRU


def test_oldest_use_goes_first() -> None:
    """Insertion and touch are both uses; the block used longest ago goes first."""
    order = LRU(4)
    fill(order, [1, 2, 3, 4])
    order.touch(1)
    order.touch(3)
    assert list(order.victims()) == [2, 4, 1, 3]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(uses=st.lists(st.integers(0, 12), max_size=80), capacity=st.integers(1, 8))
def test_equals_a_naive_cache(agree: Callable[..., Any], uses: list[int], capacity: int) -> None:
    """Every victim is the one that a search through all residents finds."""
    agree(LRU(capacity), lambda note: (note["used"],), uses, capacity)
