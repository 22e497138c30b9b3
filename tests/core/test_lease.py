"""A lease has one of three states, and hits that failures can only shorten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tiermem.core.lease import Lease, LeaseState
from tiermem.core.messages import Acquire, Runs

HITS: Runs = (("hbm", 2), ("dram", 1), ("hbm", 1))


def test_queued_filling_ready(world: Callable[..., Any]) -> None:
    """Without room it is QUEUED, with its blocks on their way FILLING, and then READY."""
    both = world({"hbm": 2, "dram": 4})
    both.write(1, [1, 2], at="dram")
    both.acquire(2, [8, 9])
    both.acquire(3, [1, 2])
    lease = both.controller.leases[3]
    assert lease.state is LeaseState.QUEUED
    _, move = both.release(2)
    assert lease.state is LeaseState.FILLING
    both.done(move)
    assert lease.state is LeaseState.READY


def test_a_lease_asks_for_all_its_bytes() -> None:
    """Blocks and scratch together, each block with its own size."""
    assert Lease(Acquire(1, (1, 2), (10, 4), "hbm", 6)).nbytes == 20


@pytest.mark.parametrize(
    ("lost", "kept"),
    [
        ((14,), HITS),
        ((13,), (("hbm", 2), ("dram", 1))),
        ((12, 13), (("hbm", 2),)),
        ((13, 11), (("hbm", 1),)),
        ((10, 99), ()),
    ],
)
def test_hits_end_before_the_first_loss(lost: tuple[int, ...], kept: Runs) -> None:
    """Blocks 10..13 were hits; whatever fails, only what leads up to it remains."""
    lease = Lease(Acquire(1, (10, 11, 12, 13, 14), (1,) * 5, "hbm"))
    lease.hits = HITS
    lease.truncate(lost)
    assert lease.hits == kept
