"""Pinned host memory: registered with CUDA where there is CUDA, else pageable and said so.

One registration of exactly the bytes of the arena: an allocator that rounds up to a power of two
makes 128 GiB of 65.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from typing import Any, NamedTuple

from tiermem.runtime.syscalls import lock_pages
from tiermem.units import format_bytes

_PORTABLE = 1  # cudaHostRegisterPortable: pinned for every device of this process


class Pin(NamedTuple):
    """What came of pinning: how many bytes, a way back, and what to tell people."""

    nbytes: int
    release: Callable[[], None]
    warning: str | None = None


def pin(address: int, nbytes: int) -> Pin:
    """Register this range with CUDA. Where that cannot be it stays pageable memory, as right and
    slower to copy to a device, and the warning says what stands in the way."""
    try:
        import torch
    except ImportError:
        return _not_pinned(nbytes, "torch is not installed")
    cuda: Any = torch.cuda
    if not cuda.is_available():
        return _not_pinned(nbytes, "no CUDA device is here to pin it for")
    cudart = cuda.cudart()
    answer = int(cudart.cudaHostRegister(address, nbytes, _PORTABLE))
    if answer:
        name = cudart.cudaGetErrorString(cudart.cudaError(answer))
        return _not_pinned(nbytes, f"cudaHostRegister answered {answer} ({name}); {_memlock()}")
    return Pin(nbytes, lambda: _unregister(cudart, address))


def lock(address: int, nbytes: int) -> str | None:
    """Keep this range out of swap (mlock); what to tell people where the kernel refuses."""
    try:
        lock_pages(address, nbytes)
    except OSError as error:
        return f"{format_bytes(nbytes)} of host memory could not be locked: {error}; {_memlock()}"
    return None


def _not_pinned(nbytes: int, why: str) -> Pin:
    said = (
        f"{format_bytes(nbytes)} of pinned host memory could not be had: {why}; the memory is"
        " pageable instead, and copies to a device are slower"
    )
    return Pin(0, lambda: None, said)


def _unregister(cudart: Any, address: int) -> None:
    cudart.cudaHostUnregister(address)


def _memlock() -> str:
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    limit = "unlimited" if soft == resource.RLIM_INFINITY else format_bytes(soft)
    return f"RLIMIT_MEMLOCK is {limit} (raise it: ulimit -l, or --ulimit memlock=-1 of a container)"
