"""The plain loop calls an order as the contract says, and catches one that does not keep it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tiermem.curves import replay
from tiermem.errors import InputError
from tiermem.policies.fifo import FIFO


class Recorder(FIFO):
    """Writes down each call."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.calls: list[tuple[str, int]] = []

    def insert(self, block: int, size: int) -> None:
        assert size == 1
        self.calls.append(("insert", block))
        super().insert(block, size)

    def touch(self, block: int) -> None:
        self.calls.append(("touch", block))

    def remove(self, block: int) -> None:
        self.calls.append(("remove", block))
        super().remove(block)


def test_calls_by_hand(stream: Callable[..., Any]) -> None:
    """Room is made before a block is inserted; in reverse order the last block is used first."""
    ids, offsets = stream([[0, 1], [0, 2]])
    forward = Recorder(2)
    assert replay.hits(forward, ids, offsets, 2, "forward").tolist() == [False, False, True, False]
    assert forward.calls == [
        ("insert", 0),
        ("insert", 1),
        ("touch", 0),
        ("remove", 0),
        ("insert", 2),
    ]
    reverse = Recorder(2)
    assert replay.hits(reverse, ids, offsets, 2, "reverse").tolist() == [False, False, True, False]
    assert reverse.calls == [
        ("insert", 1),
        ("insert", 0),
        ("remove", 1),
        ("insert", 2),
        ("touch", 0),
    ]


def test_reverse_hit_counts_though_the_block_leaves_before_its_use(
    stream: Callable[..., Any],
) -> None:
    """Hits are counted at the start: block 0 was there, though 1 pushes it out before its turn."""
    ids, offsets = stream([[0], [0, 1]])
    assert replay.hits(FIFO(1), ids, offsets, 1, "reverse").tolist() == [False, True, False]
    assert replay.hits(FIFO(1), ids, offsets, 1, "forward").tolist() == [False, True, False]


class Offers(FIFO):
    """Offers the same thing whatever is resident."""

    def __init__(self, offered: list[int]) -> None:
        super().__init__(0)
        self.offered = offered

    def victims(self) -> Iterator[int]:
        return iter(self.offered)


@pytest.mark.parametrize(
    ("offered", "complaint"),
    [([], "no victim with 1 blocks resident"), ([7], "victim 7 is not resident")],
)
def test_a_broken_order_is_caught(
    stream: Callable[..., Any], offered: list[int], complaint: str
) -> None:
    """No victim, or one that is not resident, ends the count with a clear line."""
    ids, offsets = stream([[0, 1]])
    with pytest.raises(InputError, match=complaint):
        replay.hits(Offers(offered), ids, offsets, 1, "forward")
