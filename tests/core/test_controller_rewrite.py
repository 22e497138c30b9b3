"""Blocks that change in place, blocks that are found, one tier that is emptied, half a failure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tiermem.core.messages import Acquire, Adopt, Commit, Done, Drop, Forget, Move, Ready, Save

Worlds = Callable[..., Any]


def test_a_rewritten_block_has_no_other_copy(world: Worlds) -> None:
    """INV-4: the copy below holds what the block was; it goes, and the new one moves down again."""
    both = world({"hbm": 2, "dram": 4})
    both.write(1, [1], at="dram")
    both.finish(both.acquire(2, [1]))
    assert both.where(1) == ("hbm", "dram")
    assert both.post(Commit(2, (1,))) == [Drop((1,), "dram", "stale")]
    both.release(2)
    [move] = both.acquire(3, [2, 3])
    assert (move.blocks, move.cause) == ((1,), "demote")


def test_a_rewritten_block_stays_until_its_old_copy_has_arrived(world: Worlds) -> None:
    """INV-4: what is on its way down is torn; it is dropped on arrival, and meanwhile the new
    bytes are no victim, though the policy names them."""
    both = world({"hbm": 2, "dram": 4})
    both.write(1, [1, 2])
    [down] = both.acquire(2, [3])
    assert down.blocks == (2,)
    both.release(2)  # gives up waiting
    assert both.acquire(3, [2]) == [Ready(3, (("hbm", 1),))]  # kept: wanted again
    both.post(Commit(3, (2,)))
    both.release(3)
    assert both.where(2) == ("hbm",)
    actions = both.post(Done(down.id))
    assert Drop((2,), "dram", "stale") in actions
    assert both.where(2) == ("hbm",)


def test_rewriting_what_somebody_reads_in_another_tier_is_our_mistake(world: Worlds) -> None:
    """One block leased in two tiers may not change: the other holder would read old bytes."""
    both = world({"hbm": 2, "dram": 4})
    both.write(1, [1], at="dram")
    both.finish(both.acquire(2, [1]))
    both.acquire(3, [1], at="dram")
    with pytest.raises(AssertionError, match="one tier only"):
        both.post(Commit(2, (1,)))


def test_found_blocks_are_there(world: Worlds) -> None:
    """After a restart: what a tier holds is hit like anything else, the last found is the most
    recent, and what does not fit is dropped."""
    both = world({"hbm": 4, "nvme": 3})
    assert both.post(Adopt((1, 2, 3, 4), (1, 1, 1, 1), "nvme")) == [Drop((4,), "nvme", "no_room")]
    [move] = both.acquire(1, [1, 2])
    assert (move.source, move.blocks) == ("nvme", (1, 2))
    assert both.done(move) == [Ready(1, (("nvme", 2),))]
    assert both.post(Adopt((1,), (1,), "nvme")) == []  # known already


def test_one_tier_is_emptied(world: Worlds) -> None:
    """A delete that names a tier leaves the copies elsewhere."""
    both = world({"hbm": 4, "dram": 4})
    both.write(1, [1], at="dram")
    both.finish(both.acquire(2, [1]))
    both.release(2)
    assert both.post(Forget((1,), "hbm")) == [Drop((1,), "hbm", "forget")]
    assert both.where(1) == ("dram",)


def test_a_move_may_fail_in_part(world: Worlds) -> None:
    """What arrived is a hit; what did not is the holder's to write, and its source copy is gone."""
    both = world({"hbm": 4, "dram": 4})
    both.write(1, [1, 2, 3], at="dram")
    [move] = both.acquire(2, [1, 2, 3])
    actions = both.post(Done(move.id, False, (2,)))
    assert actions == [Drop((2,), "dram", "failed"), Ready(2, (("dram", 1),))]
    assert both.where(1) == both.where(3) == ("hbm", "dram")
    assert both.where(2) == ()


def test_a_demotion_may_fail_in_part(world: Worlds) -> None:
    """INV-4: what could not be moved stays, and is evicted again."""
    both = world({"hbm": 2, "dram": 4})
    both.write(1, [1, 2])
    [move] = both.acquire(2, [3, 4])
    actions = both.post(Done(move.id, False, (1,)))
    assert Drop((2,), "hbm", "moved") in actions
    [again] = [action for action in actions if isinstance(action, Move)]
    assert again.blocks == (1,)
    assert both.done(again) == [Ready(2, ())]


def test_a_deleted_block_is_not_found_while_it_is_read(world: Worlds) -> None:
    """Its holder reads on; who comes after the delete gets nothing of it from a lower tier."""
    both = world({"hbm": 2, "dram": 4})
    both.write(1, [1], at="dram")
    both.acquire(2, [1], at="dram")
    both.post(Forget((1,)))
    assert both.post(Acquire(3, (1,), (1,), "hbm")) == [Ready(3, ())]


def test_what_is_saved_has_a_copy_below(world: Worlds) -> None:
    """A copy for the time after: both stay readable, and nothing is moved twice."""
    both = world({"hbm": 4, "dram": 4, "nvme": 8})
    both.write(1, [1, 2])
    both.write(2, [3], at="dram")
    up, down = both.post(Save((1, 2, 3, 9), "nvme"))
    assert (up.source, up.blocks, up.cause) == ("hbm", (1, 2), "write")
    assert (down.source, down.blocks) == ("dram", (3,))
    assert both.post(Save((1, 2), "nvme")) == []
    both.done(up)
    both.done(down, ok=False)
    assert both.where(1) == ("hbm", "nvme")
    assert both.where(3) == ("dram",)
