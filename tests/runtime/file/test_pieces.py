"""Blocks as pieces: right offsets, right bytes, and a verdict on what was read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tiermem.runtime.file import slot as layout
from tiermem.runtime.file.builder import Builder
from tiermem.runtime.file.cuts import cut
from tiermem.runtime.file.pieces import Parcel, Whole, parcel
from tiermem.runtime.file.scratch import Scratch
from tiermem.runtime.file.segment import Segment, Slot
from tiermem.runtime.io.seam import ALIGN_BYTES, PIECE_BYTES, FileIO, Piece, aligned
from tiermem.runtime.stores import Buffer, FaultKind
from tiermem.testing.keyed_stores import content

SIZES = (0, 1, 4095, 4096, 4097, 65536, 3_000_001)


class Bench:
    """Segments to write to and read from, one for each size."""

    def __init__(self, builder: Builder, io: FileIO) -> None:
        self.io = io
        self.scratch = Scratch(aligned)
        self.segments: dict[int, Segment] = {}
        self._builder = builder

    def slot(self, nbytes: int, sequence: int = 9) -> Slot:
        if nbytes not in self.segments:
            segment = self._builder.create(layout.slot_bytes(nbytes), 4)
            assert self._builder.prepare(segment, 4, 10.0) is None
            self.segments[nbytes] = segment
        return Slot(self.segments[nbytes], 2, b"k" * 16, nbytes, sequence, True)

    def move(self, slot: Slot, buffers: list[Buffer], write: bool) -> Whole | Parcel:
        made = parcel(slot, cut(buffers, slot.nbytes), self.scratch)
        pieces: list[Piece] = []
        made.add_to(pieces, write)
        assert len(pieces) == made.count
        for piece in pieces:
            assert piece.nbytes <= PIECE_BYTES
            assert piece.offset % ALIGN_BYTES == 0
            for buffer in piece.buffers:
                assert buffer.ctypes.data % ALIGN_BYTES == len(buffer) % ALIGN_BYTES == 0
        self.answers = self.io.transfer(pieces, 10.0)
        return made


@pytest.fixture
def bench(builder: Builder, io: FileIO) -> Iterator[Bench]:
    """See `Bench`."""
    made = Bench(builder, io)
    yield made
    for segment in made.segments.values():
        segment.close()


def lying(nbytes: int, shift: int) -> Buffer:
    """Room for `nbytes`, `shift` bytes after a page's beginning."""
    return aligned(nbytes + shift + 1)[shift : shift + nbytes]


@pytest.mark.parametrize("nbytes", SIZES)
@pytest.mark.parametrize("shift", [0, 1])
def test_bytes_go_out_and_come_back(bench: Bench, nbytes: int, shift: int) -> None:
    """Of every size, aligned or not; and the slot on disk is exactly header, block, zeros."""
    source = lying(nbytes, shift)
    source[:] = content(nbytes, nbytes)
    slot = bench.slot(nbytes)
    bench.move(slot, [source], True)
    assert not any(bench.answers)
    raw = slot.segment.file.path.read_bytes()[slot.segment.offset(2) :]
    assert layout.parse(raw[: layout.header_bytes(nbytes)]) == slot.header()
    body = raw[layout.header_bytes(nbytes) :]
    assert body[:nbytes] == source.tobytes()
    assert not any(body[nbytes : layout.padded_bytes(nbytes)])
    target = lying(nbytes, 1 - shift)
    made = bench.move(slot, [target], False)
    assert not any(bench.answers)
    assert made.verdict() is None
    assert np.array_equal(target, source)


@pytest.mark.parametrize("nbytes", [0, 100, 65536, 3_000_001])
def test_another_block_in_the_slot_is_a_fault(bench: Bench, nbytes: int) -> None:
    """The header that the index implies is not the one that is there."""
    room = lying(nbytes, 0)
    bench.move(bench.slot(nbytes, sequence=8), [room], True)
    made = bench.move(bench.slot(nbytes, sequence=9), [room], False)
    fault = next(filter(None, bench.answers), None) or made.verdict()
    assert fault is not None
    assert fault.kind is FaultKind.HEADER
    assert "another block" in fault.detail


def test_wrong_bytes_are_a_fault(bench: Bench) -> None:
    """The header is right, a byte of the block is not."""
    room = lying(65536, 0)
    slot = bench.slot(65536)
    bench.move(slot, [room], True)
    with slot.segment.file.path.open("rb+") as file:
        file.seek(slot.segment.offset(2) + 4096 + 100)
        file.write(b"\x01")
    bench.move(slot, [room], False)
    assert bench.answers[0] is not None
    assert bench.answers[0].kind is FaultKind.CHECKSUM


def test_staging_is_timed(bench: Bench) -> None:
    """Copies are counted where there are any."""
    made = bench.move(bench.slot(65536), [lying(65536, 1)], True)
    assert made.staged_bytes == 65536
    assert made.staging_ns > 0
    assert bench.move(bench.slot(65536), [lying(65536, 0)], True).staged_bytes == 0
