"""Which pages of a file the kernel keeps in memory: the only witness of whether I/O was direct.

O_DIRECT may be accepted and ignored (tmpfs does so), and a read that never met the device says
nothing about the device.
"""

from __future__ import annotations

import ctypes
import mmap
import os

import numpy as np

_C = ctypes.CDLL(None, use_errno=True)
_C.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]


def resident_share(fd: int, offset: int, nbytes: int) -> float:
    """The share of these pages that are in the page cache, 0 to 1. mincore(2).

    `offset` is a multiple of the page size and the range lies in the file. The kernel answers for
    files that the caller owns or may write, and says 'all' for others.
    """
    assert offset % mmap.PAGESIZE == 0
    assert nbytes > 0
    pages = -(-nbytes // mmap.PAGESIZE)
    answer = np.zeros(pages, dtype=np.uint8)
    with mmap.mmap(fd, nbytes, prot=mmap.PROT_READ, offset=offset) as view:
        mapped = np.frombuffer(view, dtype=np.uint8)
        address = mapped.ctypes.data
        failed = _C.mincore(address, nbytes, answer.ctypes.data)
        del mapped  # the mapping cannot end while an array looks at it
    if failed:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return float(np.count_nonzero(answer & 1)) / pages


def drop(fd: int) -> None:
    """Write back what is dirty and let the kernel forget the file's pages, where it can."""
    os.fdatasync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
