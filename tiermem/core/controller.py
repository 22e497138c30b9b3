"""Events in, actions out: leases, moves and the invariants of `docs/invariants.md`.

The controller knows what is allowed; the policy, what is wise. Room is granted all or nothing
and in order at each tier, demotions before leases, so that nothing waits in a circle: a demotion
waits only for tiers below, and the lowest tier can always drop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress, count, islice
from typing import Any

from tiermem.core.books import Books
from tiermem.core.evicting import Evictor
from tiermem.core.granting import Granter
from tiermem.core.landing import Lander
from tiermem.core.lease import Lease, LeaseState
from tiermem.core.messages import (
    Acquire,
    Action,
    Adopt,
    Commit,
    Deny,
    Done,
    Drop,
    Event,
    Forget,
    Hint,
    Release,
    Save,
)
from tiermem.core.policy import Policy, View
from tiermem.core.table import ARRIVING, READY, BlockTable, Copy, Room
from tiermem.errors import InputError
from tiermem.models.topology import Topology


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
        self._lander = Lander(self._books, self._evictor, self._granter)
        self._rooms = self.table.rooms
        self._upwards = list(reversed(self._rooms.values()))
        self._answers: dict[type, Callable[[Any], None]] = {
            Acquire: self._acquire,
            Adopt: self._adopt,
            Commit: self._commit,
            Release: self._release,
            Done: self._lander.done,
            Hint: self._hint,
            Forget: self._forget,
            Save: self._save,
        }

    def on(self, event: Event, now: int) -> list[Action]:
        """Answer one event. `now` is in nanoseconds and never decreases (INV-7)."""
        assert now >= self.view.now, "INV-7: time never runs backwards"
        self.view.now = now
        books = self._books
        out = books.out = []
        self._answers[type(event)](event)
        while books.dirty:
            for room in self._upwards:
                if room.name in books.dirty:
                    books.dirty.discard(room.name)
                    if self._granter.settle(room):
                        self._lander.granted(room)
        return out

    def site(self, tiers: tuple[str, ...]) -> str:
        """Where the policy lets work run; `tiers` are those that can."""
        chosen = self._books.policy.site(tiers, self.view)
        return chosen if chosen in tiers else tiers[0]

    # -- leases --------------------------------------------------------------------------------

    def _acquire(self, event: Acquire) -> None:
        books = self._books
        assert event.lease not in books.leases, "a lease id is used once at a time"
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
        fresh = [copy.state is ARRIVING and copy.moving < 0 for copy in lease.copies]
        written = list(compress(lease.blocks, fresh))
        for copy in compress(lease.copies, fresh):
            copy.state = READY
        if event.rewritten:
            assert set(event.rewritten) <= set(lease.blocks), "a lease writes to its own blocks"
            for room in self._rooms.values():
                if room.name != lease.at:
                    held = [room.copies[b].pins for b in event.rewritten if b in room.copies]
                    assert not any(held), "what is rewritten is leased in one tier only"
                    self._evictor.doom(room, event.rewritten, "stale")
            written += [block for block in event.rewritten if block not in set(written)]
        if written:
            targets = books.policy.admit(tuple(written), lease.at, self.view)
            if isinstance(targets, str):
                raise InputError(f"admit() answered {targets!r}, not several tiers")
            for target in islice(targets, len(self._rooms)):
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
        skipped = unpinned_bytes = 0
        for block, copy in zip(blocks, copies, strict=True):
            if copy.ranked:
                touch(block)
            elif copy.state is READY:
                copy.ranked = True
                insert(block, copy.nbytes)
            else:
                skipped += 1
                continue
            copy.pins = pins = copy.pins - 1
            if not pins:
                unpinned_bytes += copy.nbytes
        room.pinned_bytes -= unpinned_bytes
        room.evictable_bytes += unpinned_bytes
        if skipped or room.doomed:
            self._let_unready_go(room, blocks, copies)
        room.give_back(lease.scratch_bytes)
        books.mark(lease.at)

    def _let_unready_go(self, room: Room, blocks: Sequence[int], copies: Sequence[Copy]) -> None:
        """Of what a lease pinned: unwritten copies are gone, and so are doomed ones."""
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
        for room in self._rooms.values():
            if event.tier in (None, room.name):
                self._evictor.doom(room, event.blocks, "forget")

    def _adopt(self, event: Adopt) -> None:
        """Take what was found into the books; what has no room there is dropped."""
        books, room = self._books, self._rooms[event.tier]
        turned_away = []
        for block, size in zip(event.blocks, event.sizes, strict=True):
            if block in room.copies:
                continue
            if size > room.free_bytes:
                turned_away.append(block)
                continue
            room.add((block,), (size,))
            copy = room.copies[block]
            copy.state = READY
            books.rank(room, block, copy)
        if turned_away:
            books.out.append(Drop(tuple(turned_away), room.name, "no_room"))

    def _save(self, event: Save) -> None:
        """Copy what is above `tier` down to it; what is on its way there already is left alone."""
        names = list(self._rooms)
        lower, seen = self._rooms[event.tier], set(event.blocks)
        for name in names[: names.index(event.tier)]:
            copies = self._rooms[name].copies
            here = [block for block in event.blocks if block in seen and block in copies]
            ready = [b for b in here if copies[b].state is READY and b not in lower.copies]
            self._evictor.write_through(ready, name, event.tier)
            seen.difference_update(here)
