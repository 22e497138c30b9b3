"""Granting a lease: all of its room or none, hits pinned, what is elsewhere sent for."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import cast

from tiermem.core.books import Books
from tiermem.core.evicting import Evictor
from tiermem.core.lease import Lease, LeaseState, Transfer
from tiermem.core.messages import Move, Ready, Runs
from tiermem.core.policy import Found
from tiermem.core.table import ARRIVING, LEAVING, READY, Copy, Room
from tiermem.errors import InputError


class Granter:
    """The part of the controller that fills rooms."""

    def __init__(self, books: Books, evictor: Evictor) -> None:
        self._books = books
        self._evictor = evictor

    def settle(self, room: Room) -> int:
        """Grant what waits at `room`, in order, demotions first; the number of leases granted."""
        granted = 0
        if not self._evictor.admit_inbound(room):
            return granted
        queue = self._books.queues[room.name]
        while queue and (own := self._room_for(queue[0], room)) is not None:
            self._grant(queue.popleft(), room, own)
            granted += 1
        self._evictor.keep_ahead(room)
        return granted

    def ready_if_filled(self, lease: Lease) -> None:
        """Answer a lease that waits for no transfer any more."""
        if lease.waiting == 0:
            lease.state = LeaseState.READY
            self._books.out.append(Ready(lease.id, lease.hits))

    def fetch(self, blocks: Sequence[int], source: str, room: Room, cause: str) -> Transfer:
        """Start a move of `blocks`, whose ARRIVING copies exist at `room`."""
        books = self._books
        below, order = books.rooms[source], books.orders[source]
        transfer = Transfer(next(books.ids), cause, list(blocks), 0, (source, room.name))
        for block in reversed(blocks) if books.backwards else blocks:
            copy = below.copies[block]
            self._hold(below, block, copy)
            if copy.ranked:
                order.touch(block)
            room.copies[block].moving = transfer.id
            transfer.nbytes += copy.nbytes
        books.transfers[transfer.id] = transfer
        move = Move(transfer.id, tuple(blocks), source, room.name, transfer.nbytes, cause)
        books.out.append(move)
        return transfer

    def _room_for(self, lease: Lease, room: Room) -> list[Copy | None] | None:
        """The copies of the lease's blocks that are here already, if the bytes of the others are
        free; else None, and evictions have started."""
        free = room.capacity_bytes - room.used_bytes
        if free < lease.need_bytes <= free + room.leaving_bytes:
            return None  # as before; what is leaving will do
        if room.doomed and any(room.doomed.get(block) == "stale" for block in lease.blocks):
            return None  # the old bytes are being read here yet
        own = list(map(room.copies.get, lease.blocks))
        here, first = _leading_copies(own)
        if first is not None:  # the common case: what is missing is the end
            absent = lease.sizes[first:]
        else:
            absent = tuple(s for s, copy in zip(lease.sizes, own, strict=True) if copy is None)
        need = lease.need_bytes = sum(absent) + lease.scratch_bytes
        if need > free:
            room.pin_all(here)  # its own blocks are no victims of its own
            self._evictor.make_room(room, need)
            room.unpin_all(here)
        return own if need <= room.capacity_bytes - room.used_bytes else None

    def _find(self, lease: Lease, room: Room, own: list[Copy | None]) -> tuple[Found, ...]:
        """The leading blocks that exist, in runs by the tier their bytes will come from."""
        here = room.name
        runs: list[Found] = []
        tier, blocks, nbytes = "", 0, 0
        for block, size, copy in zip(lease.blocks, lease.sizes, own, strict=True):
            if copy is not None and copy.state is not ARRIVING:
                source: str | None = here
            else:
                source = self._source(block, copy)
            if source != tier:
                if blocks:
                    runs.append(Found(tier, blocks, nbytes))
                if source is None:
                    return tuple(runs)
                tier, blocks, nbytes = source, 0, 0
            blocks += 1
            nbytes += size
        if blocks:
            runs.append(Found(tier, blocks, nbytes))
        return tuple(runs)

    def _source(self, block: int, arriving: Copy | None) -> str | None:
        """Where a block that is not readable here is coming from, or could."""
        if arriving is not None:
            moving = arriving.moving
            return self._books.transfers[moving].source if moving >= 0 else None
        for name, other in self._books.rooms.items():
            copy = other.copies.get(block)
            if copy is not None and copy.state is not ARRIVING and block not in other.doomed:
                return name
        return None

    def _grant(self, lease: Lease, room: Room, own: list[Copy | None]) -> None:
        """Take all of the room, pin what is here, and send for what is elsewhere."""
        found = self._find(lease, room, own)
        take = sum([run.blocks for run in found])
        if any(run.tier != room.name for run in found):
            total = sum(lease.sizes)
            wanted = self._books.policy.reuse(found, total, room.name, self._books.view)
            if not isinstance(wanted, int):
                raise InputError(f"reuse() answered {wanted!r}, which is no number of blocks")
            take = max(0, min(take, wanted))
        blocks = lease.blocks
        present, first = _leading_copies(own)
        if first is not None:
            absent: Sequence[int] = range(first, len(own))
        else:
            absent = [index for index, copy in enumerate(own) if copy is None]
        fetch: dict[str, list[int]] = {}
        if absent and absent[0] < take:
            tiers = [run.tier for run in found for _ in range(run.blocks)]
            for index in absent[: bisect_left(absent, take)]:
                fetch.setdefault(tiers[index], []).append(blocks[index])
        if [copy.state for copy in present].count(READY) == len(present):
            room.pin_all(present)
        else:
            for index, copy in enumerate(own):
                if copy is not None:
                    self._share(lease, room, blocks[index], index < take)
        if first is not None:
            lease.copies = present + room.add(blocks[first:], lease.sizes[first:], pins=1)
        else:
            room.add([blocks[i] for i in absent], [lease.sizes[i] for i in absent], pins=1)
            lease.copies = list(map(room.copies.__getitem__, blocks))
        room.reserve(lease.scratch_bytes)
        lease.hits = _leading(found, take)
        for source, wanted_there in fetch.items():
            self.fetch(wanted_there, source, room, "fetch").leases.append(lease)
            lease.waiting += 1
        lease.state = LeaseState.FILLING
        self.ready_if_filled(lease)

    def _share(self, lease: Lease, room: Room, block: int, hit: bool) -> None:
        """Pin a copy that is here; wait for one that is coming, keep one that is going."""
        copy = room.copies[block]
        self._hold(room, block, copy)
        if hit and copy.state is ARRIVING:
            transfer = self._books.transfers[copy.moving]
            if lease not in transfer.leases:
                transfer.leases.append(lease)
                lease.waiting += 1

    def _hold(self, room: Room, block: int, copy: Copy) -> None:
        """Pin a copy; one on its way down is kept, and the room it promised is made elsewhere."""
        room.pin(copy)
        if copy.state is LEAVING:
            if self._evictor.call_back(room, block, copy):
                self._books.rank(room, block, copy)
            self._books.mark(room.name)


def _leading_copies(own: list[Copy | None]) -> tuple[list[Copy], int | None]:
    """The copies that are there, and the index of the first that is not, if none is after it."""
    missing = own.count(None)
    first = own.index(None) if missing else len(own)
    present = own[:first] if missing == len(own) - first else list(filter(None, own))
    return cast(list[Copy], present), first if len(present) == first else None


def _leading(found: tuple[Found, ...], take: int) -> Runs:
    """The first `take` blocks of the runs, by tier."""
    hits = []
    for run in found:
        if take <= 0:
            break
        hits.append((run.tier, min(run.blocks, take)))
        take -= run.blocks
    return tuple(hits)
