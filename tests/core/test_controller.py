"""Leases: all of the room or none, in order, answered once; hits are what was committed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tiermem.core.messages import Acquire, Commit, Deny, Done, Drop, Hint, Move, Ready, Release
from tiermem.policies.placement import NoPrefetch

Worlds = Callable[..., Any]


def test_an_empty_machine_grants_at_once(world: Worlds) -> None:
    """INV-6: one Acquire, one Ready; nothing is a hit where nothing was written."""
    hbm = world({"hbm": 4})
    assert hbm.acquire(1, [1, 2, 3]) == [Ready(1, ())]
    assert hbm.used("hbm") == 3


def test_uncommitted_blocks_are_no_hits(world: Worlds) -> None:
    """A second lease over blocks that are still being written shares their room, and no hit."""
    hbm = world({"hbm": 4})
    hbm.acquire(1, [1, 2])
    assert hbm.acquire(2, [1, 2]) == [Ready(2, ())]
    assert hbm.used("hbm") == 2
    assert hbm.where(1) == ()


def test_commit_makes_blocks_hits(world: Worlds) -> None:
    """From the Commit on, also while its lease holds them, the blocks are found, in prefix order
    up to the first that is missing."""
    hbm = world({"hbm": 8})
    hbm.acquire(1, [1, 2])
    hbm.commit(1)
    assert hbm.acquire(2, [1, 2, 3]) == [Ready(2, (("hbm", 2),))]
    assert hbm.acquire(3, [9, 1, 2]) == [Ready(3, ())]


def test_what_was_not_committed_goes_with_its_lease(world: Worlds) -> None:
    """Unwritten blocks leave nothing behind: no bytes and no hit."""
    hbm = world({"hbm": 4})
    hbm.acquire(1, [1, 2], scratch=1)
    assert hbm.release(1) == [Drop((2, 1), "hbm", "unwritten")]
    assert hbm.used("hbm") == 0
    assert hbm.acquire(2, [1, 2]) == [Ready(2, ())]


def test_shared_unwritten_blocks_stay_for_the_other_lease(world: Worlds) -> None:
    """One of two holders leaves without writing; the other can still commit."""
    hbm = world({"hbm": 4})
    hbm.acquire(1, [1, 2])
    hbm.acquire(2, [1, 2])
    assert hbm.release(1) == []
    hbm.commit(2)
    assert hbm.where(2) == ("hbm",)


def test_scratch_has_no_identity(world: Worlds) -> None:
    """Scratch takes room while its lease lives, is nobody's hit, and is gone afterwards."""
    hbm = world({"hbm": 10})
    hbm.acquire(1, [1], scratch=6)
    assert hbm.used("hbm") == 7
    hbm.commit(1)
    hbm.release(1)
    assert hbm.used("hbm") == 1


def test_a_lease_waits_when_the_room_is_held(world: Worlds) -> None:
    """All or nothing: one byte short means no byte is taken, until the holder releases."""
    hbm = world({"hbm": 4})
    hbm.acquire(1, [1, 2])
    assert hbm.acquire(2, [3, 4, 5]) == []
    assert hbm.used("hbm") == 2
    assert hbm.release(1) == [Drop((2, 1), "hbm", "unwritten"), Ready(2, ())]


def test_leases_are_granted_in_order(world: Worlds) -> None:
    """A small lease does not overtake a large one that waits: nobody starves."""
    hbm = world({"hbm": 4})
    hbm.acquire(1, [1, 2])
    hbm.acquire(2, [3, 4, 5])
    assert hbm.acquire(3, [6]) == []
    answers = [a for a in hbm.release(1) if isinstance(a, Ready)]
    assert answers == [Ready(2, ()), Ready(3, ())]


def test_a_queued_lease_can_be_given_up(world: Worlds) -> None:
    """INV-6: a lease released in the queue gets no answer, and those behind it move up."""
    hbm = world({"hbm": 4})
    hbm.acquire(1, [1, 2])
    hbm.acquire(2, [3, 4, 5])
    hbm.acquire(3, [6, 7])
    assert hbm.release(2) == [Ready(3, ())]
    assert hbm.release(1) == [Drop((2, 1), "hbm", "unwritten")]


def test_a_filling_lease_can_be_given_up(world: Worlds) -> None:
    """INV-5, INV-6: its fetch still gets its one answer; what arrives may be used by others."""
    both = world({"hbm": 4, "dram": 4})
    both.write(1, [1, 2], at="dram")
    [move] = both.acquire(2, [1, 2])
    assert both.release(2) == []
    assert both.used("hbm") == 2
    assert both.done(move) == []
    assert both.acquire(3, [1, 2]) == [Ready(3, (("hbm", 2),))]


def test_larger_than_the_tier_is_denied(world: Worlds) -> None:
    """INV-6: a lease that can never fit is denied at once, with the bytes that are missing."""
    hbm = world({"hbm": 4})
    assert hbm.acquire(1, [1, 2, 3], scratch=4) == [Deny(1, 3)]
    assert hbm.used("hbm") == 0
    assert hbm.acquire(1, [1, 2, 3], scratch=1) == [Ready(1, ())]


def test_sizes_may_differ(world: Worlds) -> None:
    """Room is counted in bytes, not in blocks."""
    hbm = world({"hbm": 10})
    assert hbm.post(Acquire(1, (1, 2), (7, 3), "hbm")) == [Ready(1, ())]
    assert hbm.post(Acquire(2, (3,), (1,), "hbm")) == []


def test_hits_are_booked_by_the_tier_the_bytes_came_from(world: Worlds) -> None:
    """Fault B53: each leading block is booked once, to where it was; what was fetched for one
    request is a hit of the upper tier for the next one only."""
    three = world({"hbm": 8, "dram": 8, "nvme": 8})
    three.write(1, [4, 5], at="nvme")
    three.write(2, [2, 3], at="dram")
    three.write(3, [1])
    actions = three.finish(three.acquire(4, [1, 2, 3, 4, 5, 6]))
    assert actions[-1] == Ready(4, (("hbm", 1), ("dram", 2), ("nvme", 2)))
    assert three.acquire(5, [1, 2, 3, 4, 5, 6]) == [Ready(5, (("hbm", 5),))]


def test_a_block_held_twice_is_booked_to_the_faster_tier(world: Worlds) -> None:
    """After a fetch the lower copy stays; the next request finds the upper one."""
    both = world({"hbm": 4, "dram": 4})
    both.write(1, [1], at="dram")
    both.finish(both.acquire(2, [1]))
    both.release(2)
    assert both.where(1) == ("hbm", "dram")
    assert both.acquire(3, [1]) == [Ready(3, (("hbm", 1),))]


@pytest.mark.parametrize(("order", "first_out"), [("reverse", 3), ("forward", 1)])
def test_touch_order_decides_which_end_leaves(world: Worlds, order: str, first_out: int) -> None:
    """Fault B42: "reverse" keeps the head of a prefix to the last, "forward" its tail."""
    hbm = world({"hbm": 3}, order=order)
    hbm.write(1, [1, 2, 3])
    assert Drop((first_out,), "hbm", "evict") in hbm.acquire(2, [9])


def test_use_is_what_makes_recent(world: Worlds) -> None:
    """A hit renews: under LRU the block that was asked for again outlives the one that was not."""
    hbm = world({"hbm": 2})
    hbm.write(1, [1])
    hbm.write(2, [2])
    hbm.write(3, [1])
    assert Drop((2,), "hbm", "evict") in hbm.acquire(4, [3])


def test_hints_fill_free_room_only(world: Worlds) -> None:
    """A guess evicts nothing: of three hinted blocks two fit, and the third is left where it is."""
    both = world({"hbm": 3, "dram": 4})
    both.write(1, [1, 2, 3], at="dram")
    both.write(2, [9])
    [move] = both.post(Hint((1, 2, 3), "hbm"))
    assert (move.blocks, move.cause, move.source, move.target) == (
        *((1, 2), "prefetch"),
        *("dram", "hbm"),
    )
    both.done(move)
    assert both.holds("hbm") == {9, 1, 2}
    assert both.holds("dram") == {1, 2, 3}


def test_hints_name_nothing_new(world: Worlds) -> None:
    """What is here already, on its way, or nowhere, is not moved; a policy may also decline."""
    both = world({"hbm": 4, "dram": 4})
    both.write(1, [1, 2], at="dram")
    [move] = both.post(Hint((1, 1), "hbm"))
    assert move.blocks == (1,)
    assert both.post(Hint((1, 77), "hbm")) == []
    quiet = world({"hbm": 4, "dram": 4}, prefetch=NoPrefetch())
    quiet.write(1, [1], at="dram")
    assert quiet.post(Hint((1,), "hbm")) == []


def test_a_lease_uses_what_a_hint_is_bringing(world: Worlds) -> None:
    """The lease waits for the prefetch under way, and books it to the tier it comes from."""
    both = world({"hbm": 4, "dram": 4})
    both.write(1, [1, 2], at="dram")
    [move] = both.post(Hint((1, 2), "hbm"))
    assert both.acquire(2, [1, 2, 3]) == []
    assert both.done(move) == [Ready(2, (("dram", 2),))]


def test_nobody_who_waits_is_overtaken_by_a_guess(world: Worlds) -> None:
    """While a lease waits for room, hints do not take it."""
    both = world({"hbm": 4, "dram": 4})
    both.write(1, [1], at="dram")
    both.acquire(2, [5, 6, 7])
    both.acquire(3, [8, 9])
    assert both.post(Hint((1,), "hbm")) == []


def test_time_never_runs_backwards(world: Worlds) -> None:
    """INV-7: an event in the past is refused."""
    hbm = world({"hbm": 4})
    hbm.controller.on(Acquire(1, (1,), (1,), "hbm"), 10)
    with pytest.raises(AssertionError, match="INV-7"):
        hbm.controller.on(Commit(1), 9)


def test_a_move_is_answered_once(world: Worlds) -> None:
    """INV-5: the second Done of a move, or one of no move, is refused."""
    both = world({"hbm": 4, "dram": 4})
    both.write(1, [1], at="dram")
    [move] = both.acquire(2, [1])
    assert isinstance(move, Move)
    both.done(move)
    for number in (move.id, 12345):
        with pytest.raises(AssertionError, match="INV-5"):
            both.controller.on(Done(number), both.now)


def test_a_pinned_block_outlives_every_pressure(world: Worlds) -> None:
    """INV-3: while lease 1 is held, a stream of others passes through the room that is left."""
    hbm = world({"hbm": 4})
    hbm.acquire(1, [1, 2])
    hbm.commit(1)
    for lease in range(2, 12):
        hbm.write(lease, [100 + lease, 200 + lease])
        assert {1, 2} <= hbm.holds("hbm")
    hbm.release(1)
    hbm.write(99, [7, 8, 9, 10])
    assert hbm.holds("hbm") == {7, 8, 9, 10}


def test_releasing_what_is_unknown_is_our_own_mistake(world: Worlds) -> None:
    """A lease ends once; its id may be used again afterwards."""
    hbm = world({"hbm": 4})
    hbm.acquire(1, [1])
    hbm.release(1)
    with pytest.raises(KeyError):
        hbm.controller.on(Release(1), hbm.now)
    assert hbm.acquire(1, [1]) == [Ready(1, ())]
