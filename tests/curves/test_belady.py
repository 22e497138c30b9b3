"""Belady's bounds are optima: an exhaustive search finds nothing better, in either order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiermem.curves import belady, replay
from tiermem.policies.fifo import FIFO
from tiermem.policies.lfu import LFU
from tiermem.policies.lru import LRU
from tiermem.policies.s3fifo import S3FIFO

ORDERS = ["forward", "reverse"]
Cache = frozenset[int]


def outcomes(held: Cache, block: int, capacity: int, bypass: bool) -> Iterator[Cache]:
    """Every cache that one use of `block` may leave behind."""
    if block in held:
        yield held
    elif len(held) < capacity:
        yield held | {block}
    else:
        for victim in held:
            yield held - {victim} | {block}
    if bypass:
        yield held


def optimum(requests: Sequence[Sequence[int]], capacity: int, order: str, bypass: bool) -> int:
    """Most block hits over all choices of victims, by trying them all."""
    if order == "forward":
        requests = [[block] for blocks in requests for block in blocks]

    @cache
    def best(number: int, held: Cache) -> int:
        if number == len(requests):
            return 0
        blocks = requests[number]
        reached = {held}
        for block in reversed(blocks):
            reached = {
                after for each in reached for after in outcomes(each, block, capacity, bypass)
            }
        now = sum(block in held for block in blocks)
        return now + max(best(number + 1, after) for after in reached)

    return best(0, frozenset())


def test_by_hand(stream: Callable[..., Any]) -> None:
    """Three blocks, then a fourth: the one used again last goes; bypass keeps all three."""
    ids, offsets = stream([[1], [2], [3], [4], [1], [2], [3], [4]])
    must = belady.hits(ids, offsets, 3, "forward", bypass=False)
    assert must.tolist() == [False] * 4 + [True, True, False, True]
    may = belady.hits(ids, offsets, 3, "forward", bypass=True)
    assert may.tolist() == [False] * 4 + [True, True, True, False]


def test_reverse_leaves_the_head_of_a_chain(stream: Callable[..., Any]) -> None:
    """A chain longer than the cache: what is kept of it is its head, not its tail."""
    ids, offsets = stream([[1, 2, 3, 4], [1, 2, 3, 4]])
    found = belady.hits(ids, offsets, 2, "reverse", bypass=False)
    assert found.tolist() == [False] * 4 + [True, True, False, False]


def test_an_id_twice_in_one_request(stream: Callable[..., Any]) -> None:
    """forward: the second finds what the first brought. reverse: both share one look."""
    ids, offsets = stream([[1, 1], [2, 1, 1, 2]])
    forward = belady.hits(ids, offsets, 2, "forward", bypass=False)
    assert forward.tolist() == [False, True, False, True, True, True]
    reverse = belady.hits(ids, offsets, 2, "reverse", bypass=False)
    assert reverse.tolist() == [False, False, False, True, True, False]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("bypass", [False, True])
@settings(deadline=None, max_examples=100)
@given(
    requests=st.lists(st.lists(st.integers(0, 4), max_size=4, unique=True), max_size=6),
    capacity=st.integers(1, 4),
)
def test_equals_exhaustive_search(
    stream: Callable[..., Any], order: str, bypass: bool, requests: list[list[int]], capacity: int
) -> None:
    """Tiny streams, with empty requests and requests larger than the cache."""
    ids, offsets = stream(requests)
    found = belady.hits(ids, offsets, capacity, order, bypass=bypass)
    assert found.sum() == optimum(requests, capacity, order, bypass)


@pytest.mark.parametrize("order", ORDERS)
@settings(deadline=None)
@given(
    requests=st.lists(st.lists(st.integers(0, 14), max_size=8, unique=True), max_size=25),
    capacity=st.integers(1, 9),
)
def test_no_policy_beats_it(
    stream: Callable[..., Any], order: str, requests: list[list[int]], capacity: int
) -> None:
    """Block hits: every policy <= Belady that must insert <= Belady that may bypass."""
    ids, offsets = stream(requests)
    must = belady.hits(ids, offsets, capacity, order, bypass=False).sum()
    assert must <= belady.hits(ids, offsets, capacity, order, bypass=True).sum()
    for policy in (LRU, FIFO, LFU, S3FIFO):
        assert replay.hits(policy(capacity), ids, offsets, capacity, order).sum() <= must
