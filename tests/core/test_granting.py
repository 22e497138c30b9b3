"""Granting: which blocks are hits, what is sent for, and whom a lease waits for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tiermem.core.messages import Acquire, Drop, Move, Ready
from tiermem.core.policy import Found, View
from tiermem.policies.placement import Waterfall

Worlds = Callable[..., Any]


class Take(Waterfall):
    """Uses `most` of the leading blocks that are found, however many those are."""

    def __init__(self, most: int) -> None:
        super().__init__(ahead=0.0)
        self.most = most

    def reuse(self, found: Sequence[Found], total_bytes: int, at: str, view: View) -> int:
        return self.most


def test_lower_tiers_are_consulted_while_there_is_room(world: Worlds) -> None:
    """Fault B30: HBM has free bytes for everything, and still the copy below is found first."""
    both = world({"hbm": 100, "dram": 4})
    both.write(1, [1, 2], at="dram")
    [move] = both.acquire(2, [1, 2, 3])
    assert move == Move(move.id, (1, 2), "dram", "hbm", 2, "fetch")
    assert both.done(move) == [Ready(2, (("dram", 2),))]


def test_room_is_taken_before_the_bytes_come(world: Worlds) -> None:
    """Fault B37: a fetch charges its target at once and for all of the lease."""
    both = world({"hbm": 4, "dram": 4})
    both.write(1, [1, 2], at="dram")
    both.acquire(2, [1, 2, 3], scratch=1)
    assert both.used("hbm") == 4
    assert both.used("dram") == 2


def test_one_move_for_each_source(world: Worlds) -> None:
    """Everything is a batch: however the prefix is scattered, each tier sends one move."""
    three = world({"hbm": 8, "dram": 8, "nvme": 8})
    three.write(1, [1, 3], at="dram")
    three.write(2, [2, 4, 5], at="nvme")
    actions = three.acquire(3, [1, 2, 3, 4, 5])
    assert [(move.blocks, move.source) for move in actions] == [
        ((1, 3), "dram"),
        ((2, 4, 5), "nvme"),
    ]
    assert three.done(actions[1]) == []
    hits = (("dram", 1), ("nvme", 1), ("dram", 1), ("nvme", 2))
    assert three.done(actions[0]) == [Ready(3, hits)]


def test_a_source_stays_readable_and_pinned(world: Worlds) -> None:
    """While a fetch reads it, a lower copy cannot be evicted (INV-3)."""
    both = world({"hbm": 4, "dram": 2})
    both.write(1, [1, 2], at="dram")
    [move] = both.acquire(2, [1, 2])
    assert both.acquire(3, [7], at="dram") == []
    assert both.where(1) == ("dram",)
    assert Drop((2,), "dram", "evict") in both.done(move)


def test_a_block_on_its_way_is_shared(world: Worlds) -> None:
    """A second lease does not fetch again what the first one's fetch brings; both book its tier,
    and both are ready when it is here."""
    both = world({"hbm": 4, "dram": 4})
    both.write(1, [1, 2], at="dram")
    [move] = both.acquire(2, [1, 2])
    assert both.acquire(3, [1, 2]) == []
    assert both.used("hbm") == 2
    assert both.done(move) == [Ready(2, (("dram", 2),)), Ready(3, (("dram", 2),))]


@pytest.mark.parametrize(
    ("most", "moved", "hits"),
    [
        (0, (), ()),
        (2, (3,), (("hbm", 1), ("dram", 1))),
        (3, (3, 4), (("hbm", 1), ("dram", 2))),
        (99, (3, 4), (("hbm", 1), ("dram", 2))),
        (-5, (), ()),
    ],
)
def test_the_policy_says_how_much_to_reuse(
    world: Worlds, most: int, moved: tuple[int, ...], hits: Any
) -> None:
    """Leading blocks up to the policy's number, clipped to what there is; the rest is recomputed,
    and its room is taken all the same."""
    both = world({"hbm": 8, "dram": 8}, place=Take(most))
    both.write(1, [3, 4], at="dram")
    both.write(2, [1])
    actions = both.finish(both.acquire(3, [1, 3, 4, 5]))
    assert tuple(b for a in actions if isinstance(a, Move) for b in a.blocks) == moved
    assert actions[-1] == Ready(3, hits)
    assert both.used("hbm") == 4


def test_what_is_at_hand_needs_no_policy(world: Worlds) -> None:
    """Where every hit is at the tier itself there is nothing to decide: all of it is used."""
    both = world({"hbm": 8, "dram": 8}, place=Take(0))
    both.write(1, [1, 2])
    assert both.acquire(2, [1, 2, 3]) == [Ready(2, (("hbm", 2),))]


def test_a_recomputed_block_replaces_nothing_below(world: Worlds) -> None:
    """A block that the policy lets recompute is written anew above; its copy below stays."""
    both = world({"hbm": 8, "dram": 8}, place=Take(0))
    both.write(1, [1], at="dram")
    both.write(2, [1])
    assert both.where(1) == ("hbm", "dram")


def test_own_blocks_are_not_victims(world: Worlds) -> None:
    """A lease that must make room does not evict what it is itself about to use."""
    hbm = world({"hbm": 4})
    hbm.write(1, [1, 2])
    hbm.write(2, [8, 9])
    actions = hbm.acquire(3, [1, 2, 3, 4])
    assert actions == [Drop((9, 8), "hbm", "evict"), Ready(3, (("hbm", 2),))]


def test_leases_at_a_lower_tier(world: Worlds) -> None:
    """A tier below may be leased too: blocks are brought down to it as they are brought up."""
    both = world({"hbm": 4, "dram": 4})
    both.write(1, [1, 2])
    [move] = both.acquire(2, [1, 2], at="dram")
    assert (move.source, move.target, move.cause) == ("hbm", "dram", "fetch")
    assert both.done(move) == [Ready(2, (("hbm", 2),))]
    assert both.where(1) == ("hbm", "dram")


def test_a_leaving_copy_that_waits_is_called_back(world: Worlds) -> None:
    """Victims whose demotion has no room yet are wanted again: they stay, and nothing moves."""
    three = world({"hbm": 2, "dram": 2, "nvme": 4})
    three.write(1, [3, 4])
    three.write(2, [1, 2])
    [move] = three.acquire(3, [7, 8])  # 3 and 4 go first, 1 and 2 wait for their place in DRAM
    assert set(move.blocks) == {3, 4}
    three.release(3)
    assert three.acquire(4, [1, 2]) == [Ready(4, (("hbm", 2),))]
    assert three.done(move) == []
    assert three.holds("hbm") == {1, 2}
    assert three.holds("dram") == set()


def test_a_call_back_leaves_the_rest_of_the_move(world: Worlds) -> None:
    """One of two waiting victims is wanted at another tier: the move goes on without it."""
    three = world({"hbm": 2, "dram": 2, "nvme": 4})
    three.write(1, [3, 4])
    three.write(2, [1, 2])
    [down] = three.acquire(3, [7, 8])
    [fetch] = three.acquire(4, [1], at="nvme")
    assert (fetch.blocks, fetch.source, fetch.target) == ((1,), "hbm", "nvme")
    [late] = three.done(down)
    assert (late.blocks, late.source, late.target) == ((2,), "hbm", "dram")
    three.done(late)
    ready, again = three.done(fetch)
    assert ready == Ready(4, (("hbm", 1),))
    assert (again.blocks, again.target) == ((1,), "dram")
    assert three.done(again) == [Ready(3, ())]


def test_a_copy_under_way_down_is_kept_when_wanted(world: Worlds) -> None:
    """A block is asked for by a tier below while its demotion there runs: it is a hit of where
    it comes from, and when the copies are whole, the one that a lease pins stays."""
    three = world({"hbm": 2, "dram": 4, "nvme": 4})
    three.write(1, [1, 2])
    actions = three.acquire(2, [8, 9])
    [move] = actions
    assert (move.cause, set(move.blocks)) == ("demote", {1, 2})
    [fetch] = three.acquire(3, [1], at="nvme")
    assert (fetch.source, fetch.cause) == ("hbm", "fetch")
    assert three.done(move) == []  # block 1 is read by the fetch, so HBM keeps it a while
    assert three.where(1) == ("hbm", "dram")
    answers = three.done(fetch)
    assert Ready(3, (("hbm", 1),)) in answers
    assert Ready(2, ()) in answers
    assert three.where(1) == ("dram", "nvme")


def test_the_whole_chain_counts_its_own_sizes(world: Worlds) -> None:
    """A partly filled last block takes and moves the bytes it has."""
    both = world({"hbm": 30, "dram": 30})
    both.post(Acquire(1, (1, 2), (10, 4), "dram"))
    both.commit(1)
    both.release(1)
    [move] = both.post(Acquire(2, (1, 2), (10, 4), "hbm"))
    assert move.nbytes == 14
    assert both.used("hbm") == 14
