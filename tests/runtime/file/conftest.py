"""File stores in a directory of their own, closed when the test ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tiermem.runtime.file.builder import Builder, meaning_of
from tiermem.runtime.file.folder import Folder
from tiermem.runtime.file.marks import boot_name
from tiermem.runtime.file.store import FileStore
from tiermem.runtime.io.posix import PosixIO
from tiermem.runtime.io.seam import FileIO

MIB = 1 << 20


@pytest.fixture
def io() -> Iterator[FileIO]:
    """Plain system calls past the page cache."""
    path = PosixIO(threads=2)
    yield path
    path.close()


@pytest.fixture
def make_store(io: FileIO, tmp_path: Path) -> Iterator[Callable[..., FileStore]]:
    """`make_store(capacity, **options)`: a store in `tmp_path/store`."""
    stores = []

    def make(capacity_bytes: int = 16 * MIB, **options: Any) -> FileStore:
        directory = options.pop("directory", tmp_path / "store")
        options.setdefault("io", io)
        stores.append(FileStore(directory, capacity_bytes, **options))
        return stores[-1]

    yield make
    for store in stores:
        store.close()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    """A directory that was opened."""
    opened = Folder(tmp_path / "folder")
    yield opened
    opened.close()


@pytest.fixture
def builder(folder: Folder, io: FileIO) -> Builder:
    """What makes segments in `folder`."""
    return Builder(folder, io, meaning_of("tests"), boot_name())
