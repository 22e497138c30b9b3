"""The few calls to Linux that Python has no name for: memory policies and page locations.

Called by number through the C library, so that libnuma is no requirement. Each raises `OSError`
with the kernel's reason.
"""

from __future__ import annotations

import ctypes
import os
import platform

import numpy as np
import numpy.typing as npt

# Numbers of asm/unistd.h by machine: mbind(2), move_pages(2).
_NUMBERS = {"x86_64": (237, 279), "aarch64": (235, 239)}
_PREFERRED, _BIND = 1, 2  # MPOL_ of linux/mempolicy.h
_NODES_MAX = 1024
_WORD_BITS = 8 * ctypes.sizeof(ctypes.c_ulong)

_C = ctypes.CDLL(None, use_errno=True)


def bind_pages(address: int, nbytes: int, node: int, *, strict: bool) -> None:
    """Pages of this range that come to be from now on lie on `node`; if not `strict`, on others
    when it is full. mbind(2)."""
    mask = (ctypes.c_ulong * (_NODES_MAX // _WORD_BITS))()
    mask[node // _WORD_BITS] = 1 << (node % _WORD_BITS)
    mode = _BIND if strict else _PREFERRED
    # The kernel takes one bit less than it is told there are.
    _call(0, address, nbytes, mode, ctypes.byref(mask), _NODES_MAX + 1, 0)


def node_of_pages(addresses: npt.NDArray[np.uint64]) -> npt.NDArray[np.int32]:
    """The node of each page, or a negative errno (-2: no such page yet). move_pages(2), which
    moves nothing when it is given no targets."""
    pages = np.ascontiguousarray(addresses)
    status = np.empty(len(pages), dtype=np.int32)
    _call(1, 0, len(pages), pages.ctypes.data, None, status.ctypes.data, 0)
    return status


def lock_pages(address: int, nbytes: int) -> None:
    """Keep this range in memory, never in swap. mlock(2); munmap(2) ends it."""
    _checked(_C.mlock(ctypes.c_void_p(address), ctypes.c_size_t(nbytes)))


def _call(which: int, *arguments: object) -> None:
    machine = platform.machine()
    if machine not in _NUMBERS:
        raise OSError(38, f"system call numbers of {machine} are not known here")
    number = ctypes.c_long(_NUMBERS[machine][which])
    words = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    _checked(_C.syscall(number, *words))


def _checked(result: int) -> None:
    if result < 0:
        errno = ctypes.get_errno()
        raise OSError(errno, os.strerror(errno))
