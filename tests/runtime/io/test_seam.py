"""The seam's own pieces: open files that outlive a hang, and memory that a device likes."""

from __future__ import annotations

import errno
import mmap
import os
from pathlib import Path

import pytest

from tiermem.runtime.io.seam import HUGE_PAGE_BYTES, OpenFile, aligned, fault_of, open_file
from tiermem.runtime.stores import FaultKind


def opened(path: Path) -> OpenFile:
    """A new file."""
    return open_file(path, create=True, read_only=False, direct=False)


def test_a_held_file_stays_open(tmp_path: Path) -> None:
    """Until the last holder lets go; nobody new gets hold of it once it is closed."""
    file = opened(tmp_path / "a")
    assert file.hold()
    assert file.hold()
    file.close()
    assert not file.hold()
    file.let_go()
    os.fstat(file.fd)
    file.let_go()
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(file.fd)


def test_closing_twice_closes_once(tmp_path: Path) -> None:
    """The second time the number may be another file's."""
    file = opened(tmp_path / "a")
    file.close()
    other = opened(tmp_path / "b")
    assert other.fd == file.fd
    file.close()
    os.fstat(other.fd)
    other.close()


def test_a_file_that_cannot_be_opened_leaves_nothing(
    direct_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the second descriptor is refused the first one is closed."""
    whole, fds = os.open, list[int]()

    def refusing(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_DIRECT:
            raise OSError(22, "Invalid argument")
        fds.append(whole(path, flags, mode))
        return fds[-1]

    monkeypatch.setattr(os, "open", refusing)
    with pytest.raises(OSError, match="Invalid"):
        open_file(direct_directory / "a", create=True, read_only=False, direct=True)
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fds[0])


def test_large_memory_can_have_huge_pages() -> None:
    """It begins on one, and the mapping is private: shared memory has none, and a device then gets
    requests a quarter as long (measured, docs/decisions/0014)."""
    memory = aligned(8 << 20)
    assert memory.ctypes.data % HUGE_PAGE_BYTES == 0
    assert memory.size == 8 << 20
    start = memory.ctypes.data
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, flags = line.split()[:2]
        low, high = (int(part, 16) for part in span.split("-"))
        if low <= start < high:
            assert flags == "rw-p"
            break
    else:
        pytest.fail("the memory is nowhere in the map of this process")
    assert aligned(mmap.PAGESIZE).size == mmap.PAGESIZE


def test_a_full_file_system_is_called_full(tmp_path: Path) -> None:
    """With what it has free, where that can be asked."""
    error = OSError(errno.ENOSPC, "No space left on device")
    assert "the file system is full (" in fault_of(error, tmp_path / "file").detail
    assert fault_of(error, tmp_path / "file").kind is FaultKind.SPACE
    assert fault_of(error, "/none/at/all").detail.endswith("the file system is full")
