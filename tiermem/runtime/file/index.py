"""Which slot holds which key, and what becomes of a slot that no longer does.

A block's life: WRITING, FRESH (served), DURABLE (after the next sync; its mark is set). A newer
block of the same key does not push a durable one out before it is durable itself, or a kill in
between would leave neither. Everything here is called under the store's lock, and takes no time
but that of a few bytes to the page cache.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable

from tiermem.runtime.file.segment import Segment, Slot, State


class Index:
    """Keys and their slots, least recently written first."""

    def __init__(self, release: Callable[[Slot], None], marking_failed: Callable[[OSError], None]):
        self.slots: dict[bytes, Slot] = {}
        self.fresh: dict[Slot, None] = {}  # to be made durable by the next sync
        self.newest = 0  # sequence that was given out or found
        self.floor = 0  # the last sequence that a clear took along
        self._release = release
        self._marking_failed = marking_failed

    def stamp(self) -> int:
        """A sequence above all others. It follows the clock, so that of two processes that wrote
        the same key the later one wins."""
        self.newest = max(self.newest + 1, time.time_ns())
        return self.newest

    def commit(self, slot: Slot) -> None:
        """The block is written. A clear, or a newer write of its key, may have come before it."""
        before = self.slots.get(slot.key)
        if slot.sequence <= self.floor or (before and before.sequence > slot.sequence):
            self._gone([slot])
            return
        if before is not None:
            del self.slots[slot.key]
            self._succeed(before, slot)
        slot.state = State.FRESH
        self.slots[slot.key] = slot
        if slot.keep:
            self.fresh[slot] = None

    def _succeed(self, before: Slot, slot: Slot) -> None:
        if before.state is State.DURABLE and slot.keep:
            slot.older = before
            return
        if slot.keep:
            slot.older, before.older = before.older, None
        self._gone([before])

    def adopt(self, slot: Slot) -> None:
        """A block that was found at open, in order of sequence; it was durable then."""
        before = self.slots.pop(slot.key, None)
        self.newest = max(self.newest, slot.sequence)
        slot.state = State.DURABLE
        self.slots[slot.key] = slot
        if before is not None:
            self._gone([before])

    def settle(self, slots: Iterable[Slot]) -> list[Slot]:
        """These are durable now, unless they went meanwhile: set their marks, and let what they
        replace go. Those whose mark is set are returned."""
        done, older = [], []
        for group in _by_segment(slot for slot in slots if slot in self.fresh):
            try:
                group[0].segment.marks.put([slot.number for slot in group], True)
            except OSError as error:
                self._marking_failed(error)
                self.drop([slot.key for slot in group])
                continue
            for slot in group:
                del self.fresh[slot]
                slot.marked, slot.state = True, State.DURABLE
                if slot.older is not None:
                    older.append(slot.older)
                    slot.older = None
            done += group
        self._gone(older)
        return done

    def drop(self, keys: Iterable[bytes]) -> int:
        """Forget the blocks of `keys`; how many there were."""
        found = [slot for slot in (self.slots.pop(key, None) for key in keys) if slot is not None]
        self._gone(found)
        return len(found)

    def drop_slot(self, slot: Slot) -> int:
        """Forget this very block, unless its key was written again meanwhile."""
        return self.drop((slot.key,)) if self.slots.get(slot.key) is slot else 0

    def drop_segments(self, segments: Container[Segment]) -> list[Slot]:
        """Forget every block that lies in one of these."""
        found = [slot for slot in self.slots.values() if slot.segment in segments]
        self.drop([slot.key for slot in found])
        return found

    def clear(self, floor: int) -> None:
        """Forget every block, and those that are being written with a sequence up to `floor`.
        Their marks are left to whoever calls."""
        self.floor = floor
        for slot in self.slots.values():
            slot.marked = False
            if slot.older is not None:
                slot.older.marked = False
        self.drop(list(self.slots))

    def fail(self, slot: Slot) -> None:
        """A block that could not be written."""
        self._gone([slot])

    def unread(self, slot: Slot) -> None:
        """One reader less."""
        slot.readers -= 1
        if slot.state is State.GONE and not slot.readers:
            self._release(slot)

    def _gone(self, slots: list[Slot]) -> None:
        """Not served any more, not even after a kill; free once nobody reads them."""
        slots = slots + [slot.older for slot in slots if slot.older is not None]
        for group in _by_segment(slot for slot in slots if slot.marked):
            try:
                group[0].segment.marks.put([slot.number for slot in group], False)
            except OSError as error:
                self._marking_failed(error)
                for slot in group:
                    slot.readers += 1  # never free: what is written there could be taken for it
        for slot in slots:
            self.fresh.pop(slot, None)
            slot.state, slot.marked, slot.older = State.GONE, False, None
            if not slot.readers:
                self._release(slot)


def _by_segment(slots: Iterable[Slot]) -> Iterable[list[Slot]]:
    """Slots of one segment together: their marks take one write."""
    groups: dict[Segment, list[Slot]] = {}
    for slot in slots:
        groups.setdefault(slot.segment, []).append(slot)
    return groups.values()
