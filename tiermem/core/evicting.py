"""Making room: victims, where they go, and the demotions that wait for room below."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice, pairwise

from tiermem.core.books import Books
from tiermem.core.lease import Transfer
from tiermem.core.messages import Drop, Move
from tiermem.core.table import ARRIVING, LEAVING, READY, Copy, Room
from tiermem.errors import InputError, UnknownName


class Evictor:
    """The part of the controller that empties rooms."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._rooms = books.rooms
        names = list(books.rooms)
        self._below = {name: names[index + 1 :] for index, name in enumerate(names)}
        self._ahead_bytes = dict.fromkeys(names, 0)
        for upper, lower in pairwise(books.rooms.values()):
            smaller = min(upper.capacity_bytes, lower.capacity_bytes)
            self._ahead_bytes[upper.name] = int(books.policy.demote_ahead * smaller)

    def make_room(self, room: Room, need: int) -> None:
        """Start as many evictions as `need` free bytes still want, beyond those under way.

        Where victims move down, a little more leaves than is needed now, so that moves are few
        and the next one finds room (`Place.demote_ahead`).
        """
        short = need - room.free_bytes - room.leaving_bytes
        if short <= 0 or not room.evictable_bytes:
            return
        victims, sizes = self._victims(room, short + self._ahead(room, short))
        if not victims:
            return  # the policy names none, though there are some
        if not self._below[room.name]:  # nowhere to go, so nothing to ask
            room.remove(victims)
            self._books.out.append(Drop(tuple(victims), room.name, "evict"))
            return
        targets = self._books.policy.demote(tuple(victims), room.name, self._books.view)
        if len(targets) != len(victims):
            raise InputError(f"demote() gave {len(targets)} answers for {len(victims)} victims")
        for target, blocks in self._destinations(victims, sum(sizes), targets, room).items():
            if target in self._rooms:
                nbytes = sum([room.copies[block].nbytes for block in blocks])
                route = (room.name, target)
                self._queue(Transfer(next(self._books.ids), "demote", blocks, nbytes, route))
            else:
                room.remove(blocks)
                self._books.out.append(Drop(tuple(blocks), room.name, target))

    def _victims(self, room: Room, short: int) -> tuple[list[int], list[int]]:
        """Take blocks of `short` bytes or more out of the eviction order, as far as there are
        any; with their sizes. A policy may be wrong about what is here."""
        order, get = self._books.orders[room.name], room.copies.get
        doomed = [d for name in self._below[room.name] if (d := self._rooms[name].doomed)]
        victims, sizes = [], []
        short = min(short, room.evictable_bytes)
        most = 2 * len(room.copies) + 16  # to look at, should a policy repeat itself for ever
        for block in islice(order.victims(), most):
            copy = get(block)
            if copy is None or copy.pins or not copy.ranked:
                continue
            if doomed and any(block in lower for lower in doomed):
                continue  # until the copy down there is gone this may be the only good one
            copy.ranked = False
            size = copy.nbytes
            victims.append(block)
            sizes.append(size)
            short -= size
            if short <= 0:
                break
        room.evictable_bytes -= sum(sizes)
        for block in victims:
            order.remove(block)
        return victims, sizes

    def keep_ahead(self, room: Room) -> None:
        """Make room before it is asked for, so that the next one need not wait."""
        ahead = self._ahead_bytes[room.name]
        if room.capacity_bytes - room.used_bytes < ahead == self._ahead(room, ahead):
            self.make_room(room, ahead)

    def _ahead(self, room: Room, short: int) -> int:
        """What to evict beyond `short`: nothing for which the tier below might have no room."""
        ahead = self._ahead_bytes[room.name]
        if not ahead:
            return 0
        lower = self._rooms[self._below[room.name][0]]
        return ahead if short + ahead <= lower.capacity_bytes - lower.pinned_bytes else 0

    def _destinations(
        self, victims: list[int], nbytes: int, targets: Sequence[str | None], room: Room
    ) -> dict[str, list[int]]:
        """The victims by the tier they move to, or by the cause of their drop."""
        below, copies = self._below[room.name], room.copies
        fate: dict[str, list[int]] = {}
        first = targets[0]
        if first is None and targets.count(None) == len(targets):
            return {"evict": victims}
        if first in below and targets.count(first) == len(targets):
            # The common case at once: all go to one tier, and those not there already fit.
            lower = self._rooms[first]
            if nbytes <= lower.capacity_bytes - lower.pinned_bytes:
                absent = [block for block in victims if block not in lower.copies]
                if absent:
                    fate[first] = absent
                if len(absent) == len(victims):
                    return fate
                victims = [block for block in victims if block in lower.copies]
        promised = dict.fromkeys(below, 0)
        for block, wanted in zip(victims, targets, strict=False):
            size = copies[block].nbytes
            target = self._destination(block, size, wanted, below, promised)
            if target in promised:
                promised[target] += size
            fate.setdefault(target, []).append(block)
        return fate

    def _destination(
        self,
        block: int,
        nbytes: int,
        wanted: str | None,
        below: list[str],
        promised: dict[str, int],
    ) -> str:
        """The tier one victim moves to, or the cause of its drop."""
        if wanted is None:
            return "evict"
        if wanted not in below:
            if wanted not in self._rooms:
                raise UnknownName("tier in an answer of demote():", str(wanted), below)
            return "evict"  # a tier that is no lower one
        for name in below[below.index(wanted) :]:
            lower = self._rooms[name]
            there = lower.copies.get(block)
            if there is None:
                if promised[name] + nbytes <= lower.capacity_bytes - lower.pinned_bytes:
                    return name
            elif there.state is not ARRIVING or there.moving >= 0:
                return "clean"
            # else a lease down there has yet to write it, and may never do so
        return "no_room"

    def write_through(self, blocks: Sequence[int], source: str, target: str) -> None:
        """Copy what was just written to a lower tier too, when that tier can take it."""
        if target not in self._below[source]:
            if target not in self._rooms:
                raise UnknownName("tier in an answer of admit():", str(target), self._rooms)
            return
        room, lower = self._rooms[source], self._rooms[target]
        fresh = [block for block in blocks if block not in lower.copies]
        nbytes = sum(room.copies[block].nbytes for block in fresh)
        if not fresh or nbytes > lower.capacity_bytes - lower.pinned_bytes:
            return
        for block in fresh:
            room.pin(room.copies[block])
        self._queue(Transfer(next(self._books.ids), "write", fresh, nbytes, (source, target)))

    def _queue(self, transfer: Transfer) -> None:
        if transfer.cause == "demote":
            self._rooms[transfer.source].leave(transfer.blocks, transfer.id)
        self._books.transfers[transfer.id] = transfer
        self._books.inbound[transfer.target].append(transfer)
        self._books.dirty.add(transfer.target)

    def admit_inbound(self, room: Room) -> bool:
        """Start the transfers that wait for room here, in order; true when none is left."""
        waiting = self._books.inbound[room.name]
        while waiting:
            transfer = waiting[0]
            if not room.copies.keys().isdisjoint(transfer.blocks):
                for block in [block for block in transfer.blocks if block in room.copies]:
                    self._not_needed(transfer, block)  # it came here by another way meanwhile
            if transfer.nbytes > room.free_bytes:
                self.make_room(room, transfer.nbytes)
                if transfer.nbytes > room.free_bytes:
                    return False
            waiting.popleft()
            if not transfer.blocks:
                del self._books.transfers[transfer.id]
                continue
            source = self._rooms[transfer.source].copies
            sizes = [source[block].nbytes for block in transfer.blocks]
            room.add(transfer.blocks, sizes, moving=transfer.id)
            self._books.out.append(
                Move(
                    transfer.id,
                    tuple(transfer.blocks),
                    transfer.source,
                    transfer.target,
                    transfer.nbytes,
                    transfer.cause,
                )
            )
        return True

    def call_back(self, room: Room, block: int, copy: Copy) -> bool:
        """Keep a LEAVING copy whose demotion still waits; false when it is under way already."""
        transfer = self._books.transfers[copy.moving]
        if transfer not in self._books.inbound[transfer.target]:
            return False
        transfer.blocks.remove(block)
        transfer.nbytes -= copy.nbytes
        room.stay(copy)
        self._books.dirty.add(transfer.target)
        return True

    def doom(self, room: Room, blocks: Iterable[int], cause: str) -> None:
        """Drop these copies now, or as soon as nothing pins them and nothing moves them."""
        gone = []
        for block in dict.fromkeys(blocks):
            copy = room.copies.get(block)
            if copy is None:
                continue
            if copy.state is LEAVING:
                self.call_back(room, block, copy)
            if copy.state is READY and not copy.pins:
                gone.append(block)
            elif cause == "stale" or block not in room.doomed:
                room.doomed[block] = cause
        if gone:
            self._books.drop(room, gone, cause)

    def cancel_inbound(self, room: Room) -> list[Transfer]:
        """Give up every transfer that waits for room here; what was to move stays."""
        cancelled = list(self._books.inbound[room.name])
        self._books.inbound[room.name].clear()
        for transfer in cancelled:
            del self._books.transfers[transfer.id]
            for block in transfer.blocks:
                self._stay(transfer, block)
        return cancelled

    def _not_needed(self, transfer: Transfer, block: int) -> None:
        transfer.blocks.remove(block)
        transfer.nbytes -= self._rooms[transfer.source].copies[block].nbytes
        self._stay(transfer, block)
        self._books.dirty.add(transfer.source)

    def _stay(self, transfer: Transfer, block: int) -> None:
        """The source copy of a transfer that never started is as it was before."""
        room = self._rooms[transfer.source]
        copy = room.copies[block]
        if transfer.cause == "demote":
            room.stay(copy)
            self._books.rank(room, block, copy)
        else:
            room.unpin(copy)
        if not copy.pins:
            self._books.unpinned(room, block, copy)
