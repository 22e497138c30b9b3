"""Which blocks a segment of a former process holds.

What was marked in this boot of the machine is believed, header by header. After another boot, or
where the marks are damaged, every slot is read whole, and believed if its checksums say so.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tiermem.runtime.file import slot as layout
from tiermem.runtime.file.cuts import cut
from tiermem.runtime.file.pieces import parcel
from tiermem.runtime.file.scratch import Scratch
from tiermem.runtime.file.segment import Segment, Slot
from tiermem.runtime.io.seam import FileIO, Piece
from tiermem.runtime.sizes import GRANULE_BYTES
from tiermem.runtime.stores import Buffer, Fault, FaultKind

_WINDOW = 1024  # headers that are read at once
_WINDOW_BYTES = 64 << 20  # of blocks that are read at once


class Reader(NamedTuple):
    """With what to read."""

    io: FileIO
    scratch: Scratch
    store: bytes
    deadline_s: float


class Contents:
    """The blocks of one segment: `slots`, all marked, and what is wrong with the others."""

    def __init__(self, reader: Reader, segment: Segment, *, read_only: bool) -> None:
        """Raises OSError if the marks can be neither read nor written."""
        self.slots: list[Slot] = []
        self.faults: list[Fault] = []
        self.lost = 0  # blocks beyond the end of the file
        self._reader = reader
        self._segment = segment
        head, size = segment.head, os.fstat(segment.file.fd).st_size
        ready = max(0, min(head.slots, (size - head.start) // head.slot_bytes))
        believed = segment.marks.load()
        wanted = segment.marks.numbers() if believed else list(range(ready))
        self.lost = sum(number >= ready for number in wanted)
        for window in _windows([number for number in wanted if number < ready]):
            found = self._headers(window, believed)
            self.slots += found if believed else self._whole(found)
        numbers = {slot.number for slot in self.slots}
        segment.populate(ready, numbers)
        for slot in self.slots:
            slot.marked = not read_only  # and then nothing will clear it
        if not read_only:
            if not believed or len(numbers) < len(wanted):
                segment.marks.reset(numbers)
            if size > segment.file_bytes:
                os.ftruncate(segment.file.fd, segment.file_bytes)

    def _headers(self, numbers: Sequence[int], believed: bool) -> list[Slot]:
        """Slots whose header is whole and belongs there."""
        segment, reader = self._segment, self._reader
        size = layout.header_bytes_of(segment.head.slot_bytes)
        small = size == GRANULE_BYTES
        pages = [reader.scratch.page() if small else reader.scratch.piece() for _ in numbers]
        pieces = [
            Piece(segment.file, segment.offset(number), (page[:size],), False)
            for number, page in zip(numbers, pages, strict=True)
        ]
        answers = reader.io.transfer(pieces, reader.deadline_s)
        slots = []
        for number, page, fault in zip(numbers, pages, answers, strict=True):
            slot = fault or self._slot(number, page[:size].tobytes())
            if isinstance(slot, Slot):
                slots.append(slot)
            elif slot is not None and (believed or fault is not None):
                self.faults.append(slot)
        if not reader.io.holds(pages):
            reader.scratch.give(pages)
        return slots

    def _slot(self, number: int, page: bytes) -> Slot | Fault | None:
        """The block of this slot; None where it was let go before the last kill."""
        header, head = layout.parse(page), self._segment.head
        where = f"slot {number} of {self._segment.file.path.name}"
        if isinstance(header, str):
            return Fault(FaultKind.HEADER, f"{where}: {header}")
        place = (header.store, header.slot_bytes, header.number)
        if place != (self._reader.store, head.slot_bytes, number):
            return Fault(FaultKind.HEADER, f"{where}: a header of another slot")
        if header.sequence <= head.floor or not header.keep:
            return None
        return Slot(self._segment, number, header.key, header.nbytes, header.sequence, header.keep)

    def _whole(self, slots: Sequence[Slot]) -> Iterator[Slot]:
        """Those of `slots` whose every byte is the one that was written."""
        if not slots:
            return
        size = layout.padded_bytes(max(slot.nbytes for slot in slots)) or GRANULE_BYTES
        count = min(len(slots), max(1, _WINDOW_BYTES // size))
        memory = self._reader.io.aligned(count * size)
        rooms = [memory[at : at + size] for at in range(0, count * size, size)]
        for at in range(0, len(slots), count):
            yield from self._verified(slots[at : at + count], rooms)

    def _verified(self, slots: Sequence[Slot], rooms: Sequence[Buffer]) -> Iterator[Slot]:
        reader = self._reader
        parcels = [
            parcel(slot, cut([room], slot.nbytes), reader.scratch)
            for slot, room in zip(slots, rooms, strict=False)
        ]
        pieces: list[Piece] = []
        for each in parcels:
            each.add_to(pieces, False)
        answers = iter(reader.io.transfer(pieces, reader.deadline_s))
        for each in parcels:
            faults = [next(answers) for _ in range(each.count)]
            fault = next(filter(None, faults), None) or each.verdict()
            if not reader.io.holds(each.scratch()):
                reader.scratch.give(each.scratch())
            if fault is None:
                yield each.slot
            else:
                self.faults.append(fault)


def _windows(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    for at in range(0, len(numbers), _WINDOW):
        yield numbers[at : at + _WINDOW]
