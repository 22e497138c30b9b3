"""What the controller and its parts share: the table, the queues, and the small steps on them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from tiermem.core.lease import Lease, Transfer
from tiermem.core.messages import Action, Drop
from tiermem.core.policy import Evict, Policy, View
from tiermem.core.table import READY, BlockTable, Copy, Room
from tiermem.errors import InputError, UnknownName


class Books:
    """The state of one controller. Its parts read and write it; nobody else does."""

    def __init__(self, table: BlockTable, policy: Policy, view: View, ids: Iterator[int]) -> None:
        if policy.touch_order not in ("reverse", "forward"):
            raise UnknownName("touch order", str(policy.touch_order), ("reverse", "forward"))
        ahead = policy.demote_ahead
        if isinstance(ahead, bool) or not isinstance(ahead, int | float) or not 0 <= ahead < 1:
            raise InputError("is not a share, at least 0 and below 1", key="demote_ahead")
        self.table = table
        self.rooms = table.rooms
        self.policy = policy
        self.view = view
        self.ids = ids
        self.orders: dict[str, Evict] = {name: policy.evict(name) for name in table.rooms}
        self.backwards = policy.touch_order == "reverse"
        self.leases: dict[int, Lease] = {}
        self.queues: dict[str, deque[Lease]] = {name: deque() for name in table.rooms}
        self.transfers: dict[int, Transfer] = {}
        self.inbound: dict[str, deque[Transfer]] = {name: deque() for name in table.rooms}
        self.dirty: set[str] = set()  # tiers where somebody who waits may have room now
        self.out: list[Action] = []

    def mark(self, tier: str) -> None:
        """Bytes were freed, or may be now: retry whoever waits there."""
        if self.queues[tier] or self.inbound[tier]:
            self.dirty.add(tier)

    def rank(self, room: Room, block: int, copy: Copy) -> None:
        """Make a copy known to the eviction order of its tier, once."""
        if not copy.ranked:
            room.rank(copy)
            self.orders[room.name].insert(block, copy.nbytes)

    def unrank(self, room: Room, block: int, copy: Copy) -> None:
        """The eviction order knows the copy no more."""
        if copy.ranked:
            room.unrank(copy)
            self.orders[room.name].remove(block)

    def unpinned(self, room: Room, block: int, copy: Copy) -> None:
        """A READY copy that nothing pins is known to the eviction order, or gone if doomed."""
        if copy.state is not READY:
            return
        if block in room.doomed:
            self.drop(room, (block,), room.doomed[block])
        else:
            self.rank(room, block, copy)

    def drop(self, room: Room, blocks: Sequence[int], cause: str) -> None:
        """READY copies that nothing pins are gone."""
        for block in blocks:
            self.unrank(room, block, room.copies[block])
        room.remove(blocks)
        self.out.append(Drop(tuple(blocks), room.name, cause))
        for tier in self.rooms:  # what waits for a doomed copy to go may wait in any tier
            self.mark(tier)
