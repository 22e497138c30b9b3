"""How fast a path is in a directory, by the size of a block, and how fast memory is beside it.

Writes go over space that was written before and count until they are durable. Reads count as the
device's only where the page cache had none of the file before: what it had is called that.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tiermem.errors import TierUnavailable
from tiermem.runtime.io import pagecache
from tiermem.runtime.io.seam import PIECE_BYTES, FileIO, OpenFile, Piece
from tiermem.runtime.stores import Buffer, Fault

SIZES = (64 << 10, 2 << 20, 32 << 20)
FILE_BYTES, FILE_BYTES_LEAST = 256 << 20, 64 << 20
BATCH_BYTES = 64 << 20  # in flight at once
_EACH_S = 1.0  # at least one batch, then as many as this allows
_PREPARE_S = 3.0
_DEADLINE_S = 60.0


class Speed(NamedTuple):
    """One size of block, over one path."""

    size_bytes: int
    write_bytes_per_s: float
    read_bytes_per_s: float
    resident_share: float  # of what was read, in the page cache beforehand: 0 is a cold read

    @property
    def cold(self) -> bool:
        """Whether the reads came from the device."""
        return self.resident_share < 0.05


def measure(io: FileIO, directory: Path, *, file_bytes: int = FILE_BYTES) -> list[Speed]:
    """Each of `SIZES` in turn, in one file that is gone afterwards; about ten seconds at most."""
    path = directory / f".tiermem-speed-{os.getpid()}-{os.urandom(4).hex()}"
    opened = io.open(path, create=True)
    try:
        path.unlink()  # gone whatever happens; it lives as long as it is open
        written = _prepare(io, opened, file_bytes)
        return [_speed(io, opened, size, written) for size in SIZES]
    finally:
        opened.close()
        with contextlib.suppress(OSError):
            path.unlink()


def copy_bytes_per_s(nbytes: int = 256 << 20) -> float:
    """How fast one thread copies memory that is there already: the ceiling of a host tier."""
    source, target = np.ones(nbytes, dtype=np.uint8), np.zeros(nbytes, dtype=np.uint8)
    best = 0.0
    for _ in range(5):
        start = time.perf_counter()
        np.copyto(target, source)
        best = max(best, nbytes / (time.perf_counter() - start))
    return best


def _prepare(io: FileIO, opened: OpenFile, file_bytes: int) -> int:
    """Write the file once, as far as the time allows; its bytes, whole batches."""
    source = _filled(io, min(BATCH_BYTES, file_bytes))
    start = time.perf_counter()
    written = 0
    while written < file_bytes and time.perf_counter() - start < _PREPARE_S:
        _all_good(io.transfer(_pieces(opened, source, written, PIECE_BYTES, True), _DEADLINE_S))
        written += len(source)
    os.fsync(opened.fd)
    return written


def _speed(io: FileIO, opened: OpenFile, size: int, written: int) -> Speed:
    batch = min(BATCH_BYTES, written) // _stride(size)
    source, target = _filled(io, batch), io.aligned(batch)
    write = _rate(io, opened, source, size, written, write=True)
    pagecache.drop(opened.fd)
    resident = pagecache.resident_share(opened.fd, 0, written)
    read = _rate(io, opened, target, size, written, write=False)
    if not np.array_equal(source, target):
        raise TierUnavailable(f"{opened.path.parent}: {io.path} read other bytes than were written")
    return Speed(size, write, read, resident)


def _rate(
    io: FileIO, opened: OpenFile, memory: Buffer, size: int, written: int, *, write: bool
) -> float:
    """Bytes a second, batch after batch through the file until its end or the end of the time."""
    offset = moved = 0
    seconds = 0.0
    while offset < written and seconds < _EACH_S:
        start = time.perf_counter()
        _all_good(io.transfer(_pieces(opened, memory, offset, size, write), _DEADLINE_S))
        if write:
            os.fdatasync(opened.fd)
        seconds += time.perf_counter() - start
        moved += len(memory)
        offset += len(memory) * _stride(size)
    return moved / seconds


def _stride(size: int) -> int:
    """Small blocks are asked for with gaps between them: next to each other they would be one."""
    return 2 if size < PIECE_BYTES else 1


def _filled(io: FileIO, nbytes: int) -> Buffer:
    memory = io.aligned(nbytes)
    memory[:] = np.resize(np.frombuffer(os.urandom(1 << 20), dtype=np.uint8), nbytes)
    return memory


def _pieces(opened: OpenFile, memory: Buffer, offset: int, size: int, write: bool) -> list[Piece]:
    """Blocks of `size` that fill `memory`, from `offset` on, each cut into pieces."""
    step, stride = min(size, PIECE_BYTES), _stride(size)
    return [
        Piece(opened, offset + start * stride, (memory[start : start + step],), write)
        for start in range(0, len(memory), step)
    ]


def _all_good(faults: list[Fault | None]) -> None:
    for fault in faults:
        if fault is not None:
            raise TierUnavailable(fault.detail)
