"""Speeds: measured on what the device gave, and called what they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiermem.errors import TierUnavailable
from tiermem.runtime.io import bandwidth
from tiermem.runtime.io.bandwidth import SIZES, Speed, measure
from tiermem.runtime.io.directory import IN_MEMORY, mount_of
from tiermem.runtime.io.posix import PosixIO
from tiermem.testing.faults import FaultyIO, Trouble, at

SMALL = 16 << 20


@pytest.mark.parametrize("direct", [True, False])
def test_reads_are_cold_on_a_device(direct_directory: Path, direct: bool) -> None:
    """Known fault 101: nothing of the file is in memory when reading begins; nothing is left."""
    if mount_of(direct_directory).filesystem in IN_MEMORY:
        pytest.skip("the temporary directory lies in memory")
    before = sorted(direct_directory.iterdir())
    io = PosixIO(direct=direct)
    speeds = measure(io, direct_directory, file_bytes=SMALL)
    io.close()
    assert [speed.size_bytes for speed in speeds] == list(SIZES)
    assert all(speed.cold for speed in speeds)
    assert all(speed.write_bytes_per_s > 0 and speed.read_bytes_per_s > 0 for speed in speeds)
    assert sorted(direct_directory.iterdir()) == before


def test_page_cache_speed_is_not_called_a_devices() -> None:
    """In tmpfs no read is cold."""
    shm = Path("/dev/shm")
    if mount_of(shm).filesystem != "tmpfs":
        pytest.skip("/dev/shm is no tmpfs here")
    io = PosixIO(direct=False)
    assert not any(speed.cold for speed in measure(io, shm, file_bytes=SMALL))
    io.close()
    assert not list(shm.glob(".tiermem-*"))


def test_a_small_share_in_memory_is_still_cold() -> None:
    """A page or two of reading ahead; half a file is not."""
    assert Speed(1, 1.0, 1.0, 0.01).cold
    assert not Speed(1, 1.0, 1.0, 0.5).cold


@pytest.mark.parametrize("trouble", [Trouble.IO, Trouble.FLIP])
def test_a_device_that_fails_has_no_speed(tmp_path: Path, trouble: Trouble) -> None:
    """One line, and the file is gone."""
    io = FaultyIO(PosixIO(direct=False), at(read={3: trouble}))
    with pytest.raises(TierUnavailable):
        measure(io, tmp_path, file_bytes=SMALL)
    io.close()
    assert list(tmp_path.iterdir()) == []


def test_memory_has_a_speed() -> None:
    """The ceiling of a host tier, in bytes a second."""
    assert bandwidth.copy_bytes_per_s(1 << 20) > 1e6
