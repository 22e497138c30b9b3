"""kvikio, two paths of one library: GPUDirect Storage for device memory, and host memory.

That kvikio can be imported says nothing: without a driver every transfer fails, and where
GPUDirect is missing it silently copies through the host. So a path is taken only after a proving
transfer (`proving.py`), and `GDS` only where the cuFile driver says it is there.

A buffer is a NumPy array, or for `GDS` a one-dimensional array of bytes on a device: anything with
`__cuda_array_interface__`, `__len__` and `nbytes`.
"""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tiermem.runtime.io import seam
from tiermem.runtime.io.pool import THREADS, Answer, Pool
from tiermem.runtime.io.seam import IoPath, OpenFile, Piece
from tiermem.runtime.stores import Buffer, Fault, FaultKind


class KvikioIO:
    """See `FileIO`. Raises ImportError without kvikio, RuntimeError where GPUDirect is missing.

    kvikio has threads of its own, as many as this path's; ours only wait for them, so that a
    transfer that hangs can be left behind.
    """

    def __init__(self, *, device: bool = False, threads: int = THREADS) -> None:
        import kvikio
        import kvikio.defaults

        self.path = IoPath.GDS if device else IoPath.KVIKIO
        if device:
            _require_gds()
        kvikio.defaults.set({"num_threads": threads, "task_size": seam.PIECE_BYTES})
        # Reads go through the page cache unless it is told otherwise (26.10).
        kvikio.defaults.set({"auto_direct_io_read": True, "auto_direct_io_write": True})
        self._kvikio: Any = kvikio
        self.pool = Pool(self.path, move, threads)

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> OpenFile:
        """Open a file, or raise OSError."""
        plain = seam.open_file(path, create=create, read_only=read_only, direct=False)
        try:
            handle = self._kvikio.CuFile(path, "r" if read_only else "r+")
        except Exception as error:  # kvikio knows only RuntimeError
            plain.close()
            raise OSError(errno.EIO, _words(error), str(path)) from error
        return _CuFile(plain, handle)

    def transfer(self, pieces: Sequence[Piece], deadline_s: float) -> list[Answer]:
        """See `FileIO.transfer`."""
        return self.pool.transfer(pieces, deadline_s)

    def holds(self, buffers: Sequence[Buffer]) -> bool:
        """See `FileIO.holds`."""
        return self.pool.holds(buffers)

    def aligned(self, nbytes: int) -> Buffer:
        """Whole pages of host memory."""
        return seam.aligned(nbytes)

    def close(self) -> None:
        """End our threads; kvikio's own belong to the process."""
        self.pool.close()


class _CuFile(OpenFile):
    """A file with kvikio's handle beside the plain descriptor."""

    def __init__(self, plain: OpenFile, handle: Any) -> None:
        super().__init__(plain.path, plain.fd)
        self.handle = handle

    def _release(self) -> None:
        with contextlib.suppress(Exception):  # nothing is lost: see `OpenFile`
            self.handle.close()
        super()._release()


def move(run: Sequence[Piece]) -> list[Answer]:
    """Start each buffer's transfer, then wait for all of them."""
    started = [_start(piece) for piece in run]
    return [_ended(piece, futures) for piece, futures in zip(run, started, strict=True)]


def _start(piece: Piece) -> list[tuple[Any, int]] | Fault:
    assert isinstance(piece.file, _CuFile)
    handle, offset = piece.file.handle, piece.offset
    call = handle.pwrite if piece.write else handle.pread
    futures = []
    failed: Fault | None = None
    for buffer in piece.buffers:
        try:
            futures.append((call(buffer, buffer.nbytes, offset), buffer.nbytes))
        except Exception as error:
            failed = _fault(error, piece)
            break
        offset += buffer.nbytes
    if failed is None:
        return futures
    _ended(piece, futures)  # what was started must have ended before the answer
    return failed


def _ended(piece: Piece, started: list[tuple[Any, int]] | Fault) -> Answer:
    if isinstance(started, Fault):
        return started
    answer: Answer = None
    done = 0
    for future, _ in started:
        try:
            done += int(future.get())
        except Exception as error:
            answer = answer or _fault(error, piece)
    if answer is None and done != piece.nbytes:
        return seam.short(piece, done)
    return answer


def _fault(error: Exception, piece: Piece) -> Fault:
    """kvikio's errors are sentences; the few that mean something else than 'failed'."""
    words = _words(error)
    if "EOF" in words:
        return seam.short(piece, 0)
    kinds = {
        "No space left": FaultKind.SPACE,
        "Permission denied": FaultKind.PERMISSION,
        "Bad file descriptor": FaultKind.CLOSED,
    }
    kind = next((kind for text, kind in kinds.items() if text in words), FaultKind.IO)
    return Fault(kind, f"{piece.file.path}: {words}")


def _words(error: Exception) -> str:
    """One line, without the place in kvikio's source."""
    text = " ".join(str(error).split())
    return re.sub(r"^KvikIO failure at: \S+: ", "", text) or type(error).__name__


def _require_gds() -> None:
    """Raise RuntimeError unless device memory goes to the file without a copy in the host."""
    import kvikio.cufile_driver
    import kvikio.defaults

    if kvikio.defaults.is_compat_mode_preferred():
        raise RuntimeError("kvikio is in its compatibility mode: no GPUDirect Storage here")
    if not kvikio.cufile_driver.get("is_gds_available"):
        raise RuntimeError("the cuFile driver says that GPUDirect Storage is not available")
