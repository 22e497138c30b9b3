"""Opening: refused in the first second, or with everything that was there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tiermem.errors import DoesNotFit, InputError
from tiermem.runtime.file import opening
from tiermem.runtime.file.folder import Folder
from tiermem.runtime.file.store import FileStore
from tiermem.runtime.io.seam import FileIO
from tiermem.testing.keyed_stores import is_whole, key, put

MakeStore = Callable[..., FileStore]


def test_more_than_the_file_system_has_is_refused(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With both numbers and what the capacity is per. What our own segments take is ours to use."""
    store = make_store()
    put(store, {1: 1_000_000})
    store.close()
    monkeypatch.setattr(Folder, "free_bytes", lambda self: 10_000_000)
    with pytest.raises(
        DoesNotFit, match=r"20,000,000 bytes \(per process, per directory\)"
    ) as told:
        make_store(20_000_000)
    assert "10,000,000 bytes that its file system has free" in str(told.value)
    assert "\n" not in str(told.value)
    assert is_whole(make_store(10_500_000), 1, 1_000_000)


def test_a_refused_store_leaves_nothing_open(make_store: MakeStore) -> None:
    """No descriptor and no lock: the next one can have the directory."""
    store = make_store()
    put(store, {1: 1000})
    store.close()
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(DoesNotFit):
        make_store(1 << 60)
    assert len(os.listdir("/proc/self/fd")) == before
    assert is_whole(make_store(), 1, 1000)


def test_a_capacity_that_holds_nothing_is_refused(make_store: MakeStore) -> None:
    """In one line that says how much it takes."""
    with pytest.raises(DoesNotFit, match="holds no block: give it at least 64 KiB"):
        make_store(20_000)
    assert put(make_store(64 << 10), {1: 100}) == [None]


def test_a_file_is_no_directory(make_store: MakeStore, tmp_path: Path) -> None:
    """Said by name."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="file: the directory of a file store"):
        make_store(directory=tmp_path / "file")


def test_the_directory_can_be_moved(make_store: MakeStore, tmp_path: Path) -> None:
    """All names in it are relative."""
    store = make_store()
    put(store, {1: 5000})
    store.close()
    moved = store.directory.rename(tmp_path / "elsewhere")
    assert is_whole(make_store(directory=moved), 1, 5000)


@pytest.mark.parametrize(
    "identity", ["mistralai/Mistral-7B", "a:b", "..", "x" * 300, "Modèle-λ-模型", "/etc/passwd"]
)
def test_any_identity_will_do(make_store: MakeStore, tmp_path: Path, identity: str) -> None:
    """It stays inside the directory, comes back, and is named when it is refused."""
    store = make_store(identity=identity)
    put(store, {1: 5000})
    store.close()
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    store = make_store(identity="another")
    assert store.keys() == []
    cold = store.report().cold
    assert cold is not None
    assert cold.startswith("cold: 1 file ignored: 1 made for ")
    assert repr(identity) in cold
    store.close()
    assert is_whole(make_store(identity=identity), 1, 5000)


def test_reading_only(make_store: MakeStore) -> None:
    """Blocks are served, nothing is written, and writes are refused; also beside a writer."""
    store = make_store()
    put(store, {1: 5000})
    store.sync()
    before = {path.name for path in store.directory.iterdir()}
    reader = make_store(read_only=True)
    assert is_whole(reader, 1, 5000)
    fault = put(reader, {2: 10})[0]
    assert fault is not None
    assert fault.kind == "permission"
    reader.delete([key(1)])
    reader.clear()
    reader.close()
    assert is_whole(store, 1, 5000)
    assert {path.name for path in store.directory.iterdir()} == before
    store.close()
    assert is_whole(make_store(read_only=True, io=None), 1, 5000)


def test_an_empty_directory_can_be_read(make_store: MakeStore, tmp_path: Path) -> None:
    """It is a valid state."""
    assert make_store(directory=tmp_path, read_only=True).keys() == []


def test_another_boot_verifies(make_store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was durable is found without believing a mark; what was cleared stays gone."""
    store = make_store()
    put(store, {1: 5000, 2: 300_000})
    store.close()
    monkeypatch.setattr("tiermem.runtime.file.opening.boot_name", lambda: b"another boot")
    store = make_store()
    assert is_whole(store, 1, 5000)
    assert is_whole(store, 2, 300_000)
    store.clear()
    put(store, {3: 5000})
    store.close()
    monkeypatch.setattr("tiermem.runtime.file.opening.boot_name", lambda: b"a third boot")
    assert make_store().keys() == [(key(3), 5000)]


def test_marks_that_cannot_be_read_leave_the_file_aside(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch, io: FileIO
) -> None:
    """Counted, booked, not used."""
    store = make_store()
    put(store, {1: 5000})
    store.close()

    def refuse(*_: object) -> bool:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("tiermem.runtime.file.marks.Marks.load", refuse)
    store = make_store()
    report = store.report()
    assert report.blocks == 0
    assert [each.reason for each in report.ignored] == ["[Errno 5] Input/output error"]
    assert 0 < report.used_bytes <= report.capacity_bytes


def test_a_capacity_that_is_not_free_is_refused_before_any_proof(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proof takes seconds, and room."""
    monkeypatch.setattr(opening, "choose", lambda _: pytest.fail("a proof was made"))
    with pytest.raises(DoesNotFit, match="bytes that its file system has free"):
        FileStore(tmp_path, 1 << 60)
    (tmp_path / "link").symlink_to(tmp_path / "gone" / "further")
    with pytest.raises(InputError, match="which is not there"):
        FileStore(tmp_path / "link", 1 << 20)
