"""Plain system calls: preadv and pwritev from a few threads, with O_DIRECT or buffered.

It needs nothing but a kernel, so it is what remains where every other path refuses.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tiermem.runtime.io import seam
from tiermem.runtime.io.pool import THREADS, Answer, Pool
from tiermem.runtime.io.seam import IoPath, OpenFile, Piece
from tiermem.runtime.stores import Buffer, Fault


class PosixIO:
    """See `FileIO`. `direct` past the page cache, which not every file system allows."""

    def __init__(self, *, direct: bool = True, threads: int = THREADS) -> None:
        self.path = IoPath.POSIX_DIRECT if direct else IoPath.POSIX_BUFFERED
        self.pool = Pool(self.path, move, threads)

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> OpenFile:
        """Open a file, or raise OSError: EINVAL where O_DIRECT is refused."""
        direct = self.path is IoPath.POSIX_DIRECT
        return seam.open_file(path, create=create, read_only=read_only, direct=direct)

    def transfer(self, pieces: Sequence[Piece], deadline_s: float) -> list[Answer]:
        """See `FileIO.transfer`."""
        return self.pool.transfer(pieces, deadline_s)

    def holds(self, buffers: Sequence[Buffer]) -> bool:
        """See `FileIO.holds`."""
        return self.pool.holds(buffers)

    def aligned(self, nbytes: int) -> Buffer:
        """Whole pages."""
        return seam.aligned(nbytes)

    def close(self) -> None:
        """End the threads."""
        self.pool.close()


def move(run: Sequence[Piece]) -> list[Answer]:
    """Transfer neighbouring pieces with one call. When that did not do all of them, each is tried
    alone, so that those that can be done are, and each of the others says what it met."""
    buffers = [buffer for piece in run for buffer in piece.buffers]
    wanted = sum(map(len, buffers))
    try:
        if _call(run[0], buffers) == wanted:
            return [None] * len(run)
    except OSError as error:
        if len(run) == 1:
            return [seam.fault_of(error, run[0].file.path)]
    return [_alone(piece) for piece in run]


def _call(first: Piece, buffers: Any) -> int:
    call = os.pwritev if first.write else os.preadv
    return call(first.file.direct_fd, buffers, first.offset)


def _alone(piece: Piece) -> Answer:
    try:
        done = _call(piece, piece.buffers)
    except OSError as error:
        return seam.fault_of(error, piece.file.path)
    return None if done == piece.nbytes else _cut_short(piece, done)


def _cut_short(piece: Piece, done: int) -> Fault:
    """The kernel says why only when it is asked for the rest: a full disk, a limit."""
    if piece.write:
        try:
            os.pwrite(piece.file.fd, b"\0", piece.offset + done)
        except OSError as error:
            return seam.fault_of(error, piece.file.path)
    return seam.short(piece, done)
