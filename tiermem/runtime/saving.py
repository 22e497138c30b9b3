"""What a flush is about: kept blocks that are in memory only, and whether they got to the files."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from tiermem.core.controller import Controller
from tiermem.core.table import ARRIVING
from tiermem.runtime.inventory import Names
from tiermem.runtime.sizes import charged_bytes


class Saving:
    """One flush to `tier`; used on the thread of the core."""

    def __init__(self, controller: Controller, names: Names, tier: str) -> None:
        rooms = controller.table.rooms
        self._names = names
        self._lower = rooms[tier]
        order = list(rooms)
        self._above = [rooms[name] for name in order[: order.index(tier)]]
        self._wanted: set[int] = set()
        self._unfit = 0

    def wanted(self) -> tuple[int, ...]:
        """The blocks to copy: kept, in memory, not in the files, and no more than fit there."""
        kept = self._names.kept
        found = {
            block
            for room in self._above
            for block, copy in room.copies.items()
            if copy.state is not ARRIVING and kept(block) and not self._lower.readable(block)
        }
        room_bytes = self._lower.capacity_bytes - self._lower.pinned_bytes
        for block in sorted(found):
            room_bytes -= charged_bytes(self._names.nbytes(block))
            if room_bytes < 0:
                found.discard(block)
                self._unfit += 1
        self._wanted = found
        return tuple(sorted(found))

    def done(self, lost: AbstractSet[int]) -> bool:
        """Whether each of them is in the files, was lost on the way, or was deleted meanwhile."""
        return not any(
            not self._lower.readable(block) and any(block in room.copies for room in self._above)
            for block in self._wanted - lost
        )

    def failed(self, lost: AbstractSet[int], *, synced: bool = True) -> int:
        """How many are not durable: after a sync that failed, any of them may be gone."""
        if not synced:
            return max(1, self._unfit + len(self._wanted))
        return self._unfit + len(self._wanted & lost)
