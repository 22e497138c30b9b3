"""Files that are taken over, and files that are passed over with a reason."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tiermem.runtime.file.adopting import Found, Source
from tiermem.runtime.file.builder import meaning_of
from tiermem.runtime.file.folder import Folder
from tiermem.runtime.file.marks import boot_name
from tiermem.runtime.file.store import FileStore
from tiermem.runtime.io.seam import FileIO
from tiermem.testing.keyed_stores import put

MakeStore = Callable[..., FileStore]
GIB = 1 << 30


class Looked:
    """What is found in a directory, held until the test ends."""

    def __init__(self, directory: Path, io: FileIO, *, identity: str = "", read_only: bool = False):
        self.folder = Folder(directory, read_only=read_only)
        self.source = Source(self.folder, io, meaning_of(identity), boot_name())

    def found(self, capacity_bytes: int = GIB) -> Found:
        found = Found(self.source, capacity_bytes)
        for segment in found.segments:
            segment.close()
        return found


@pytest.fixture
def directory(make_store: MakeStore) -> Path:
    """A store of two segments that was closed."""
    store = make_store(identity="model A")
    put(store, {1: 5000, 2: 70_000})
    store.close()
    assert len(list(store.directory.glob("*.blocks"))) == 2
    return store.directory


def test_segments_of_the_dead_are_ours(directory: Path, io: FileIO) -> None:
    """And those of the living are theirs."""
    looked = Looked(directory, io, identity="model A")
    assert len(looked.found().segments) == 2
    with FileStore(directory, 16 << 20, io=io, identity="model A"):
        found = looked.found()
        assert (found.segments, found.neighbours, found.ignored) == ([], 2, [])
    assert len(looked.found().segments) == 2


def test_another_identity_is_refused_by_name(directory: Path, io: FileIO) -> None:
    """The files stay, and count, until their room is needed."""
    found = Looked(directory, io, identity="mistralai/Mistral-7B").found()
    assert found.segments == []
    reason = "made for 'model A', and this is 'mistralai/Mistral-7B'"
    assert [each.reason for each in found.ignored] == [reason] * 2
    assert len(found.stale) == 2
    assert found.used_bytes == sum(stale.nbytes for stale in found.stale)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: os.truncate(path, 0), "empty"),
        (lambda path: os.truncate(path, 1), "truncated: 1 bytes"),
        (lambda path: path.write_bytes(b"x" * 9000), "not a segment"),
        (lambda path: path.write_bytes(b"tm-slab\n\x09" + bytes(5000)), "version 9"),
    ],
)
def test_damaged_files_are_passed_over(
    directory: Path, io: FileIO, damage: Callable[[Path], None], reason: str
) -> None:
    """Each with its reason; the others are used. Empty ones are removed at once."""
    path = sorted(directory.glob("*.blocks"))[0]
    damage(path)
    found = Looked(directory, io, identity="model A").found()
    assert len(found.segments) == 1
    assert [each.name for each in found.ignored] == [path.name]
    assert found.ignored[0].reason.startswith(reason)
    assert path.exists() == (reason != "empty")


def test_strangers_are_left_alone(directory: Path, io: FileIO) -> None:
    """Named, not counted, not touched: files of others, and what is no file."""
    (directory / "notes.txt").write_text("mine")
    (directory / "folder.blocks").mkdir()
    os.mkfifo(directory / "pipe.blocks")
    found = Looked(directory, io, identity="model A").found()
    assert {each.name: each.reason for each in found.ignored} == {
        "notes.txt": "not a segment",
        "folder.blocks": "not a segment",
        "pipe.blocks": "not a segment",
    }
    assert found.stale == []
    assert (directory / "notes.txt").read_text() == "mine"


def test_a_smaller_capacity_keeps_the_newest(directory: Path, io: FileIO) -> None:
    """What is beyond it is removed: the capacity is hard."""
    old, new = sorted(directory.glob("*.blocks"), key=os.path.getsize)
    os.utime(old, (1, 1))
    capacity = os.path.getsize(new) + 40_000
    found = Looked(directory, io, identity="model A").found(capacity)
    assert [segment.file.path for segment in found.segments] == [new]
    assert found.used_bytes <= capacity
    assert not old.exists()
    assert "beyond the capacity" in found.ignored[0].reason


def test_a_file_that_cannot_be_opened_is_passed_over(
    directory: Path, io: FileIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what the kernel said."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    looked = Looked(directory, io, identity="model A")
    monkeypatch.setattr(io, "open", refuse)
    assert {each.reason for each in looked.found().ignored} == {"permission denied"}


def test_reading_only_takes_all_and_changes_nothing(directory: Path, io: FileIO) -> None:
    """Also what others are using, and also beyond any capacity."""
    before = {path.name: path.stat().st_mtime_ns for path in directory.iterdir()}
    with FileStore(directory, 16 << 20, io=io, identity="model A"):
        looked = Looked(directory, io, identity="model A", read_only=True)
        assert len(looked.found(1).segments) == 2
    after = {path.name: path.stat().st_mtime_ns for path in directory.iterdir()}
    assert before == after
