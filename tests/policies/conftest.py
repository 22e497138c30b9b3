"""A naive cache to hold an eviction order against: it looks at every resident for each victim."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tiermem.core.policy import Evict

Rank = Callable[[dict[str, int]], tuple[int, ...]]


@pytest.fixture
def agree() -> Callable[[Evict, Rank, Sequence[int], int], None]:
    """Run `uses` through an order and through the naive cache, and compare each victim.

    The naive cache notes for each resident when it was inserted, when it was last used and how
    often; the one with the lowest `rank` of these goes first.
    """

    def run(order: Evict, rank: Rank, uses: Sequence[int], capacity: int) -> None:
        notes: dict[int, dict[str, int]] = {}
        for now, block in enumerate(uses):
            if block in notes:
                order.touch(block)
                notes[block]["uses"] += 1
                notes[block]["used"] = now
                continue
            if len(notes) == capacity:
                wanted = sorted(notes, key=lambda each: rank(notes[each]))
                assert list(order.victims()) == wanted
                order.remove(wanted[0])
                del notes[wanted[0]]
            order.insert(block, 1)
            notes[block] = {"inserted": now, "used": now, "uses": 1}

    return run


@pytest.fixture
def first() -> Callable[[Any, int], list[int]]:
    """The first `count` victims of an order, which are not evicted."""

    def take(order: Evict, count: int) -> list[int]:
        victims = order.victims()
        return [next(victims) for _ in range(count)]

    return take
