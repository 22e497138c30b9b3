"""Transfers that end, well or badly: who is answered, what stays, and what is a hit no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tiermem.core.messages import Deny, Drop, Hint, Move, Ready
from tiermem.policies.placement import Waterfall

Worlds = Callable[..., Any]


# -- fetches -----------------------------------------------------------------------------------


def test_a_failed_fetch_shortens_the_hits(world: Worlds) -> None:
    """Hits end before the first block that could not be read; the holder writes the rest."""
    three = world({"hbm": 8, "dram": 8, "nvme": 8})
    three.write(1, [3, 4], at="nvme")
    three.write(2, [2, 5], at="dram")
    three.write(3, [1])
    above, below = three.acquire(4, [1, 2, 3, 4, 5])
    assert (above.source, below.source) == ("dram", "nvme")
    three.done(above)
    answers = three.done(below, ok=False)
    assert Ready(4, (("hbm", 1), ("dram", 1))) in answers
    three.commit(4)
    assert three.holds("hbm") == {1, 2, 3, 4, 5}


def test_the_source_of_a_failed_fetch_is_dropped(world: Worlds) -> None:
    """INV-4: what cannot be read is a copy no more, so that nobody tries it again."""
    both = world({"hbm": 4, "dram": 4})
    both.write(1, [1, 2], at="dram")
    [move] = both.acquire(2, [1, 2])
    assert Drop((1, 2), "dram", "failed") in both.done(move, ok=False)
    assert both.where(1) == ()
    both.release(2)
    assert both.acquire(3, [1, 2]) == [Ready(3, ())]


def test_everybody_who_waits_for_a_failed_fetch_is_answered(world: Worlds) -> None:
    """INV-6: two leases share one fetch; both are ready, with the hits that are left."""
    both = world({"hbm": 4, "dram": 4})
    both.write(1, [2], at="dram")
    both.write(2, [1])
    [move] = both.acquire(3, [1, 2])
    assert both.acquire(4, [1, 2]) == []
    answers = both.done(move, ok=False)
    assert [a for a in answers if isinstance(a, Ready)] == [
        Ready(3, (("hbm", 1),)),
        Ready(4, (("hbm", 1),)),
    ]


def test_a_failed_fetch_that_nobody_wants_leaves_nothing(world: Worlds) -> None:
    """The lease is gone when its fetch fails: the room above is free again."""
    both = world({"hbm": 4, "dram": 4})
    both.write(1, [1, 2], at="dram")
    [move] = both.acquire(2, [1, 2])
    both.release(2)
    both.done(move, ok=False)
    assert both.used("hbm") == 0


def test_a_failed_prefetch_leaves_nothing(world: Worlds) -> None:
    """A guess that fails takes its room back."""
    both = world({"hbm": 4, "dram": 4})
    both.write(1, [1], at="dram")
    [move] = both.post(Hint((1,), "hbm"))
    assert both.done(move, ok=False) == [Drop((1,), "dram", "failed")]
    assert both.used("hbm") == both.used("dram") == 0


# -- demotions and writes ----------------------------------------------------------------------


def test_a_failed_demotion_is_tried_again(world: Worlds) -> None:
    """The block stays where it was, whole, and is chosen again."""
    both = world({"hbm": 2, "dram": 4})
    both.write(1, [1, 2])
    [move] = both.acquire(2, [3])
    [again] = both.done(move, ok=False)
    assert both.where(2) == ("hbm",)
    assert both.used("dram") == 1  # room for the second try
    assert again.cause == "demote"
    assert both.done(again) == [Ready(2, ())]


def test_three_failures_in_a_row_deny_the_lease(world: Worlds) -> None:
    """INV-6: a tier below that takes nothing ends in a Deny, not in waiting for ever."""
    both = world({"hbm": 2, "dram": 4})
    both.write(1, [1, 2])
    [move] = both.acquire(2, [3, 4])
    for _ in range(2):
        [move] = both.done(move, ok=False)
    assert both.done(move, ok=False) == [Deny(2, 2)]
    assert both.holds("hbm") == {1, 2}
    assert both.used("dram") == 0


def test_only_the_first_in_line_is_denied(world: Worlds) -> None:
    """Whoever is next has tries of their own; a success in between starts the count again."""
    both = world({"hbm": 2, "dram": 4})
    both.write(1, [1, 2])
    [move] = both.acquire(2, [3, 4])
    both.acquire(3, [5])
    for _ in range(2):
        [move] = both.done(move, ok=False)
    denied, *moves = both.done(move, ok=False)
    assert denied == Deny(2, 2)
    answers = both.finish(moves)
    assert answers[-1] == Ready(3, ())


def test_failures_further_down_come_back_up(world: Worlds) -> None:
    """INV-6: DRAM cannot empty itself into NVMe, so what waits above it is turned away as well."""
    three = world({"hbm": 2, "dram": 2, "nvme": 8})
    three.write(1, [1, 2])
    three.write(2, [3, 4])
    actions = three.acquire(3, [5, 6])
    for _ in range(30):
        moves = [a for a in actions if isinstance(a, Move)]
        if not moves:
            break
        actions = [a for move in moves for a in three.done(move, ok=False)]
    assert actions == [Deny(3, 2)]
    assert three.holds("hbm") | three.holds("dram") == {1, 2, 3, 4}


def test_a_failed_write_through_keeps_the_upper_copy(world: Worlds) -> None:
    """The copy above was never in danger; nothing is dropped, and it can be demoted later."""
    both = world({"hbm": 2, "dram": 4}, place=Waterfall(write_through=True, ahead=0.0))
    both.acquire(1, [1, 2])
    [move] = both.commit(1)
    assert both.done(move, ok=False) == []
    assert both.where(1) == ("hbm",)
    assert both.used("dram") == 0
    both.release(1)
    [demotion] = both.acquire(2, [3])
    assert demotion.cause == "demote"
