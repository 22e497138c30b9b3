"""What every eviction order must do, as a suite to inherit.

    from tiermem.testing.evict import EvictTests

    class TestSieve(EvictTests):
        evict = Sieve

pytest then runs each test below against `Sieve`. The suite knows nothing of what is wise: it
checks that every resident is offered, once, whatever the caller does with what it was offered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from random import Random
from typing import ClassVar

from tiermem.core.policy import Evict


def fill(order: Evict, blocks: Iterable[int], size: int = 1) -> None:
    """Insert `blocks`, all of one size."""
    for block in blocks:
        order.insert(block, size)


def offered(order: Evict) -> list[int]:
    """All that one call of `victims` yields, which has to come to an end."""
    blocks = list(islice(order.victims(), 10_000))
    assert len(blocks) < 10_000, "victims() yields for ever"
    return blocks


class EvictTests:
    """Inherit, set `evict` to the class under test, or override `make`."""

    evict: ClassVar[Callable[..., Evict]]

    def make(self, capacity: int) -> Evict:
        """A new, empty order for `capacity`."""
        return type(self).evict(capacity)

    def used(self, capacity: int = 40) -> Evict:
        """An order that holds blocks 0..capacity-1, which were touched 0, 1, 2 or more times."""
        order = self.make(capacity)
        fill(order, range(capacity))
        for block in range(capacity):
            for _ in range(block * 7 % 5):
                order.touch(block)
        return order

    def test_empty_offers_nothing(self) -> None:
        """Without residents there is no victim."""
        order = self.make(4)
        assert offered(order) == []
        order.insert(1, 1)
        order.remove(1)
        assert offered(order) == []

    def test_offers_every_resident_once(self) -> None:
        """A caller that skips all (they are pinned) sees each resident exactly once, each time."""
        order = self.used()
        for _ in range(3):
            assert sorted(offered(order)) == list(range(40))

    def test_offers_lazily(self) -> None:
        """`victims` answers with an iterator, which may be asked for one block only."""
        victims = self.used().victims()
        assert iter(victims) is victims
        assert next(victims) in range(40)

    def test_forgets_what_was_removed(self) -> None:
        """A block that left is not offered, until it is inserted again."""
        order = self.used()
        gone = list(range(0, 40, 3))
        for block in gone:
            order.remove(block)
        assert sorted(offered(order)) == [block for block in range(40) if block % 3]
        fill(order, gone)
        assert sorted(offered(order)) == list(range(40))

    def test_offered_may_be_removed(self) -> None:
        """A caller may gather a few victims, stop, and evict them together, until none is left."""
        order = self.used()
        seen: list[int] = []
        for count in (1, 2, 5, 9, 40):
            few = list(islice(order.victims(), count))
            for block in few:
                order.remove(block)
            seen += few
        assert sorted(seen) == list(range(40))
        assert offered(order) == []

    def test_offered_may_be_skipped(self) -> None:
        """Pinned blocks are passed over once a call, and are offered again by the next call."""
        order = self.used()
        pinned = {block for block in range(40) if block % 3 == 0}
        for block in [block for block in offered(order) if block not in pinned]:
            order.remove(block)
        assert sorted(offered(order)) == sorted(pinned)

    def test_caller_may_stop(self) -> None:
        """A call that was left half-way, at any place, spoils nothing."""
        for asked in range(12):
            order = self.used(12)
            victims = order.victims()
            for _ in range(asked):
                next(victims)
            del victims
            order.touch(3)
            order.insert(12, 1)
            assert sorted(offered(order)) == list(range(13))

    def test_equal_histories_offer_equally(self) -> None:
        """Two orders with one history agree: nothing depends on chance, clock or address."""
        first, second = self.used(), self.used()
        for _ in range(60):
            victim = next(first.victims())
            assert next(second.victims()) == victim
            for order in (first, second):
                order.remove(victim)
                order.insert(victim + 100, 1)
                order.touch(victim + 100)

    def test_runs_a_tier(self) -> None:
        """In a tier of blocks of several sizes, some pinned, the bytes always suffice."""
        for seed in range(8):
            self.run_tier(Random(seed), capacity=30)

    def run_tier(self, random: Random, capacity: int) -> None:
        """A thousand random uses, with room made for each block before it is inserted."""
        order = self.make(capacity)
        sizes: dict[int, int] = {}
        for use in range(1000):
            block = min(int(random.expovariate(0.05)), 99)
            if block in sizes:
                order.touch(block)
                continue
            size = random.randint(1, 3)
            pinned = set(random.sample(sorted(sizes), len(sizes) // 3))
            leaving: list[int] = []
            short = sum(sizes.values()) + size - capacity
            for victim in offered(order):
                assert victim in sizes, f"victim {victim} is not resident"
                if short <= 0:
                    break
                if victim not in pinned:
                    leaving.append(victim)
                    short -= sizes[victim]
            for victim in leaving:
                order.remove(victim)
                del sizes[victim]
            assert sum(sizes.values()) + size <= capacity, "residents were withheld"
            order.insert(block, size)
            sizes[block] = size
            if use % 100 == 0:
                assert sorted(offered(order)) == sorted(sizes)
