"""Give memory that was freed back to the system, where the C library keeps it otherwise."""

from __future__ import annotations

import contextlib
import ctypes


def trim() -> bool:
    """Return the free pages of the C library's heap; whether it had any to return.

    glibc keeps what is freed below something that is not: weights of 4 MiB that were offloaded
    would stay resident as holes, each a little too small for the next.
    """
    with contextlib.suppress(AttributeError, OSError):  # another C library
        return bool(ctypes.CDLL(None).malloc_trim(0))
    return False
