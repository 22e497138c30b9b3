"""Directories that are wrong are found out at once, in a line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tiermem.errors import InputError
from tiermem.runtime.io import directory
from tiermem.runtime.io.directory import Mount, inspect, mount_of

MOUNTS = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
23 22 0:50 / {place}/layer rw - overlay overlay rw,lowerdir=/a
24 22 0:51 / {place}/with\\040blank ro,nosuid shared:1 - nfs4 host:/x\\040y rw
25 22 0:52 / {place}/layer rw - xfs /dev/nvme0n1 rw
not a line of mountinfo
"""


@pytest.fixture
def mounts(tmp_path: Path) -> Path:
    """A mountinfo of our own."""
    table = tmp_path / "mountinfo"
    table.write_text(MOUNTS.format(place=tmp_path))
    return table


def test_the_last_mount_that_fits_is_the_one(tmp_path: Path, mounts: Path) -> None:
    """Longest point first, later lines over earlier ones; blanks are written as octal."""
    assert mount_of(tmp_path / "layer" / "a", mounts).filesystem == "xfs"
    assert mount_of(tmp_path / "layers", mounts).filesystem == "ext4"
    found = mount_of(tmp_path / "with blank", mounts)
    assert found == Mount(f"{tmp_path}/with blank", "nfs4", "host:/x y", True)
    assert str(found) == "nfs4 (the network) on host:/x y"


def test_a_table_that_cannot_be_read_is_no_error(tmp_path: Path) -> None:
    """The file system is then unknown."""
    assert mount_of(tmp_path, tmp_path / "none").filesystem == "unknown"


def test_a_good_directory(tmp_path: Path) -> None:
    """Its room is that of its file system."""
    place = inspect(tmp_path, needed_bytes=1)
    assert 0 < place.free_bytes <= place.total_bytes
    assert place.directory == tmp_path


def test_bad_directories_are_one_line(tmp_path: Path) -> None:
    """Absent, a file, a broken link, too small: each says so and names the path."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    for name, word in (
        ("none", "no such"),
        ("file", "not a directory"),
        ("link", "not there"),
    ):
        with pytest.raises(InputError, match=word) as found:
            inspect(tmp_path / name)
        assert str(tmp_path / name) in str(found.value)
        assert "\n" not in str(found.value)
    with pytest.raises(InputError, match=r"free .* needed"):
        inspect(tmp_path, needed_bytes=2**62)


def test_no_permission_says_whose_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known fault 104: before anything is loaded."""
    monkeypatch.setattr(directory.os, "access", lambda *_: False)
    with pytest.raises(InputError, match=rf"no permission .* user {os.geteuid()}"):
        inspect(tmp_path)


def test_a_read_only_mount_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its type."""
    mount = Mount("/", "squashfs", "/dev/loop0", True)
    monkeypatch.setattr(directory, "mount_of", lambda _: mount)
    with pytest.raises(InputError, match=r"read-only \(squashfs on /dev/loop0\)"):
        inspect(tmp_path)


def test_links_that_lead_nowhere_are_called_so(tmp_path: Path) -> None:
    """A loop, and one whose end is gone; nothing is said of others."""
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "here").symlink_to(tmp_path)
    with pytest.raises(InputError, match="leads back to itself"):
        inspect(tmp_path / "loop")
    assert directory.link_trouble(tmp_path / "here") is None
    assert directory.link_trouble(tmp_path) is None
