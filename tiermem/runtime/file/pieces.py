"""Blocks as pieces for the I/O path, and what its threads check on the way.

Checksums are made and verified in those threads, beside the transfers. The first unit of a block
carries the header in the same vectored write; its thread sums the whole block, which is quicker
than the device by far, so that nobody waits for the sums of the others.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import xxhash

from tiermem.runtime.file import slot as layout
from tiermem.runtime.file.cuts import Cut, Shape, Unit
from tiermem.runtime.file.scratch import Scratch
from tiermem.runtime.file.segment import Slot
from tiermem.runtime.io.seam import Piece
from tiermem.runtime.sizes import GRANULE_BYTES
from tiermem.runtime.stores import Buffer, Fault, FaultKind

_ZEROS = bytes(GRANULE_BYTES)
_Copies: TypeAlias = Sequence[tuple[Buffer, Sequence[Buffer]]]
"""Scratch memory, and the caller's bytes that belong at its beginning."""


class Whole:
    """A block that is one piece, where it lies. Small blocks are, so this is kept short."""

    __slots__ = ("buffer", "page", "slot")
    count = 1  # pieces
    staged_bytes = staging_ns = 0

    def __init__(self, slot: Slot, buffer: Buffer, page: Buffer) -> None:
        self.slot = slot
        self.buffer = buffer
        self.page = page

    def add_to(self, pieces: list[Piece], write: bool) -> None:
        """Put the block's piece to `pieces`."""
        slot = self.slot
        segment, buffers = slot.segment, (self.page, self.buffer)
        check = self._seal if write else self._verify
        pieces.append(Piece(segment.file, segment.offset(slot.number), buffers, write, check))

    def verdict(self) -> Fault | None:
        """None: the I/O thread has given it."""

    def scratch(self) -> Sequence[Buffer]:
        """Memory to give back."""
        return (self.page,)

    def _seal(self) -> None:
        sums = xxhash.xxh3_64_digest(self.buffer.data)
        self.page.data[:] = layout.pack(self.slot.header(), sums)

    def _verify(self) -> Fault | None:
        sums = xxhash.xxh3_64_digest(self.buffer.data)
        return compare(self.slot, self.page.tobytes(), sums)


class Parcel:
    """Any other block: its pieces, its header page(s), its scratch memory."""

    __slots__ = ("_page", "_scratch", "_sums", "count", "cut", "slot", "staging_ns")

    def __init__(self, slot: Slot, cut: Cut, scratch: Scratch) -> None:
        self.slot = slot
        self.cut = cut
        self.count = len(cut.units)
        self.staging_ns = 0
        size = layout.header_bytes(slot.nbytes)
        whole = scratch.page() if size == GRANULE_BYTES else scratch.piece()
        self._scratch = [whole]
        self._page = whole[:size]
        self._sums = [b""] * self.count
        for unit in cut.units:
            if not unit.straight:
                self._scratch.append(scratch.piece())
            elif unit.nbytes % GRANULE_BYTES:
                self._scratch.append(scratch.page())

    @property
    def staged_bytes(self) -> int:
        """Bytes that are copied."""
        return self.cut.staged_bytes

    def add_to(self, pieces: list[Piece], write: bool) -> None:
        """Put the block's pieces to `pieces`."""
        segment, size = self.slot.segment, layout.unit_bytes(self.slot.nbytes)
        at = segment.offset(self.slot.number)
        rooms = iter(self._scratch[1:])
        for index, unit in enumerate(self.cut.units):
            buffers, copies = _whole_pages(unit, rooms)
            check: _Send | _Take | None = None
            if not write:
                check = _Take(self, index, buffers, copies)
            elif copies or not index:
                check = _Send(self, index, copies)
            if index:
                offset = at + len(self._page) + index * size
                pieces.append(Piece(segment.file, offset, buffers, write, check))
            else:
                pieces.append(Piece(segment.file, at, (self._page, *buffers), write, check))

    def verdict(self) -> Fault | None:
        """After a good read of all pieces: whether these are the bytes that were written."""
        return compare(self.slot, self._page.tobytes(), b"".join(self._sums))

    def scratch(self) -> Sequence[Buffer]:
        """Memory to give back."""
        return self._scratch

    def seal(self) -> None:
        """Make the header, checksums of all units included."""
        sums = b"".join([_sum(unit.parts, unit.nbytes) for unit in self.cut.units])
        self._page.data[:] = layout.pack(self.slot.header(), sums)

    def summed(self, index: int, buffers: Sequence[Buffer]) -> None:
        """Take the checksum of one unit as it was read."""
        self._sums[index] = _sum(buffers, 0)


def parcel(slot: Slot, shape: Shape, scratch: Scratch) -> Whole | Parcel:
    """The block of `slot`, ready to be moved."""
    if isinstance(shape, Cut):
        return Parcel(slot, shape, scratch)
    return Whole(slot, shape, scratch.page())


def compare(slot: Slot, page: bytes, sums: bytes) -> Fault | None:
    """Whether `page` is the header of a block with these checksums; if not, what is wrong."""
    header = slot.header()
    if page == layout.pack(header, sums):
        return None
    where = f"slot {slot.number} of {slot.segment.file.path.name}"
    found = layout.parse(page)
    if found == header:
        return Fault(FaultKind.CHECKSUM, f"{where}: the bytes are not those that were written")
    what = found if isinstance(found, str) else "a header of another block"
    return Fault(FaultKind.HEADER, f"{where}: {what}")


def _whole_pages(unit: Unit, rooms: Iterator[Buffer]) -> tuple[tuple[Buffer, ...], _Copies]:
    """What to move for `unit`, in whole pages; and what to copy between it and the caller."""
    tail = unit.nbytes % GRANULE_BYTES
    if not unit.nbytes:
        return (), ()
    if not unit.straight:
        room = next(rooms)
        return (room[: layout.padded_bytes(unit.nbytes)],), ((room, unit.parts),)
    if not tail:
        return unit.parts, ()
    page = next(rooms)
    last = unit.parts[-1]
    body = last[: len(last) - tail]
    parts = (*unit.parts[:-1], body) if len(body) else unit.parts[:-1]
    return (*parts, page), ((page, (last[len(last) - tail :],)),)


class _Send:
    """Before a unit is written: stage what has to be, and seal the header with the first."""

    __slots__ = ("copies", "index", "parcel")

    def __init__(self, parcel: Parcel, index: int, copies: _Copies) -> None:
        self.parcel = parcel
        self.index = index
        self.copies = copies

    def __call__(self) -> None:
        if self.copies:
            started = time.perf_counter_ns()
            for room, parts in self.copies:
                at = 0
                for part in parts:
                    room[at : at + len(part)] = part
                    at += len(part)
                room[at : layout.padded_bytes(at)] = 0
            self.parcel.staging_ns += time.perf_counter_ns() - started
        if not self.index:
            self.parcel.seal()


class _Take:
    """After a unit was read: sum it, and hand out what was staged."""

    __slots__ = ("buffers", "copies", "index", "parcel")

    def __init__(
        self, parcel: Parcel, index: int, buffers: tuple[Buffer, ...], copies: _Copies
    ) -> None:
        self.parcel = parcel
        self.index = index
        self.buffers = buffers
        self.copies = copies

    def __call__(self) -> None:
        self.parcel.summed(self.index, self.buffers)
        if self.copies:
            started = time.perf_counter_ns()
            for room, parts in self.copies:
                at = 0
                for part in parts:
                    part[:] = room[at : at + len(part)]
                    at += len(part)
            self.parcel.staging_ns += time.perf_counter_ns() - started


def _sum(parts: Sequence[Buffer], nbytes: int) -> bytes:
    """Checksum of `parts` and the zeros that fill up the last page of `nbytes`."""
    zeros = -nbytes % GRANULE_BYTES
    if len(parts) == 1 and not zeros:
        return bytes(xxhash.xxh3_64_digest(parts[0].data))
    state = xxhash.xxh3_64()
    for part in parts:
        state.update(part.data)
    state.update(_ZEROS[:zeros])
    return bytes(state.digest())
