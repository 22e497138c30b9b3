"""One window of blocks to or from their slots: claimed or found under the lock, moved outside of
it, committed or let go under it again."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

from tiermem.runtime.file import slot as layout
from tiermem.runtime.file.cuts import Block
from tiermem.runtime.file.index import Index
from tiermem.runtime.file.pieces import Parcel, Whole, parcel
from tiermem.runtime.file.report import Tally
from tiermem.runtime.file.room import Room
from tiermem.runtime.file.scratch import Scratch
from tiermem.runtime.file.segment import Slot
from tiermem.runtime.io.seam import FileIO, Piece
from tiermem.runtime.stores import Buffer, Fault, FaultKind
from tiermem.units import NS_PER_S

Answer = Fault | None
_MISSING = Fault(FaultKind.MISSING, "no such block")


class Shop(NamedTuple):
    """What all transfers of a store share."""

    io: FileIO
    room: Room
    blocks: Index
    scratch: Scratch
    tally: Tally


class Transfers:
    """Writes and reads of whole windows."""

    def __init__(self, shop: Shop, lock: threading.Lock) -> None:
        self._shop = shop
        self._lock = lock
        self._late: list[tuple[Slot, list[Buffer]]] = []  # writes that hang

    def write(self, window: Sequence[Block], keep: bool, deadline_s: float) -> list[Answer]:
        """Write each block of `window`."""
        index = self._shop.blocks
        claimed = self._claim(window, keep, deadline_s)
        parcels = self._parcels(claimed, window)
        faults = self._move(parcels, True, deadline_s)
        moved = iter(zip(parcels, faults, strict=True))
        answers: list[Answer] = []
        with self._lock:
            for slot in claimed:
                if not isinstance(slot, Slot):
                    answers.append(slot)
                    continue
                parcel, fault = next(moved)
                answers.append(fault)
                if fault is None:
                    index.commit(slot)
                elif not self._hangs(parcel, fault):
                    index.fail(slot)
        return answers

    def read(self, window: Sequence[Block], deadline_s: float) -> list[Answer]:
        """Read each block of `window`; what cannot be read is dropped."""
        index = self._shop.blocks
        found: list[Slot | Fault] = []
        with self._lock:
            for key, nbytes, _ in window:
                slot = index.slots.get(key)
                if slot is None:
                    found.append(_MISSING)
                elif slot.nbytes != nbytes:
                    detail = f"the block has {slot.nbytes:,} bytes, and not {nbytes:,}"
                    found.append(Fault(FaultKind.MISSING, detail))
                else:
                    slot.readers += 1
                    found.append(slot)
        parcels = self._parcels(found, window)
        faults = self._move(parcels, False, deadline_s)
        dropped = 0
        with self._lock:
            for parcel, fault in zip(parcels, faults, strict=True):
                if fault is not None and fault.kind is not FaultKind.CLOSED:
                    dropped += index.drop_slot(parcel.slot)
                index.unread(parcel.slot)
        if dropped:
            self._shop.tally.fault((), dropped)
        moved = iter(faults)
        return [next(moved) if isinstance(slot, Slot) else slot for slot in found]

    def _parcels(
        self, slots: Sequence[Slot | Fault], window: Sequence[Block]
    ) -> list[Whole | Parcel]:
        scratch = self._shop.scratch
        return [
            parcel(slot, block.shape, scratch)
            for slot, block in zip(slots, window, strict=True)
            if isinstance(slot, Slot)
        ]

    def _claim(self, window: Sequence[Block], keep: bool, deadline_s: float) -> list[Slot | Fault]:
        """A slot for each block, or why there is none."""
        shop = self._shop
        claimed: list[Slot | Fault] = []
        while len(claimed) < len(window):
            size = 0
            with self._lock:
                self._sweep()
                for key, nbytes, _ in window[len(claimed) :]:
                    size = layout.slot_bytes(nbytes)
                    place = shop.room.take(size)
                    if place is None:
                        break
                    stamp = shop.blocks.stamp()
                    claimed.append(Slot(*place, key, nbytes, stamp, keep))
                else:
                    break
            rest = window[len(claimed) :]
            wanted = sum(layout.slot_bytes(block.nbytes) == size for block in rest)
            fault = shop.room.grow(size, wanted, deadline_s)
            if fault is not None:
                claimed.append(fault)
        return claimed

    def _move(
        self, parcels: Sequence[Whole | Parcel], write: bool, deadline_s: float
    ) -> list[Answer]:
        """All pieces of all parcels in one batch; what a read brought is verified."""
        if not parcels:
            return []
        shop = self._shop
        pieces: list[Piece] = []
        for each in parcels:
            each.add_to(pieces, write)
        answers = shop.io.transfer(pieces, deadline_s)
        faults: list[Answer] = []
        at = 0
        for each in parcels:
            end = at + each.count
            fault = answers[at] if end == at + 1 else next(filter(None, answers[at:end]), None)
            at = end
            if fault is None and not write:
                fault = each.verdict()
            faults.append(fault)
        self._give_back(parcels, any(map(_is_late, faults)))
        return faults

    def _give_back(self, parcels: Sequence[Whole | Parcel], late: bool) -> None:
        """Scratch memory, unless a transfer that hangs may still come to it."""
        shop = self._shop
        pages: list[Buffer] = []
        for each in parcels:
            if not (late and shop.io.holds(each.scratch())):
                pages += each.scratch()
        shop.scratch.give(pages)
        staged = [each for each in parcels if each.staged_bytes]
        if staged:
            nbytes = sum(each.staged_bytes for each in staged)
            seconds = sum(each.staging_ns for each in staged) / NS_PER_S
            shop.tally.flow("staged", len(staged), nbytes, seconds)

    def _hangs(self, parcel: Whole | Parcel, fault: Fault) -> bool:
        """Whether a write may still come to the slot; then it is free only once it cannot."""
        if not _is_late(fault):
            return False
        pieces: list[Piece] = []
        parcel.add_to(pieces, True)
        buffers = [buffer for piece in pieces for buffer in piece.buffers]
        hangs = self._shop.io.holds(buffers)
        if hangs:
            self._late.append((parcel.slot, buffers))
        return hangs

    def _sweep(self) -> None:
        """Free the slots of writes that hung and do not any more."""
        if not self._late:
            return
        late, self._late = self._late, []
        for slot, buffers in late:
            if self._shop.io.holds(buffers):
                self._late.append((slot, buffers))
            else:
                self._shop.blocks.fail(slot)


def _is_late(fault: Answer) -> bool:
    return fault is not None and fault.kind is FaultKind.TIMEOUT
