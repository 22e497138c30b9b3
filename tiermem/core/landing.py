"""What the end of a move means: copies arrive, leave, or stay; leases become READY.

A failed fetch makes its blocks the holder's to write and drops the copy that could not be read; a
failed demotion leaves everything where it was.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiermem.core.books import Books
from tiermem.core.evicting import Evictor
from tiermem.core.granting import Granter
from tiermem.core.lease import Transfer
from tiermem.core.messages import Deny, Done, Drop
from tiermem.core.table import READY, Room

FAILURES_BEFORE_DENY = 3
"""Demotions that may fail in a row before the lease they made room for is denied."""


class Lander:
    """The part of the controller that takes the answers to moves."""

    def __init__(self, books: Books, evictor: Evictor, granter: Granter) -> None:
        self._books = books
        self._evictor = evictor
        self._granter = granter
        self._failures = dict.fromkeys(books.rooms, 0)  # in a row, by the tier to be emptied

    def granted(self, room: Room) -> None:
        """A lease got its room there, so demotions work."""
        self._failures[room.name] = 0

    def done(self, event: Done) -> None:
        """Settle the move that `event` answers."""
        books = self._books
        transfer = books.transfers.pop(event.id, None)
        assert transfer is not None, "INV-5: each move is answered once"
        lost = _lost(transfer, event)
        doomed = books.rooms[transfer.target].doomed
        torn = [block for block in transfer.blocks if doomed.get(block) == "stale"]
        self._arrive(transfer, lost)
        if transfer.cause == "demote":
            self._depart(transfer, [*lost, *torn])
            if lost and len(lost) == len(transfer.blocks):
                self._failed_to_demote(books.rooms[transfer.source])
        else:
            self._let_go(transfer, lost)
        for lease in transfer.leases:
            if books.leases.get(lease.id) is not lease:
                continue  # released while it was filling
            lease.waiting -= 1
            if lost:
                lease.truncate(lost)
            self._granter.ready_if_filled(lease)
        books.mark(transfer.source)
        books.mark(transfer.target)

    def _arrive(self, transfer: Transfer, lost: Sequence[int]) -> None:
        """The target copies are READY; those that were lost, unwritten."""
        books, room = self._books, self._books.rooms[transfer.target]
        insert, evictable = books.orders[room.name].insert, 0
        for block in transfer.blocks:
            copy = room.copies[block]
            copy.moving = -1
            if block not in lost:
                copy.state = READY
                if not copy.pins:  # ranked here, not by `rank`: the hottest loop there is
                    copy.ranked = True
                    evictable += copy.nbytes
                    insert(block, copy.nbytes)
            elif not copy.pins:
                room.remove((block,))
        room.evictable_bytes += evictable
        if room.doomed:
            for block in [block for block in transfer.blocks if block in room.doomed]:
                if not room.copies[block].pins:
                    books.unpinned(room, block, room.copies[block])

    def _depart(self, transfer: Transfer, lost: Sequence[int]) -> None:
        """The copies that moved down are gone, unless they were wanted again or the move failed."""
        room = self._books.rooms[transfer.source]
        copies = room.copies
        staying = [block for block in transfer.blocks if copies[block].pins or block in lost]
        for block in staying:
            copy = copies[block]
            room.stay(copy)
            self._books.rank(room, block, copy)
            if not copy.pins:
                self._books.unpinned(room, block, copy)
        if len(staying) < len(transfer.blocks):
            kept = set(staying)
            gone = (
                [block for block in transfer.blocks if block not in kept]
                if kept
                else transfer.blocks
            )
            room.remove(gone)
            self._books.out.append(Drop(tuple(gone), room.name, "moved"))

    def _let_go(self, transfer: Transfer, lost: Sequence[int]) -> None:
        """Unpin the sources. One that could not be read is dropped: nobody should try it again."""
        books, room = self._books, self._books.rooms[transfer.source]
        failed = []
        for block in transfer.blocks:
            copy = room.copies[block]
            if not room.unpin(copy):
                continue
            if block in lost and transfer.cause != "write" and copy.state is READY:
                failed.append(block)
            else:
                books.unpinned(room, block, copy)
        if failed:
            books.drop(room, failed, "failed")

    def _failed_to_demote(self, room: Room) -> None:
        """After a few failures in a row whoever waits for this room is turned away."""
        books = self._books
        self._failures[room.name] += 1
        if self._failures[room.name] < FAILURES_BEFORE_DENY:
            return
        self._failures[room.name] = 0
        for transfer in self._evictor.cancel_inbound(room):
            if transfer.cause == "demote":
                self._failed_to_demote(self._books.rooms[transfer.source])
            books.mark(transfer.source)
        if books.queues[room.name]:
            lease = books.queues[room.name].popleft()
            del books.leases[lease.id]
            books.out.append(Deny(lease.id, lease.nbytes - room.free_bytes))


def _lost(transfer: Transfer, event: Done) -> Sequence[int]:
    """The blocks of a move that did not get where they were going."""
    if event.ok:
        return ()
    failed = set(event.result or transfer.blocks)
    return [block for block in transfer.blocks if block in failed]
