"""The user's deletes reach every copy there is, and no copy that comes later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tiermem.core.messages import Acquire, Drop, Forget, Ready

Worlds = Callable[..., Any]


def test_forgetting_drops_every_copy(world: Worlds) -> None:
    """INV-4: the user's delete reaches all tiers; the room is free and nothing is found."""
    both = world({"hbm": 4, "dram": 4})
    both.write(1, [1, 2], at="dram")
    both.finish(both.acquire(2, [1, 2]))
    both.release(2)
    actions = both.post(Forget((1, 77)))
    assert actions == [Drop((1,), "hbm", "forget"), Drop((1,), "dram", "forget")]
    assert both.where(1) == ()
    assert both.where(2) == ("hbm", "dram")


def test_a_pinned_block_is_forgotten_when_it_is_released(world: Worlds) -> None:
    """INV-3 before INV-4: its holder reads on, and then it goes."""
    hbm = world({"hbm": 4})
    hbm.write(1, [1])
    hbm.acquire(2, [1])
    assert hbm.post(Forget((1,))) == []
    assert (hbm.where(1), hbm.used("hbm")) == ((), 1)
    assert hbm.release(2) == [Drop((1,), "hbm", "forget")]


@pytest.mark.parametrize("ok", [True, False])
def test_a_block_on_its_way_is_forgotten_on_arrival(world: Worlds, ok: bool) -> None:
    """Whether its demotion succeeds or not, no copy of it is left at either end."""
    both = world({"hbm": 2, "dram": 4})
    both.write(1, [1, 2])
    [move] = both.acquire(2, [3])
    assert move.blocks == (2,)
    both.post(Forget((2,)))
    assert Ready(2, ()) in both.done(move, ok=ok)
    assert both.where(2) == ()
    assert both.used("hbm") == 2
    assert both.used("dram") == 0


def test_a_forgotten_block_waits_for_nobody(world: Worlds) -> None:
    """A lease that waits for room has it as soon as the user deletes what is in the way."""
    both = world({"hbm": 2, "dram": 4})
    both.acquire(1, [9], at="dram")
    both.write(2, [1, 2])
    [move] = both.acquire(3, [3, 4])
    actions = both.post(Forget((1, 2)))
    assert Ready(3, ()) in [*actions, *both.done(move)]
    assert both.where(1) == both.where(2) == ()


@pytest.mark.parametrize("way", ["unwritten", "demoted", "failed"])
def test_what_was_forgotten_may_be_written_again(world: Worlds, way: str) -> None:
    """A delete concerns the copies there are: the same content written later stays."""
    both = world({"hbm": 2, "dram": 4})
    if way == "unwritten":
        both.acquire(1, [7])
        both.post(Forget((7,)))
        both.release(1)
    elif way == "demoted":
        both.write(1, [6, 7])
        [move] = both.acquire(2, [8])
        both.post(Forget((7,)))
        both.done(move)
        both.release(2)
    else:
        both.write(1, [7], at="dram")
        [move] = both.acquire(2, [7])
        both.post(Forget((7,)))
        both.done(move, ok=False)
        both.release(2)
    assert both.where(7) == ()
    both.write(5, [7])
    assert both.acquire(6, [7]) == [Ready(6, (("hbm", 1),))]


def test_a_queued_lease_writes_afresh_what_was_forgotten(world: Worlds) -> None:
    """The delete was asked for before the lease got its room, so it does not reach its blocks."""
    hbm = world({"hbm": 2})
    hbm.acquire(1, [7, 8])
    hbm.post(Acquire(2, (7, 9, 10), (1, 1, 0), "hbm"))
    hbm.post(Forget((7,)))
    assert Ready(2, ()) in hbm.release(1)
    hbm.commit(2)
    hbm.release(2)
    assert hbm.where(7) == ("hbm",)
