"""Events in, actions out: leases, moves and the invariants of `docs/invariants.md`.

The controller knows what is allowed; the policy, what is wise. Room is granted all or nothing
and in order at each tier, demotions before leases, so that nothing waits in a circle: a demotion
waits only for tiers below, and the lowest tier can always drop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from tiermem.core.books import Books
from tiermem.core.evicting import Evictor
from tiermem.core.granting import Granter
from tiermem.core.lease import Lease, LeaseState, Transfer
from tiermem.core.messages import (
    Acquire,
    Action,
    Commit,
    Deny,
    Done,
    Drop,
    Event,
    Forget,
    Hint,
    Release,
)
from tiermem.core.policy import Policy, View
from tiermem.core.table import ARRIVING, LEAVING, READY, BlockTable, Copy, Room
from tiermem.models.topology import Topology

FAILURES_BEFORE_DENY = 3
"""Demotions that may fail in a row before the lease they made room for is denied."""


class Controller:
    """The brain for one machine: `on(event, now)` returns the actions to perform.

    `capacities_bytes` says how much of each tier blocks may take. `recompute_ns(bytes before,
    bytes)` is what policies may ask when blocks can be computed again.
    """

    def __init__(
        self,
        topology: Topology,
        capacities_bytes: Mapping[str, int],
        policy: Policy,
        *,
        recompute_ns: Callable[[int, int], int] | None = None,
        ids: Iterable[int] | None = None,
    ) -> None:
        self.table = BlockTable({name: capacities_bytes[name] for name in topology.names})
        self.view = View(self.table, topology, recompute_ns)
        self._books = Books(self.table, policy, self.view, iter(ids or count(1)))
        self.leases: Mapping[int, Lease] = self._books.leases
        self._evictor = Evictor(self._books)
        self._granter = Granter(self._books, self._evictor)
        self._rooms = self.table.rooms
        self._upwards = list(reversed(self._rooms.values()))
        self._failures = dict.fromkeys(self._rooms, 0)
        self._answers: dict[type, Callable[[Any], None]] = {
            Acquire: self._acquire,
            Commit: self._commit,
            Release: self._release,
            Done: self._done,
            Hint: self._hint,
            Forget: self._forget,
        }

    def on(self, event: Event, now: int) -> list[Action]:
        """Answer one event. `now` is in nanoseconds and never decreases (INV-7)."""
        assert now >= self.view.now, "INV-7: time never runs backwards"
        self.view.now = now
        books = self._books
        out = books.out = []
        self._answers[type(event)](event)
        if books.forgotten:
            books.settle_forgotten()
        while books.dirty:
            for room in self._upwards:
                if room.name in books.dirty:
                    books.dirty.discard(room.name)
                    if self._granter.settle(room):
                        self._failures[room.name] = 0
        return out

    def site(self, tiers: tuple[str, ...]) -> str:
        """Where the policy lets work run; `tiers` are those that can."""
        chosen = self._books.policy.site(tiers, self.view)
        return chosen if chosen in tiers else tiers[0]

    # -- leases --------------------------------------------------------------------------------

    def _acquire(self, event: Acquire) -> None:
        books = self._books
        assert event.lease not in books.leases, "a lease id is used once at a time"
        assert len(set(event.blocks)) == len(event.blocks), "a chain names each block once"
        lease = Lease(event)
        missing = lease.nbytes - self._rooms[event.at].capacity_bytes
        if missing > 0:
            books.out.append(Deny(event.lease, missing))
            return
        books.leases[event.lease] = lease
        books.queues[event.at].append(lease)
        books.dirty.add(event.at)

    def _commit(self, event: Commit) -> None:
        books = self._books
        lease = books.leases[event.lease]
        assert lease.state is LeaseState.READY, "only a READY lease has been written to"
        written = []
        for block, copy in zip(lease.blocks, lease.copies, strict=True):
            if copy.state is ARRIVING and copy.moving < 0:
                copy.state = READY
                written.append(block)
        if written:
            for target in books.policy.admit(written, lease.at, self.view):
                self._evictor.write_through(written, lease.at, target)

    def _release(self, event: Release) -> None:
        """The lease's blocks become recent, in the policy's order, and may leave.

        New ones are known to the eviction order from here on: what nobody may evict is no
        candidate to be looked at.
        """
        books = self._books
        lease = books.leases.pop(event.lease)
        if lease.state is LeaseState.QUEUED:
            books.queues[lease.at].remove(lease)
            books.dirty.add(lease.at)
            return
        room, order = self._rooms[lease.at], books.orders[lease.at]
        blocks, copies = lease.blocks, lease.copies
        if books.backwards:
            blocks, copies = blocks[::-1], copies[::-1]
        touch, insert = order.touch, order.insert
        ready = unpinned_bytes = 0
        for block, copy in zip(blocks, copies, strict=True):
            if copy.ranked:
                touch(block)
            elif copy.state is READY:
                copy.ranked = True
                insert(block, copy.nbytes)
            else:
                continue
            ready += 1
            copy.pins -= 1
            if not copy.pins:
                unpinned_bytes += copy.nbytes
        room.pinned_bytes -= unpinned_bytes
        room.evictable_bytes += unpinned_bytes
        if ready < len(copies) or books.forgotten:
            self._let_unready_go(room, blocks, copies)
        room.give_back(lease.scratch_bytes)
        books.mark(lease.at)

    def _let_unready_go(self, room: Room, blocks: Sequence[int], copies: Sequence[Copy]) -> None:
        """Of what a lease pinned: unwritten copies are gone, and so are forgotten ones."""
        room.unpin_all([copy for copy in copies if not copy.ranked])
        unwritten = []
        for block, copy in zip(blocks, copies, strict=True):
            if copy.pins:
                continue
            if copy.state is ARRIVING and copy.moving < 0:
                unwritten.append(block)
            else:
                self._books.unpinned(room, block, copy)
        if unwritten:
            room.remove(unwritten)
            self._books.out.append(Drop(tuple(unwritten), room.name, "unwritten"))

    # -- answers to moves ----------------------------------------------------------------------

    def _done(self, event: Done) -> None:
        books = self._books
        transfer = books.transfers.pop(event.id, None)
        assert transfer is not None, "INV-5: each move is answered once"
        self._arrive(transfer, event.ok)
        if transfer.cause == "demote":
            self._depart(transfer, event.ok)
        else:
            self._let_go(transfer, event.ok)
        for lease in transfer.leases:
            if books.leases.get(lease.id) is not lease:
                continue  # released while it was filling
            lease.waiting -= 1
            if not event.ok:
                lease.truncate(transfer.blocks)
            self._granter.ready_if_filled(lease)
        books.mark(transfer.source)
        books.mark(transfer.target)

    def _arrive(self, transfer: Transfer, ok: bool) -> None:
        """The target copies are READY; or, after a failure, unwritten."""
        books, room = self._books, self._rooms[transfer.target]
        insert, evictable = books.orders[room.name].insert, 0
        for block in transfer.blocks:
            copy = room.copies[block]
            copy.moving = -1
            if ok:
                copy.state = READY
                if not copy.pins:  # ranked here, not by `rank`: the hottest loop there is
                    copy.ranked = True
                    evictable += copy.nbytes
                    insert(block, copy.nbytes)
            elif not copy.pins:
                room.remove((block,))
        room.evictable_bytes += evictable
        if ok and books.forgotten:
            for block in transfer.blocks:
                if not room.copies[block].pins:
                    books.unpinned(room, block, room.copies[block])

    def _depart(self, transfer: Transfer, ok: bool) -> None:
        """The copies that moved down are gone, unless they were wanted again or the move failed."""
        room = self._rooms[transfer.source]
        copies = room.copies
        staying = [block for block in transfer.blocks if not ok or copies[block].pins]
        for block in staying:
            copy = copies[block]
            room.stay(copy)
            self._books.rank(room, block, copy)
            if not copy.pins:
                self._books.unpinned(room, block, copy)
        if len(staying) < len(transfer.blocks):
            kept = set(staying)
            room.remove([block for block in transfer.blocks if block not in kept])
        if not ok:
            self._failed_to_demote(room)

    def _let_go(self, transfer: Transfer, ok: bool) -> None:
        """Unpin the sources. One that could not be read is dropped: nobody should try it again."""
        books, room = self._books, self._rooms[transfer.source]
        failed = []
        for block in transfer.blocks:
            copy = room.copies[block]
            if not room.unpin(copy):
                continue
            if not ok and transfer.cause != "write" and copy.state is READY:
                books.unrank(room, block, copy)
                failed.append(block)
            else:
                books.unpinned(room, block, copy)
        if failed:
            room.remove(failed)
            books.out.append(Drop(tuple(failed), room.name, "failed"))

    def _failed_to_demote(self, room: Room) -> None:
        """After a few failures in a row whoever waits for this room is turned away."""
        books = self._books
        self._failures[room.name] += 1
        if self._failures[room.name] < FAILURES_BEFORE_DENY:
            return
        self._failures[room.name] = 0
        for transfer in self._evictor.cancel_inbound(room):
            if transfer.cause == "demote":
                self._failed_to_demote(self._rooms[transfer.source])
            books.mark(transfer.source)
        if books.queues[room.name]:
            lease = books.queues[room.name].popleft()
            del books.leases[lease.id]
            books.out.append(Deny(lease.id, lease.nbytes - room.free_bytes))

    # -- hints and deletions -------------------------------------------------------------------

    def _hint(self, event: Hint) -> None:
        """Prefetch into room that is free; nothing is evicted for a guess."""
        books, room = self._books, self._rooms[event.at]
        if books.queues[event.at] or books.inbound[event.at]:
            return
        fetch: dict[str, list[int]] = {}
        for block in books.policy.prefetch(event, self.view):
            tiers = self.table.where(block)
            if block in room.copies or not tiers:
                continue
            size = self._rooms[tiers[0]].copies[block].nbytes
            if size <= room.free_bytes:
                room.add((block,), (size,))
                fetch.setdefault(tiers[0], []).append(block)
        for source, blocks in fetch.items():
            self._granter.fetch(blocks, source, room, "prefetch")

    def _forget(self, event: Forget) -> None:
        books = self._books
        for room in self._rooms.values():
            gone = []
            for block in dict.fromkeys(event.blocks):
                copy = room.copies.get(block)
                if copy is None:
                    continue
                if copy.state is LEAVING and not copy.pins:
                    self._evictor.call_back(room, block, copy)
                if copy.state is READY and not copy.pins:
                    books.unrank(room, block, copy)
                    gone.append(block)
                else:
                    books.forgotten.add(block)
            if gone:
                room.remove(gone)
                books.out.append(Drop(tuple(gone), room.name, "forget"))
                books.mark(room.name)
