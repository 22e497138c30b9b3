"""How much is promised: what is held must have a place, since it cannot be computed again."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping

from tiermem.errors import DoesNotFit
from tiermem.runtime.sizes import GRANULE_BYTES, charged_bytes
from tiermem.units import format_bytes


class Ledger:
    """The bytes of every block that is held, against the rooms of the tiers, fastest first.

    A block must fit the fastest tier, where it is used; all of them must fit the largest, which
    then never has to drop one. Any thread may call.
    """

    def __init__(self, rooms: Mapping[str, int]) -> None:
        self.fastest = next(iter(rooms.items()))
        self.largest = max(rooms.items(), key=lambda room: room[1])
        self._mutex = threading.Lock()
        self._charges: dict[int, int] = {}
        self._bytes = 0
        self._orphans: deque[int] = deque()  # a garbage collector may add to it at any time

    @property
    def blocks(self) -> int:
        """How many are held."""
        return len(self._charges)

    @property
    def nbytes(self) -> int:
        """What they are charged, each once however many tiers have it."""
        return self._bytes

    def check(self, nbytes: int) -> None:
        """`DoesNotFit` for a block that its tier could never hold."""
        name, room = self.fastest
        if charged_bytes(nbytes) > room:
            raise DoesNotFit(
                f"{exactly(nbytes)} are more than tier {name!r} has, {exactly(room)}, and a tensor "
                "is used there as a whole; give that tier more, or split it"
            )

    def check_all(self, sizes: Iterable[int], *, each: int = 1) -> None:
        """`DoesNotFit` when blocks of these bytes, `each` so often, cannot all be held beside those
        that are."""
        with self._mutex:
            self._require(each * sum(charged_bytes(nbytes) for nbytes in sizes))

    def holds(self, block: int) -> bool:
        """Whether this block was promised a place, and not dropped since."""
        return block in self._charges

    def hold(self, sizes: Mapping[int, int]) -> None:
        """Promise these blocks their bytes; `DoesNotFit` where that cannot be kept."""
        with self._mutex:
            fresh = {
                block: charged_bytes(nbytes)
                for block, nbytes in sizes.items()
                if block not in self._charges
            }
            self._require(sum(fresh.values()))
            self._charges.update(fresh)
            self._bytes += sum(fresh.values())

    def drop(self, blocks: Iterable[int]) -> None:
        """These are not held any more; strangers are ignored."""
        with self._mutex:
            for block in blocks:
                self._bytes -= self._charges.pop(block, 0)

    def clear(self) -> None:
        """Nothing is held any more."""
        with self._mutex:
            self._charges.clear()
            self._bytes = 0

    def orphan(self, block: int) -> None:
        """Nobody can name this block any more. Takes no lock: a garbage collector calls it, in
        the middle of anything."""
        self._orphans.append(block)

    def orphans(self) -> list[int]:
        """The blocks that became orphans since the last call."""
        found = []
        while self._orphans:
            found.append(self._orphans.popleft())
        return found

    def _require(self, more: int) -> None:
        name, room = self.largest
        if self._bytes + more > room:
            raise DoesNotFit(
                f"{exactly(more)} more do not fit: {exactly(self._bytes)} are held, and the "
                f"largest tier, {name!r}, has {exactly(room)}; free some tensors, or give it more"
            )


def whole_classes(room_bytes: int) -> list[int]:
    """A few sizes that are charged what they are, and take all of the room together."""
    granules, sizes = room_bytes // GRANULE_BYTES, []
    while granules:
        taken = granules
        while charged_bytes(taken * GRANULE_BYTES) != taken * GRANULE_BYTES:
            taken &= taken - 1  # without its last bit it is rounder
        sizes.append(taken * GRANULE_BYTES)
        granules -= taken
    return sizes


def exactly(nbytes: int) -> str:
    """A size for a person and for a calculator: `64 KiB (65,536 bytes)`."""
    return f"{format_bytes(nbytes)} ({nbytes:,} bytes)"
