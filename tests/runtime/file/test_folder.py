"""The directory: checked at once, shared, and free of paths that hold it in place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tiermem.errors import InputError
from tiermem.runtime.file.folder import (
    LOCK_NAME,
    STATUS_NAME,
    SUFFIX,
    Folder,
    file_bytes,
    hold,
    still_there,
)


def test_a_missing_directory_is_made(tmp_path: Path) -> None:
    """With its parents."""
    folder = Folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    assert folder.segments() == []
    folder.close()
    folder.close()


def test_what_is_no_directory_is_refused(tmp_path: Path) -> None:
    """In one line that names it and says what to do."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match=r"file: the directory .* written to: .*; name one"):
        Folder(tmp_path / "file")
    with pytest.raises(InputError, match="cannot be read: not a directory"):
        Folder(tmp_path / "nothing", read_only=True)
    assert not (tmp_path / "nothing").exists()


def test_a_directory_without_permission_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, and not after a long load."""

    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(InputError, match="permission denied"):
        Folder(tmp_path)


def test_names_are_new_and_ours(folder: Folder) -> None:
    """Two processes never use one name; anything else in the directory is a stranger."""
    other = Folder(folder.path)
    paths = {folder.new_path(), folder.new_path(), other.new_path(), other.new_path()}
    assert len(paths) == 4
    for path in paths:
        assert path.suffix == SUFFIX
        path.write_text("x")
    for name in ("notes.txt", STATUS_NAME, f".{STATUS_NAME}.draft"):
        (folder.path / name).write_text("x")
    assert folder.segments() == sorted(paths)
    assert folder.strangers() == ["notes.txt"]
    other.close()


def test_bytes_are_those_of_the_file_system(folder: Folder) -> None:
    """Blocks or length, whichever is more; all files of the directory."""
    path = folder.path / "one"
    path.write_bytes(b"x" * 5000)
    os.truncate(path, 100_000)  # sparse
    assert file_bytes(path) == 100_000
    path.write_bytes(b"x" * 5000)
    assert file_bytes(path) >= 5000
    assert folder.disk_bytes() == file_bytes(path) + file_bytes(folder.path / LOCK_NAME)
    assert folder.free_bytes() > 0


def test_one_owner_at_a_time(folder: Folder) -> None:
    """A lock on a file belongs to whoever opened it first, until it is closed."""
    path = folder.new_path()
    path.write_text("x")
    first, second = os.open(path, os.O_RDWR), os.open(path, os.O_RDWR)
    assert hold(first)
    assert not hold(second)
    os.close(first)
    assert hold(second)
    assert still_there(second, path)
    path.unlink()
    assert not still_there(second, path)
    path.write_text("another file")
    assert not still_there(second, path)
    os.close(second)


def test_reading_only_leaves_no_trace(tmp_path: Path) -> None:
    """No lock file is made."""
    folder = Folder(tmp_path, read_only=True)
    with folder.locked():
        assert os.listdir(tmp_path) == []
    folder.close()
