"""Damage on the device: each byte of a slot, files cut short, files replaced. Never data."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tiermem.runtime.file import slot as layout
from tiermem.runtime.file.head import Head, parse
from tiermem.runtime.file.store import FileStore
from tiermem.runtime.io.posix import PosixIO
from tiermem.testing.keyed_stores import is_whole, key, put

MakeStore = Callable[..., FileStore]


def the_file(store: FileStore) -> Path:
    (path,) = store.directory.glob("*.blocks")
    return path


def first_slot(path: Path) -> int:
    head = parse(path.read_bytes()[:4096])
    assert isinstance(head, Head)
    return head.start


def test_each_byte_of_a_slot(make_store: MakeStore) -> None:
    """Flip one, read: a miss, counted, dropped; for all bytes, header and padding included.

    Buffered, since 8192 device writes say no more than 8192 writes to the page cache."""
    nbytes, io = 100, PosixIO(direct=False, threads=1)
    store = make_store(io=io)
    put(store, {1: nbytes})
    slot = store._index.slots[key(1)]
    start, path = first_slot(the_file(store)), the_file(store)
    size = layout.header_bytes(nbytes) + layout.padded_bytes(nbytes)
    assert size == slot.segment.head.slot_bytes, "a slot has no other bytes"
    room = np.zeros(nbytes, dtype=np.uint8)
    with path.open("rb+", buffering=0) as file:
        for at in range(start, start + size):
            file.seek(at)
            byte = file.read(1)
            file.seek(at)
            file.write(bytes([byte[0] ^ (1 << at % 8)]))
            assert key(1) in store
            (fault,) = store.read([(key(1), [room], nbytes)])
            assert fault is not None, f"byte {at - start} of the slot was flipped and was served"
            assert fault.kind in ("checksum", "header")
            assert key(1) not in store
            put(store, {1: nbytes})
            assert store._index.slots[key(1)].number == slot.number
    assert is_whole(store, 1, nbytes)
    report = store.report()
    assert report.faults["checksum"] + report.faults["header"] == report.dropped == size
    assert report.faults["checksum"] >= layout.padded_bytes(nbytes)
    store.close()
    io.close()


def test_each_byte_of_a_slot_found_at_open(make_store: MakeStore) -> None:
    """A sample of the header's bytes: found at open as a fault, or by the read."""
    store = make_store()
    put(store, {1: 5000})
    store.close()
    path = the_file(store)
    whole = path.read_bytes()
    start = first_slot(path)
    for at in range(start, start + 4096, 97):
        damaged = bytearray(whole)
        damaged[at] ^= 0x40
        path.write_bytes(damaged)
        store = make_store()
        assert not is_whole(store, 1, 5000)
        assert sum(store.report().faults.values()) > 0
        store.close()


@pytest.mark.parametrize("left", [0, 1, 4095, 4096, 8192, 12288, 12289, 16384, 20479])
def test_a_file_cut_short(make_store: MakeStore, left: int) -> None:
    """To nothing, in its head, its marks, its first slot, its last byte: a miss each time, and the
    store goes on."""
    store = make_store()
    put(store, {1: 8192})
    store.close()
    path = the_file(store)
    os.truncate(path, min(left, first_slot(path) + 12287))
    store = make_store()
    assert not is_whole(store, 1, 8192)
    report = store.report()
    assert report.cold is not None
    assert report.ignored or report.faults
    assert put(store, {1: 8192}) == [None]
    assert is_whole(store, 1, 8192)


def test_a_file_cut_short_while_open(make_store: MakeStore) -> None:
    """Short reads are faults, and new blocks are not harmed."""
    store = make_store()
    put(store, dict.fromkeys(range(10), 60000))
    os.truncate(the_file(store), first_slot(the_file(store)) + 3 * 65536 + 10_000)
    whole = [number for number in range(10) if is_whole(store, number, 60_000)]
    assert whole == [0, 1, 2]
    assert store.report().faults["short"] >= 6
    assert put(store, dict.fromkeys(range(20, 30), 60000)) == [None] * 10
    assert all(is_whole(store, number, 60_000) for number in range(20, 30))


def test_half_a_large_block_is_none(make_store: MakeStore) -> None:
    """llama.cpp #27068: a fault in the second half is a fault of the whole."""
    store = make_store(24 << 20)
    put(store, {1: 6_000_000})
    with the_file(store).open("rb+") as file:
        file.seek(first_slot(the_file(store)) + 4_000_000)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    assert not is_whole(store, 1, 6_000_000)
    assert store.report().dropped == 1
    assert store.report().faults["checksum"] == 1
    put(store, {2: 100})
    assert is_whole(store, 2, 100)


def test_a_slot_copied_over_another(make_store: MakeStore) -> None:
    """Whole, but in the wrong place: not that block."""
    store = make_store()
    put(store, {1: 4096, 2: 4096})
    start = first_slot(the_file(store))
    with the_file(store).open("rb+") as file:
        file.seek(start)
        one = file.read(8192)
        file.write(one)
    assert is_whole(store, 1, 4096)
    assert not is_whole(store, 2, 4096)
