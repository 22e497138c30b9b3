"""Making room: who leaves, where to, and what is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tiermem.core.messages import Drop, Move, Ready
from tiermem.core.policy import View
from tiermem.errors import UnknownName
from tiermem.policies.fifo import FIFO
from tiermem.policies.placement import Waterfall

Worlds = Callable[..., Any]


class Answer(Waterfall):
    """Demotes every victim to what the test says."""

    def __init__(self, target: str | None) -> None:
        super().__init__(ahead=0.0)
        self.target = target

    def demote(self, blocks: Sequence[int], tier: str, view: View) -> Sequence[str | None]:
        return [self.target] * len(blocks)


def drops(actions: Sequence[object]) -> list[Drop]:
    return [action for action in actions if isinstance(action, Drop)]


def test_a_victim_moves_down_before_room_is_given(world: Worlds) -> None:
    """Eviction from an upper tier takes a move, and the lease waits for it."""
    both = world({"hbm": 2, "dram": 4})
    both.write(1, [1, 2])
    [move] = both.acquire(2, [3, 4])
    assert (move.source, move.target, move.cause) == ("hbm", "dram", "demote")
    assert both.used("hbm") == 2
    assert both.used("dram") == 2
    assert both.done(move) == [Ready(2, ())]
    assert both.where(1) == ("dram",)


def test_a_leaving_copy_is_still_readable(world: Worlds) -> None:
    """Until its move is answered, the upper copy is where the block is found."""
    both = world({"hbm": 2, "dram": 4})
    both.write(1, [1, 2])
    [move] = both.acquire(2, [3])
    assert move.blocks == (2,)
    assert both.where(2) == ("hbm",)


def test_a_copy_below_makes_the_drop_free(world: Worlds) -> None:
    """What is below already is dropped above ("clean"), and no byte moves."""
    both = world({"hbm": 2, "dram": 4})
    both.write(1, [1, 2], at="dram")
    both.finish(both.acquire(2, [1, 2]))
    both.release(2)
    actions = both.acquire(3, [7, 8])
    assert actions == [Drop((2, 1), "hbm", "clean"), Ready(3, ())]
    assert both.where(1) == ("dram",)


def test_only_as_many_as_needed_leave(world: Worlds) -> None:
    """With no room ahead asked for, one byte short is one victim."""
    both = world({"hbm": 4, "dram": 8})
    both.write(1, [1, 2, 3, 4])
    [move] = both.acquire(2, [5])
    assert move.nbytes == 1


def test_demotions_cascade_down_three_tiers(world: Worlds) -> None:
    """Full tiers pass the oldest on: HBM to DRAM to NVMe, lowest first, and out of NVMe only."""
    three = world({"hbm": 2, "dram": 2, "nvme": 2})
    for lease, blocks in enumerate(([1, 2], [3, 4], [5, 6])):
        three.write(lease, blocks)
    assert [three.holds(tier) for tier in ("hbm", "dram", "nvme")] == [{5, 6}, {3, 4}, {1, 2}]
    actions = three.acquire(9, [7, 8])
    assert [(type(a), a.blocks) for a in actions] == [(Drop, (2, 1)), (Move, (4, 3))]
    assert drops(actions)[0].tier == "nvme"
    [second] = three.done(actions[1])
    assert (second.source, second.blocks) == ("hbm", (6, 5))
    assert three.done(second) == [Ready(9, ())]
    assert [three.holds(tier) for tier in ("dram", "nvme")] == [{5, 6}, {3, 4}]


def test_nothing_leaves_the_last_tier_while_it_has_room(world: Worlds) -> None:
    """INV-4, fault 143: one new block at a time through three tiers; the number of distinct
    blocks held anywhere only grows until the last tier is full, and never shrinks after."""
    three = world({"hbm": 3, "dram": 4, "nvme": 9})
    for lease in range(40):
        lost = [d for d in drops(three.write(lease, [lease])) if d.cause in ("evict", "no_room")]
        held = three.holds("hbm") | three.holds("dram") | three.holds("nvme")
        if lost:
            assert three.used("nvme") == 9
        assert len(held) == min(lease + 1, 3 + 4 + 9)


def test_the_policy_may_let_a_block_go(world: Worlds) -> None:
    """INV-4: `None` drops the victim though there is room below ("evict")."""
    both = world({"hbm": 2, "dram": 9}, place=Answer(None))
    both.write(1, [1, 2])
    assert both.acquire(2, [3]) == [Drop((2,), "hbm", "evict"), Ready(2, ())]
    assert both.where(2) == ()


def test_the_policy_may_skip_a_tier(world: Worlds) -> None:
    """A victim goes to the lower tier that the policy names."""
    three = world({"hbm": 2, "dram": 4, "nvme": 4}, place=Answer("nvme"))
    three.write(1, [1, 2])
    [move] = three.acquire(2, [3])
    assert move.target == "nvme"


def test_a_target_that_is_no_lower_tier_is_no_target(world: Worlds) -> None:
    """Upwards or sideways: the answer counts as "let it go", and nothing breaks."""
    both = world({"hbm": 2, "dram": 4}, place=Answer("hbm"))
    both.write(1, [1, 2])
    assert both.acquire(2, [3]) == [Drop((2,), "hbm", "evict"), Ready(2, ())]


def test_a_misspelt_target_is_refused(world: Worlds) -> None:
    """A tier that the machine does not have is a slip, not a wish to drop."""
    both = world({"hbm": 2, "dram": 4}, place=Answer("drma"))
    both.write(1, [1, 2])
    with pytest.raises(UnknownName, match="drma'; did you mean 'dram'"):
        both.acquire(2, [3])


def test_where_the_next_tier_is_held_the_one_below_takes_it(world: Worlds) -> None:
    """INV-4: DRAM is pinned by a lease, so the victim goes to NVMe; when that is pinned too,
    nothing below has room and the block is lost ("no_room")."""
    three = world({"hbm": 2, "dram": 2, "nvme": 2})
    three.write(1, [1, 2])
    three.acquire(2, [11, 12], at="dram")
    [move] = three.acquire(3, [3])
    assert move.target == "nvme"
    three.done(move)
    three.acquire(4, [21, 22], at="nvme")
    assert drops(three.acquire(5, [4])) == [Drop((1,), "hbm", "no_room")]


def test_pinned_victims_are_skipped(world: Worlds) -> None:
    """INV-3: the oldest block is held, so the next one goes."""
    hbm = world({"hbm": 2}, evict=FIFO)
    hbm.write(1, [1])
    hbm.write(2, [2])
    hbm.acquire(3, [1])
    assert drops(hbm.acquire(4, [3])) == [Drop((2,), "hbm", "evict")]


def test_write_through_copies_what_is_written(world: Worlds) -> None:
    """A commit sends a copy down at once; the blocks are pinned until it is there, and later
    eviction is free."""
    both = world({"hbm": 2, "dram": 8}, place=Waterfall(write_through=True, ahead=0.0))
    both.acquire(1, [1, 2])
    [move] = both.commit(1)
    assert (move.cause, move.source, move.target, move.blocks) == ("write", "hbm", "dram", (1, 2))
    both.release(1)
    assert both.acquire(2, [3]) == []  # what is being read out cannot go yet
    assert both.done(move) == [Drop((2,), "hbm", "clean"), Ready(2, ())]
    assert both.where(1) == ("hbm", "dram")


def test_write_through_is_skipped_where_it_cannot_fit(world: Worlds) -> None:
    """More than the lower tier can hold is not written through; it is moved down later instead."""
    both = world({"hbm": 4, "dram": 2}, place=Waterfall(write_through=True, ahead=0.0))
    both.acquire(1, [1, 2, 3])
    assert both.commit(1) == []


def test_write_through_copies_only_what_is_new(world: Worlds) -> None:
    """A block that is below already is not written again."""
    both = world({"hbm": 8, "dram": 8}, place=Waterfall(write_through=True, ahead=0.0))
    both.write(1, [1], at="dram")
    both.finish(both.acquire(2, [1, 2]))
    [move] = both.commit(2)
    assert move.blocks == (2,)


def test_room_ahead_is_made_when_a_tier_demotes(world: Worlds) -> None:
    """`demote_ahead` of a quarter: eight bytes stay on two ahead, so the next lease need not
    wait for a move."""
    both = world({"hbm": 8, "dram": 80}, place=Waterfall(ahead=0.25))
    both.write(1, list(range(8)))
    actions = both.finish(both.acquire(2, [10]))
    assert actions[-1] == Ready(2, ())
    assert both.controller.view.free_bytes("hbm") == 2
    both.commit(2)
    both.release(2)
    assert Ready(3, ()) in both.acquire(3, [11, 12])


def test_room_ahead_is_bounded_by_the_tier_below(world: Worlds) -> None:
    """The share is of the smaller of the two tiers: a small DRAM is not flooded for a large HBM."""
    both = world({"hbm": 80, "dram": 8}, place=Waterfall(ahead=0.25))
    both.write(1, list(range(80)))
    both.finish(both.acquire(2, [100]))
    assert both.controller.view.free_bytes("hbm") == 2
    assert both.used("dram") == 3


def test_moves_of_one_eviction_are_one_batch(world: Worlds) -> None:
    """Everything is a batch: four victims make one move."""
    both = world({"hbm": 4, "dram": 8})
    both.write(1, [1, 2, 3, 4])
    [move] = both.acquire(2, [5, 6, 7, 8])
    assert move.blocks == (4, 3, 2, 1)
    assert move.nbytes == 4
