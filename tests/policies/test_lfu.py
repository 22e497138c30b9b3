"""LFU: the order is that of the number of uses, then that of the last use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tiermem.policies.lfu import LFU
from tiermem.testing.evict import EvictTests, fill


class TestLFU(EvictTests):
    """Conformance."""

    evict = LFU


def test_keeps_the_hot_block() -> None:
    """Uses are counted: a block used a hundred times outlives one used once, later."""
    order = LFU(2)
    order.insert(1, 1)
    for _ in range(100):
        order.touch(1)
    order.insert(2, 1)
    assert list(order.victims()) == [2, 1]


def test_ties_fall_to_the_least_recently_used() -> None:
    """Among blocks used equally often the one used longest ago goes first."""
    order = LFU(5)
    fill(order, [1, 2, 3, 4, 5])
    for block in (4, 2, 5, 4):
        order.touch(block)
    assert list(order.victims()) == [1, 3, 2, 5, 4]


def test_a_block_that_left_starts_again() -> None:
    """Counts are of one stay: they are forgotten when the block leaves."""
    order = LFU(2)
    fill(order, [1, 2])
    for _ in range(5):
        order.touch(1)
    order.touch(2)
    order.remove(1)
    order.insert(1, 1)
    assert list(order.victims()) == [1, 2]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(uses=st.lists(st.integers(0, 12), max_size=80), capacity=st.integers(1, 8))
def test_equals_a_naive_cache(agree: Callable[..., Any], uses: list[int], capacity: int) -> None:
    """Every victim is the one that a search through all residents finds."""
    agree(LFU(capacity), lambda note: (note["uses"], note["used"]), uses, capacity)
