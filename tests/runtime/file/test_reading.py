"""Finding blocks in a segment: by marks in this boot, by checksums in another."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tiermem.runtime.file.adopting import Found, Source
from tiermem.runtime.file.builder import meaning_of
from tiermem.runtime.file.folder import Folder
from tiermem.runtime.file.reading import Contents, Reader
from tiermem.runtime.file.scratch import Scratch
from tiermem.runtime.file.store import FileStore
from tiermem.runtime.io.seam import FileIO, aligned
from tiermem.runtime.stores import FaultKind
from tiermem.testing.keyed_stores import content, key, put

MakeStore = Callable[..., FileStore]


def contents(directory: Path, io: FileIO, boot: bytes) -> list[Contents]:
    """What is found in the directory when the machine's boot is called `boot`."""
    folder = Folder(directory)
    meaning = meaning_of("")
    found = Found(Source(folder, io, meaning, boot), 1 << 30)
    reader = Reader(io, Scratch(aligned), meaning.store, 10.0)
    read = [Contents(reader, segment, read_only=False) for segment in found.segments]
    for segment in found.segments:
        segment.close()
    folder.close()
    return read


def keys(found: list[Contents]) -> set[bytes]:
    return {slot.key for each in found for slot in each.slots}


def this_boot() -> bytes:
    return Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()


def filled(make_store: MakeStore) -> Path:
    """A directory with durable blocks 1, 2 (replaced once), 3 (deleted) and 4 (not kept)."""
    store = make_store()
    put(store, {1: 5000, 2: 70_000, 3: 100})
    store.sync()
    store.write([(key(2), [content(22, 70_000)], 70_000)])
    store.delete([key(3)])
    put(store, {4: 5000}, keep=False)
    store.close()
    return store.directory


def test_marked_blocks_are_believed(make_store: MakeStore, io: FileIO) -> None:
    """By their headers; nothing else is looked at."""
    found = contents(filled(make_store), io, this_boot())
    assert keys(found) == {key(1), key(2)}
    assert not any(each.faults for each in found)


def test_after_another_boot_whole_blocks_are_believed(make_store: MakeStore, io: FileIO) -> None:
    """Each read to its last byte. A block that was deleted one by one may come back (it is whole);
    one that was not to be kept does not. From then on they are marked."""
    directory = filled(make_store)
    found = contents(directory, io, b"another boot")
    assert keys(found) >= {key(1), key(2)}
    assert key(4) not in keys(found)
    assert not any(each.faults for each in found)
    again = contents(directory, io, b"another boot")
    assert keys(again) == keys(found)


def test_a_damaged_block_is_not_believed(make_store: MakeStore, io: FileIO) -> None:
    """After another boot a block with a wrong byte is a fault, and its slot is free."""
    directory = filled(make_store)
    before = {
        slot.key: slot for each in contents(directory, io, this_boot()) for slot in each.slots
    }
    slot = before[key(1)]
    with slot.segment.file.path.open("rb+") as file:
        file.seek(slot.segment.offset(slot.number) + 4096 + 4999)
        file.write(b"\xff" if content(1, 5000)[-1] != 0xFF else b"\x00")
    found = contents(directory, io, b"another boot")
    assert key(1) not in keys(found)
    faults = [fault for each in found for fault in each.faults]
    assert [fault.kind for fault in faults] == [FaultKind.CHECKSUM]


def test_a_damaged_header_is_a_fault(make_store: MakeStore, io: FileIO) -> None:
    """A mark promises a header."""
    directory = filled(make_store)
    before = {
        slot.key: slot for each in contents(directory, io, this_boot()) for slot in each.slots
    }
    slot = before[key(1)]
    with slot.segment.file.path.open("rb+") as file:
        file.seek(slot.segment.offset(slot.number) + 50)
        file.write(b"\xff\xff")
    found = contents(directory, io, this_boot())
    assert key(1) not in keys(found)
    assert [fault.kind for each in found for fault in each.faults] == [FaultKind.HEADER]
    assert keys(contents(directory, io, this_boot())) == keys(found)


def test_a_cut_off_segment_loses_what_was_cut(make_store: MakeStore, io: FileIO) -> None:
    """And says how many; what is left of it is served."""
    store = make_store()
    put(store, dict.fromkeys(range(10), 60000))
    store.close()
    (path,) = store.directory.glob("*.blocks")
    os.truncate(path, 8192 + 4 * 65536 + 70)
    (found,) = contents(store.directory, io, this_boot())
    assert found.lost == 6
    assert keys([found]) == {key(number) for number in range(4)}
