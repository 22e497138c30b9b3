"""Sums that grow, and the time during which something is loading."""

from __future__ import annotations

from tiermem.runtime.counters import NONE, Count
from tiermem.runtime.sums import Sums, TierSums


def test_words_add_up_and_nothing_leaves_no_trace() -> None:
    """A reason with no block does not show up as a zero."""
    sums = Sums()
    sums.add("policy", 2, 200)
    sums.add("policy", 1, 50)
    sums.add("no_room", 0, 0)
    assert sums.count("policy") == Count(3, 250)
    assert sums.count("no_room") == NONE
    assert sums.counts() == {"policy": Count(3, 250)}


def test_a_copy_is_held_once() -> None:
    """Bytes are those of the copies there are, whoever says so again."""
    tier = TierSums()
    assert tier.hold((1, 2), (10, 20)) == 30
    assert tier.hold((2, 3), (20, 30)) == 30
    assert tier.snapshot().held == Count(3, 60)
    assert tier.let_go((1, 7)) == 10
    assert tier.snapshot().held == Count(2, 50)


def test_loads_at_the_same_time_take_the_time_once() -> None:
    """From the first that begins to the last that ends; idle time between is none."""
    tier = TierSums()
    for change, now in ((1, 10), (1, 20), (-1, 30), (-1, 50), (1, 100), (-1, 101)):
        tier.load(change, now * 1_000_000_000)
    assert tier.snapshot().load_s == 41.0


def test_a_snapshot_stays_as_it_was() -> None:
    """It is a value: what is counted later is not in it."""
    tier = TierSums()
    before = tier.snapshot()
    tier.words.add("hit", 1, 1)
    tier.faults["io"] = 1
    assert before.hit == NONE
    assert before.faults == {}
    assert tier.snapshot().hit == Count(1, 1)
