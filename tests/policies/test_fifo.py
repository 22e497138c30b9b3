"""FIFO: the order is that of insertion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tiermem.policies.fifo import FIFO
from tiermem.testing.evict import EvictTests, fill


class TestFIFO(EvictTests):
    """Conformance."""

    evict = FIFO


def test_oldest_insertion_goes_first() -> None:
    """Use changes nothing; a block that left and came back is a new insertion."""
    order = FIFO(4)
    fill(order, [1, 2, 3, 4])
    order.touch(1)
    assert list(order.victims()) == [1, 2, 3, 4]
    order.remove(1)
    order.insert(1, 1)
    assert list(order.victims()) == [2, 3, 4, 1]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(uses=st.lists(st.integers(0, 12), max_size=80), capacity=st.integers(1, 8))
def test_equals_a_naive_cache(agree: Callable[..., Any], uses: list[int], capacity: int) -> None:
    """Every victim is the one that a search through all residents finds."""
    agree(FIFO(capacity), lambda note: (note["inserted"],), uses, capacity)
