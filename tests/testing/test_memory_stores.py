"""The public suite notices memory stores that break the contract."""

from __future__ import annotations

import pytest

from tiermem.runtime.host import HostArena
from tiermem.runtime.spans import Spans
from tiermem.runtime.stores import Buffer, Extent, Span
from tiermem.testing.memory_stores import MemoryStoreTests

PAGE = 4096


class Generous(HostArena):
    """Has twice what was asked for."""

    def __init__(self, capacity_bytes: int) -> None:
        super().__init__(2 * capacity_bytes)


class Overlaps(HostArena):
    """Gives everybody the first bytes, too."""

    def allocate(self, nbytes: int) -> Extent | None:
        extent = super().allocate(nbytes)
        return extent and (Span(0, extent[0].nbytes), *extent[1:])

    def free(self, extent: Extent) -> None:
        """What was given cannot be told any more."""


class Copies(HostArena):
    """Its views are not the memory."""

    def views(self, extent: Extent, nbytes: int) -> list[Buffer]:
        return [view.copy() for view in super().views(extent, nbytes)]


class Forgets(HostArena):
    """Frees one span of several."""

    def free(self, extent: Extent) -> None:
        super().free(extent[:1])


class Whole(HostArena):
    """Refuses what does not fit in one span."""

    def allocate(self, nbytes: int) -> Extent | None:
        extent = super().allocate(nbytes)
        if extent is not None and len(extent) > 1:
            self.free(extent)
            return None
        return extent


class Loose(HostArena):
    """Its views show the whole room."""

    def views(self, extent: Extent, nbytes: int) -> list[Buffer]:
        return super().views(extent, sum(size for _, size in extent))


class Undead(HostArena):
    """Goes on after close."""

    def close(self) -> None:
        super().close()
        self._bytes, self._spans = super()._map(None, strict=False), Spans(self.capacity_bytes)


@pytest.mark.parametrize(
    ("broken", "test"),
    [
        (Generous, "test_capacity_is_what_was_asked"),
        (Overlaps, "test_contiguous_where_possible"),
        (Overlaps, "test_random_histories"),
        (Copies, "test_views_are_the_memory_itself"),
        (Forgets, "test_random_histories"),
        (Whole, "test_scattered_where_necessary"),
        (Loose, "test_room_without_bytes_is_room"),
        (Undead, "test_close_ends_it"),
    ],
)
def test_suite_finds_what_is_broken(broken: type[HostArena], test: str) -> None:
    """Each way to break the contract fails the test that states it."""

    class Suite(MemoryStoreTests):
        def make(self, capacity_bytes: int) -> HostArena:
            return broken(capacity_bytes)

    with pytest.raises((AssertionError, ValueError)):
        getattr(Suite(), test)()


def test_a_suite_without_a_store_says_so() -> None:
    """`make` is the one thing to write."""
    with pytest.raises(NotImplementedError):
        MemoryStoreTests().make(PAGE)
