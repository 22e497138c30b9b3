"""`tiermem doctor`: what it prints, and how bad directories end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tiermem.runtime.io import bandwidth
from tiermem.runtime.io.directory import mount_of


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandwidth, "FILE_BYTES", 16 << 20)
    monkeypatch.setattr(bandwidth, "_EACH_S", 0.05)


def test_json_names_the_path(tiermem: Any, tmp_path: Path) -> None:
    """Strict, with units in its names, and the directory is as it was."""
    ended = tiermem("doctor", tmp_path, "--json", "--threads", 2)
    assert (ended.status, ended.stderr) == (0, "")
    document = ended.document
    known = {"gds", "kvikio", "native", "posix_direct", "posix_buffered"}
    assert document["io_path"] in known
    assert document["directory"] == str(tmp_path)
    assert document["io_threads"] == 2
    assert {"block_bytes", "write_bytes_per_s", "read_bytes_per_s", "read_cold"} == set(
        document["bandwidth"][0]
    )
    assert list(tmp_path.iterdir()) == []


def test_people_get_path_speeds_and_next_steps(tiermem: Any, tmp_path: Path) -> None:
    """Nothing here is faster than it says: reads from memory are called so."""
    ended = tiermem("doctor", tmp_path, "--io", "posix_buffered")
    assert ended.status == 0
    assert "I/O path: posix_buffered, 4 threads" in ended.stdout
    assert mount_of(tmp_path).filesystem in ended.stdout
    assert "64 KiB" in ended.stdout
    assert "32 MiB" in ended.stdout
    assert "GPU: " in ended.stdout


def test_memory_is_not_called_nvme(tiermem: Any) -> None:
    """In tmpfs the file system is named, and direct I/O is refused with a next step."""
    if mount_of(Path("/dev/shm")).filesystem != "tmpfs":
        pytest.skip("/dev/shm is no tmpfs here")
    ended = tiermem("doctor", "/dev/shm")
    assert ended.status == 0
    assert "the speed of memory, not of NVMe" in " ".join(ended.stdout.split())
    assert "not posix_direct: " in ended.stdout
    assert "next step: tmpfs (memory) on tmpfs: put the directory on a local" in ended.stdout


def test_a_bad_directory_is_one_line(tiermem: Any, tmp_path: Path) -> None:
    """Known fault 104: status 1 at once."""
    (tmp_path / "file").write_text("x")
    for name in ("none", "file"):
        ended = tiermem("doctor", tmp_path / name, "--json")
        assert ended.status == 1
        assert ended.stdout == ""
        assert ended.stderr.startswith(f"tiermem: error: {tmp_path / name}: ")
        assert ended.stderr.count("\n") == 1


def test_bad_options_are_refused(tiermem: Any, tmp_path: Path) -> None:
    """With the nearest name; threads have a limit that is said."""
    ended = tiermem("doctor", tmp_path, "--io", "posix")
    assert ended.status == 1
    assert "posix_direct" in ended.stderr
    assert tiermem("doctor", tmp_path, "--threads", 0).status == 2
    assert tiermem("doctor").status == 2
