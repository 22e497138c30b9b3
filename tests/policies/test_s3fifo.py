"""S3-FIFO: quick demotion in small, CLOCK in main, second chance through ghost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiermem.errors import InputError
from tiermem.policies.s3fifo import S3FIFO
from tiermem.testing.evict import EvictTests, fill

First = Callable[[S3FIFO, int], list[int]]


class TestS3FIFO(EvictTests):
    """Conformance."""

    evict = S3FIFO


def touched(order: S3FIFO, block: int, times: int) -> None:
    for _ in range(times):
        order.touch(block)


def test_used_more_than_once_moves_to_main(first: First) -> None:
    """freq > 1 since insertion is what saves a block at the end of small; one touch is not."""
    order = S3FIFO(10)
    fill(order, range(10))
    touched(order, 0, 2)
    touched(order, 1, 1)
    assert list(order.victims()) == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]


def test_ghost_sends_a_returning_block_to_main() -> None:
    """A block that left small a short while ago comes back into main, behind all of small."""
    order = S3FIFO(10)
    fill(order, range(10))
    order.remove(0)
    order.insert(0, 1)
    order.remove(1)
    order.insert(10, 1)
    assert list(order.victims()) == [2, 3, 4, 5, 6, 7, 8, 9, 10, 0]


def test_ghost_remembers_as_many_as_main_has_room_for() -> None:
    """Capacity 10, small 1, main 9: the tenth name pushes the first out of ghost."""
    for removed, behind in ((9, True), (10, False)):
        order = S3FIFO(10)
        fill(order, range(10))
        for block in range(removed):
            order.remove(block)
        order.insert(0, 1)
        order.insert(50, 1)
        offered = list(order.victims())
        assert (offered.index(0) > offered.index(50)) is behind


def into_main(order: S3FIFO, block: int) -> None:
    """By way of ghost."""
    order.insert(block, 1)
    order.remove(block)
    order.insert(block, 1)


def test_main_goes_round_freq_times(first: First) -> None:
    """freq is capped at 3: in main a block touched a hundred times survives three rounds."""
    order = S3FIFO(20)
    into_main(order, 0)
    touched(order, 0, 100)
    evicted = []
    for newcomer in (1, 2, 3, 4):
        into_main(order, newcomer)
        evicted += first(order, 1)
        order.remove(evicted[-1])
    assert evicted == [1, 2, 3, 0]


def test_share_of_small_is_counted_in_size(first: First) -> None:
    """Small gives up blocks while it holds its share of the bytes or more, however few blocks."""
    order = S3FIFO(100, small=0.2)
    fill(order, [1, 2], size=40)
    order.remove(1)
    order.insert(1, 40)  # into main
    order.remove(2)
    order.insert(3, 19)  # small holds 19 of its 20
    assert first(order, 1) == [1]
    order.insert(4, 1)
    assert first(order, 1) == [3]


def test_small_is_the_share_as_written(first: First) -> None:
    """A tenth of 30 is 3 exactly, though 0.1 * 30 is a little more in floating point."""
    order = S3FIFO(30, small=0.1)
    order.insert(0, 1)
    order.remove(0)
    order.insert(0, 1)
    fill(order, [1, 2])
    assert first(order, 1) == [0]
    order.insert(3, 1)
    assert first(order, 1) == [1]


@pytest.mark.parametrize("small", [0, 1, -0.1, 1.5, float("nan"), float("inf"), True, "a tenth"])
def test_bad_share_is_refused(small: Any) -> None:
    """`small` is a share between 0 and 1, both excluded; the error names it."""
    with pytest.raises(InputError, match="s3fifo: small"):
        S3FIFO(10, small=small)


class Paper:
    """Algorithm 1 of the paper on lists of blocks of size one; the end of a queue is at index 0."""

    def __init__(self, capacity: int, small_share: float) -> None:
        self.capacity, self.small_share = capacity, small_share
        self.small: list[int] = []
        self.main: list[int] = []
        self.ghost: list[int] = []
        self.freq: dict[int, int] = {}

    def read(self, block: int) -> int | None:
        """Use `block`; what was evicted for it, if anything."""
        if block in self.small or block in self.main:
            self.freq[block] = min(self.freq[block] + 1, 3)
            return None
        victim = None
        if len(self.small) + len(self.main) == self.capacity:
            victim = self.evict()
        if block in self.ghost:
            self.ghost.remove(block)
            self.main.append(block)
        else:
            self.small.append(block)
        self.freq[block] = 0
        return victim

    def evict(self) -> int:
        while True:
            if len(self.small) >= self.small_share * self.capacity - 1e-9 and self.small:
                block = self.small.pop(0)
                if self.freq[block] <= 1:
                    self.ghost.append(block)
                    room = self.capacity - self.small_share * self.capacity
                    while len(self.ghost) > room + 1e-9:
                        self.ghost.pop(0)
                    return block
                self.freq[block] = 0
                self.main.append(block)
            elif self.main:
                block = self.main.pop(0)
                if self.freq[block] == 0:
                    return block
                self.freq[block] -= 1
                self.main.append(block)


@settings(deadline=None, max_examples=300)
@given(
    uses=st.lists(st.integers(0, 14), max_size=150),
    capacity=st.integers(1, 12),
    share=st.sampled_from([0.1, 0.25, 0.5, 0.9]),
)
def test_equals_the_algorithm_of_the_paper(uses: list[int], capacity: int, share: float) -> None:
    """With blocks of one size and none pinned, each victim is that of the published algorithm."""
    order, paper = S3FIFO(capacity, small=share), Paper(capacity, share)
    resident: set[int] = set()
    for block in uses:
        if block in resident:
            order.touch(block)
            assert paper.read(block) is None
            continue
        victim = None
        if len(resident) == capacity:
            victim = next(order.victims())
            order.remove(victim)
            resident.remove(victim)
        assert paper.read(block) == victim
        order.insert(block, 1)
        resident.add(block)
