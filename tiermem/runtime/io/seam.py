"""The seam below which bytes go between memory and files: what every path offers, and its words.

A path is one way to do it (GPUDirect, kvikio, a native batch, plain system calls). Nothing above
the seam knows which one is at work, nothing below it knows what the bytes are for. What fails is a
`Fault`, a value; only `open` raises, as `os.open` does.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import resource
import threading
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from tiermem.runtime.stores import Buffer, Fault, FaultKind
from tiermem.units import format_bytes

ALIGN_BYTES = 4096
"""What O_DIRECT may ask of addresses, offsets and lengths on any device of today."""

PIECE_BYTES = 2 << 20
"""The most one piece may carry: beyond that a device gains nothing and a deadline is overrun."""

HUGE_PAGE_BYTES = 2 << 20


class IoPath(StrEnum):
    """The ways to a file, as reports name them."""

    GDS = "gds"  # kvikio with GPUDirect Storage: device memory, past the host
    KVIKIO = "kvikio"  # kvikio, host memory
    NATIVE = "native"  # NIXL's POSIX plug-in: one io_uring submission a batch
    POSIX_DIRECT = "posix_direct"  # preadv and pwritev with O_DIRECT, a few threads
    POSIX_BUFFERED = "posix_buffered"  # the same through the page cache


class OpenFile:
    """One file, open as its path needs it.

    A transfer holds the file while it runs. `close` lets it go as soon as nobody holds it: a
    system call that hangs must never find its descriptor given to another file.
    """

    def __init__(self, path: Path, fd: int, direct_fd: int | None = None) -> None:
        self.path = path
        self.fd = fd  # goes through the page cache: for metadata and fdatasync
        self.direct_fd = fd if direct_fd is None else direct_fd
        self._lock = threading.Lock()
        self._holders = 0
        self._closed = False

    def hold(self) -> bool:
        """Keep the descriptors open until `let_go`; False once the file is closed."""
        with self._lock:
            if not self._closed:
                self._holders += 1
            return not self._closed

    def let_go(self) -> None:
        """The end of a `hold`."""
        with self._lock:
            self._holders -= 1
            last = self._closed and not self._holders
        if last:
            self._release()

    def close(self) -> None:
        """No new transfer starts; the descriptors are closed when the last one has ended."""
        with self._lock:
            idle = not self._closed and not self._holders
            self._closed = True
        if idle:
            self._release()

    def _release(self) -> None:
        for fd in {self.fd, self.direct_fd}:
            with contextlib.suppress(OSError):  # nothing is lost: durability is fdatasync's word
                os.close(fd)


class Piece(NamedTuple):
    """Contiguous bytes of a file, from or to one or more buffers.

    `offset` and the address and length of each buffer are multiples of `ALIGN_BYTES`; all buffers
    together are at most `PIECE_BYTES`. `check` runs in the thread that does the transfer: right
    before a write (to compute a checksum; a fault from it prevents the write), or right after a
    good read (to verify one).
    """

    file: OpenFile
    offset: int
    buffers: tuple[Buffer, ...]
    write: bool
    check: Callable[[], Fault | None] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers."""
        return sum(map(len, self.buffers))


class FileIO(Protocol):
    """One path. Every method may be called from any thread."""

    path: IoPath

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> OpenFile:
        """Open a file, or raise OSError. `create` makes it, and refuses one that is there."""
        ...

    def transfer(self, pieces: Sequence[Piece], deadline_s: float) -> list[Fault | None]:
        """Do all of `pieces`, in any order; one answer for each, in the order they were given.

        A transfer that was cut short is a fault. What is not done `deadline_s` from now is a
        `timeout`: it is not waited for, and the memory and the file range of such a piece belong to
        it for as long as `holds` says so. At most as many threads as the path has can ever hang;
        while all of them do, calls answer `timeout` at once.
        """
        ...

    def holds(self, buffers: Sequence[Buffer]) -> bool:
        """Whether a transfer that is past its deadline may still read or write these bytes. Until
        it does not, they and their place in the file are not given to anyone else."""
        ...

    def aligned(self, nbytes: int) -> Buffer:
        """Scratch memory of `nbytes`, rounded up to whole pages, that suits this path."""
        ...

    def close(self) -> None:
        """End the path's threads, those that hang excepted; open files stay open."""
        ...


_KINDS = {
    errno.ENOSPC: FaultKind.SPACE,
    errno.EDQUOT: FaultKind.SPACE,
    errno.EFBIG: FaultKind.SPACE,
    errno.EACCES: FaultKind.PERMISSION,
    errno.EPERM: FaultKind.PERMISSION,
    errno.EROFS: FaultKind.PERMISSION,
    errno.ENOENT: FaultKind.MISSING,
    errno.ESTALE: FaultKind.MISSING,
    errno.ETIMEDOUT: FaultKind.TIMEOUT,
    errno.EBADF: FaultKind.CLOSED,
}


def fault_of(error: OSError, where: Path | str) -> Fault:
    """What the kernel refused, as a fault."""
    kind = _KINDS.get(error.errno or 0, FaultKind.IO)
    return Fault(kind, f"{where}: {error.strerror or error}{_why_no_space(error, where)}")


def _why_no_space(error: OSError, where: Path | str) -> str:
    """What the kernel's words leave open: how much is free, and which limit was met."""
    if error.errno == errno.ENOSPC:
        with contextlib.suppress(OSError):
            place = Path(where)
            fields = os.statvfs(place if place.is_dir() else place.parent)
            free = format_bytes(fields.f_bavail * fields.f_frsize)
            return f": the file system is full ({free} free)"
        return ": the file system is full"
    if error.errno == errno.EDQUOT:
        return ": the quota of this user is used up"
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if error.errno == errno.EFBIG and limit != resource.RLIM_INFINITY:
        return f": RLIMIT_FSIZE (ulimit -f) is {limit:,} bytes for each file"
    return ""


def closed(where: Path | str) -> Fault:
    """The file, or the path, was closed before this transfer began."""
    return Fault(FaultKind.CLOSED, f"{where}: closed")


def short(piece: Piece, done: int) -> Fault:
    """`done` bytes where `piece` wanted more."""
    verb = "written" if piece.write else "read"
    return Fault(
        FaultKind.SHORT,
        f"{piece.file.path}: {done:,} of {piece.nbytes:,} bytes {verb} at {piece.offset:,}",
    )


def late(where: Path | str) -> Fault:
    """Not done by its deadline."""
    return Fault(FaultKind.TIMEOUT, f"{where}: not done by its deadline")


def open_file(path: Path, *, create: bool, read_only: bool, direct: bool) -> OpenFile:
    """Open `path` once through the page cache and, for `direct`, once more past it."""
    flags = os.O_CLOEXEC | (os.O_RDONLY if read_only else os.O_RDWR)
    fd = os.open(path, flags | (os.O_CREAT | os.O_EXCL if create else 0), 0o600)
    if not direct:
        return OpenFile(path, fd)
    try:
        return OpenFile(path, fd, os.open(path, flags | os.O_DIRECT))
    except OSError:
        os.close(fd)
        raise


def aligned(nbytes: int) -> Buffer:
    """Private memory of whole pages, huge ones where it is large enough for them.

    A request to a device lists the physical ranges of its memory, and may list only so many: over
    small pages a virtio disk gets requests of under 1 MiB, over huge ones of 4 MiB, and reads two
    to five times as fast. Shared memory, which is what `mmap` gives unasked, has no huge pages.
    """
    rounded = max(1, -(-nbytes // ALIGN_BYTES)) * ALIGN_BYTES
    spare = HUGE_PAGE_BYTES if rounded >= HUGE_PAGE_BYTES else 0
    memory = mmap.mmap(-1, rounded + spare, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if spare:
        with contextlib.suppress(OSError):  # a kernel without huge pages: slower, not wrong
            memory.madvise(mmap.MADV_HUGEPAGE)
    whole = np.frombuffer(memory, dtype=np.uint8)
    start = -whole.ctypes.data % HUGE_PAGE_BYTES if spare else 0
    return whole[start : start + rounded]
