"""An eviction order hears of each resident once, and of nothing that is not there."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from tiermem.core.messages import Acquire, Forget
from tiermem.policies.lru import LRU
from tiermem.policies.placement import Waterfall
from tiermem.testing.adversary import Adversary


class Strict(LRU):
    """An LRU that refuses to be told nonsense."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.here: dict[int, int] = {}
        self.capacity = capacity

    def insert(self, block: int, size: int) -> None:
        assert block not in self.here, "inserted once"
        self.here[block] = size
        assert sum(self.here.values()) <= self.capacity, "room was made before"
        super().insert(block, size)

    def touch(self, block: int) -> None:
        assert block in self.here, "only a resident is touched"
        super().touch(block)

    def remove(self, block: int) -> None:
        assert block in self.here, "only a resident is removed"
        del self.here[block]
        super().remove(block)


@pytest.mark.parametrize("order", ["reverse", "forward"])
def test_orders_are_told_the_truth(machine: Any, make_policy: Any, order: str) -> None:
    """In 150 random histories with failures: insert, touch and remove name residents rightly, and
    in the end each order knows exactly the blocks of its tier."""
    for seed in range(150):
        draw = Random(seed).randint
        capacities = {"hbm": draw(4, 14), "dram": draw(4, 14), "nvme": draw(4, 14)}
        policy = make_policy(capacities, Strict, Waterfall(seed % 2 == 0, 0.2 * (seed % 3)), order)
        adversary = Adversary(machine(capacities), capacities, policy, draw)
        adversary.play(60)
        for name, room in adversary.controller.table.rooms.items():
            sizes = {block: copy.nbytes for block, copy in room.copies.items()}
            assert policy.evict(name).here == sizes, f"seed {seed}"


def test_a_block_is_known_when_it_is_let_go(world: Callable[..., Any]) -> None:
    """Committed blocks of a running lease are pinned and in no order; when the lease ends they
    are inserted, tail first."""
    hbm = world({"hbm": 4}, evict=Strict)
    order = hbm.controller._books.orders["hbm"]
    hbm.acquire(1, [1, 2])
    hbm.commit(1)
    assert list(order.victims()) == []
    hbm.release(1)
    assert list(order.victims()) == [2, 1]


def test_recent_is_what_was_let_go_last(world: Callable[..., Any]) -> None:
    """Recency is the end of use, not its start: the lease that began first ended last."""
    hbm = world({"hbm": 4}, evict=Strict)
    hbm.write(1, [1])
    hbm.write(2, [2])
    hbm.acquire(3, [1])
    hbm.acquire(4, [2])
    hbm.release(4)
    hbm.release(3)
    assert list(hbm.controller._books.orders["hbm"].victims()) == [2, 1]


def test_the_longest_wait_is_retried_when_bytes_come_free(world: Callable[..., Any]) -> None:
    """Whoever waits is looked at again after each event that frees bytes at its tier, whatever
    freed them: here a delete."""
    hbm = world({"hbm": 2}, evict=Strict)
    hbm.write(1, [1, 2])
    hbm.acquire(2, [1])
    assert hbm.post(Acquire(3, (5, 6), (1, 1), "hbm")) != []  # block 2 goes, one byte is short
    hbm.post(Forget((1,)))
    assert [type(a).__name__ for a in hbm.release(2)] == ["Drop", "Ready"]
