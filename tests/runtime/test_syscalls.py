"""The kernel's answers come back as values, its refusals as `OSError`."""

from __future__ import annotations

import errno
import mmap
import sys

import numpy as np
import pytest

from tiermem.runtime import syscalls

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="calls to Linux")


def pages(count: int) -> np.ndarray:
    memory = mmap.mmap(-1, count * mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(memory, dtype=np.uint8)


def test_a_node_that_cannot_be_is_refused() -> None:
    """The kernel says why."""
    memory = pages(4)
    with pytest.raises(OSError, match=r"Invalid|permitted") as caught:
        syscalls.bind_pages(memory.ctypes.data, memory.nbytes, 900, strict=True)
    assert caught.value.errno in (errno.EINVAL, errno.EPERM)


def test_locks_what_may_be_locked() -> None:
    """A page is locked; an address that is nothing's is refused."""
    memory = pages(1)
    syscalls.lock_pages(memory.ctypes.data, memory.nbytes)
    with pytest.raises(OSError, match="memory"):
        syscalls.lock_pages(1 << 46, 4096)


def test_an_unknown_machine_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Call numbers differ by machine and are never guessed."""
    monkeypatch.setattr(syscalls.platform, "machine", lambda: "vax")
    with pytest.raises(OSError, match="vax"):
        syscalls.node_of_pages(np.zeros(1, np.uint64))
