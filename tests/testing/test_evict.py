"""The public suite notices orders that break the contract."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tiermem.policies.lru import LRU
from tiermem.testing.evict import EvictTests


class Withholds(LRU):
    """Never offers its last resident."""

    def victims(self) -> Iterator[int]:
        return iter(list(super().victims())[:-1])


class Repeats(LRU):
    """Offers its first resident again at the end."""

    def victims(self) -> Iterator[int]:
        blocks = list(super().victims())
        return iter(blocks + blocks[:1])


class Remembers(LRU):
    """Does not take note of what left."""

    def remove(self, block: int) -> None:
        pass


class Wavers(LRU):
    """Depends on the address of the object."""

    def victims(self) -> Iterator[int]:
        blocks = list(super().victims())
        Wavers.turn = not getattr(Wavers, "turn", False)
        return iter(blocks[::-1] if Wavers.turn else blocks)


@pytest.mark.parametrize(
    ("broken", "test"),
    [
        (Withholds, "test_offers_every_resident_once"),
        (Repeats, "test_offers_every_resident_once"),
        (Remembers, "test_forgets_what_was_removed"),
        (Remembers, "test_empty_offers_nothing"),
        (Remembers, "test_offered_may_be_removed"),
        (Remembers, "test_offered_may_be_skipped"),
        (Wavers, "test_equal_histories_offer_equally"),
    ],
)
def test_suite_finds_what_is_broken(broken: type[LRU], test: str) -> None:
    """Each way to break the contract fails the test that states it."""

    class Suite(EvictTests):
        evict = broken

    with pytest.raises((AssertionError, RuntimeError)):
        getattr(Suite(), test)()
