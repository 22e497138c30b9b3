"""The public suite for keyed stores, inherited by the file store on the paths that run anywhere."""

from __future__ import annotations

from pathlib import Path

from tiermem.runtime.file.store import FileStore
from tiermem.runtime.io.posix import PosixIO
from tiermem.runtime.stores import KeyedStore
from tiermem.testing.keyed_stores import KeyedStoreTests, content, pieces_of


class TestFileStoreDirect(KeyedStoreTests):
    """Past the page cache."""

    def make(self, directory: Path, capacity_bytes: int) -> KeyedStore:
        return FileStore(directory, capacity_bytes, io=PosixIO())


class TestFileStoreBuffered(KeyedStoreTests):
    """Through the page cache."""

    def make(self, directory: Path, capacity_bytes: int) -> KeyedStore:
        return FileStore(directory, capacity_bytes, io=PosixIO(direct=False))


class TestFileStoreChosen(KeyedStoreTests):
    """On whatever path was proved in the directory."""

    def make(self, directory: Path, capacity_bytes: int) -> KeyedStore:
        return FileStore(directory, capacity_bytes)


def test_blocks_to_try_with() -> None:
    """The same content for the same number, another for another; views that cover it all."""
    assert (content(3, 100) == content(3, 100)).all()
    assert (content(3, 100) != content(4, 100)).any()
    assert len(content(3, 0)) == 0
    views = pieces_of(content(1, 10), [7, 2, 2])
    assert [len(view) for view in views] == [2, 0, 5, 3]
