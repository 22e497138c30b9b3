"""Files that somebody deletes, or moves, under a store that is open."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tiermem.runtime.file.store import FileStore
from tiermem.runtime.stores import FaultKind
from tiermem.testing.keyed_stores import is_whole, put

MakeStore = Callable[..., FileStore]
MIB = 1 << 20


@pytest.fixture
def store(make_store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> FileStore:
    """One that does not sync unasked."""
    monkeypatch.setattr(FileStore, "settle_s", 1000.0)
    return make_store()


@pytest.mark.parametrize("durable_before", [False, True])
def test_what_lay_in_a_deleted_file_is_not_durable(store: FileStore, durable_before: bool) -> None:
    """The sync says so, the blocks are lost and counted, and new files take new blocks."""
    assert put(store, {1: 5000, 2: 70_000}) == [None, None]
    assert not durable_before or store.sync() is None
    for path in store.directory.glob("*.blocks"):
        path.unlink()
    fault = store.sync()
    assert fault is not None
    assert fault.kind is FaultKind.MISSING
    assert "deleted while it was in use" in fault.detail
    assert (len(store), store.report().dropped, store.report().used_bytes) == (0, 2, 0)
    assert store.sync() is None
    assert put(store, {1: 5000}) == [None]
    assert store.sync() is None
    assert is_whole(store, 1, 5000)
    assert len(list(store.directory.glob("*.blocks"))) == 1


def test_without_a_directory_writes_are_faults(store: FileStore) -> None:
    """Until there is one again; what is written then is found again."""
    put(store, {1: 5000})
    shutil.rmtree(store.directory)
    assert store.sync() is not None
    (fault,) = put(store, {2: 5000})
    assert fault is not None
    assert fault.kind is FaultKind.MISSING
    assert store.report().directory_bytes is None
    store.directory.mkdir()
    assert put(store, {3: 5000}) == [None]
    assert store.sync() is None


def test_a_moved_directory_keeps_working(
    store: FileStore, make_store: MakeStore, tmp_path: Path
) -> None:
    """Old files and new ones, and the next store finds all."""
    put(store, {1: 5000})
    store.directory.rename(tmp_path / "moved")
    assert store.sync() is None
    assert put(store, {2: 400_000}) == [None]
    assert store.sync() is None
    assert (store.report().directory_bytes or 0) > 0
    store.close()
    again = make_store(directory=tmp_path / "moved")
    assert is_whole(again, 1, 5000)
    assert is_whole(again, 2, 400_000)
