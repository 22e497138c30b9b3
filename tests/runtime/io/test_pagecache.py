"""The page cache as a witness."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tiermem.runtime.io import pagecache
from tiermem.runtime.io.directory import IN_MEMORY, mount_of


def test_what_was_written_is_there_until_it_is_dropped(tmp_path: Path) -> None:
    """All of a fresh file, none after it was dropped, half of it when half was read."""
    if mount_of(tmp_path).filesystem in IN_MEMORY:
        pytest.skip("the temporary directory lies in memory and cannot be dropped")
    path = tmp_path / "a"
    path.write_bytes(os.urandom(1 << 20))
    fd = os.open(path, os.O_RDWR)
    assert pagecache.resident_share(fd, 0, 1 << 20) == 1.0
    pagecache.drop(fd)
    assert pagecache.resident_share(fd, 0, 1 << 20) == 0.0
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)  # no reading ahead
    os.pread(fd, 1 << 19, 0)
    assert pagecache.resident_share(fd, 0, 1 << 19) == 1.0
    assert pagecache.resident_share(fd, 1 << 19, 1 << 19) < 0.5
    os.close(fd)


def test_memory_file_systems_are_always_resident() -> None:
    """tmpfs keeps everything: nothing there ever meets a device."""
    if mount_of(Path("/dev/shm")).filesystem != "tmpfs":
        pytest.skip("/dev/shm is no tmpfs here")
    path = Path("/dev/shm") / f"tiermem-test-{os.getpid()}"
    try:
        path.write_bytes(bytes(1 << 16))
        fd = os.open(path, os.O_RDWR)
        pagecache.drop(fd)
        assert pagecache.resident_share(fd, 0, 1 << 16) == 1.0
        os.close(fd)
    finally:
        path.unlink()
