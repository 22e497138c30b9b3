"""The file store by itself: what it reports, what it holds on to, what it lets go."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tiermem.runtime.file.store import FileStore
from tiermem.runtime.io.seam import FileIO, aligned
from tiermem.runtime.stores import FaultKind
from tiermem.testing.keyed_stores import content, get, is_whole, key, put

MakeStore = Callable[..., FileStore]
MIB = 1 << 20


def test_the_three_words_are_counted_and_timed(make_store: MakeStore) -> None:
    """Staged, written, durable: each its blocks, bytes and seconds."""
    store = make_store()
    memory = aligned(65536)
    assert store.write([(key(1), [memory], 65536)]) == [None]
    assert store.write([(key(2), [content(2, 5001)[1:]], 5000)]) == [None]
    report = store.report()
    assert report.written[:2] == (2, 70536)
    assert report.durable.blocks == 0
    assert report.staged[:2] == (1, 5000)
    assert store.sync() is None
    assert store.read([(key(1), [memory], 65536), (key(9), [memory], 65536)])[0] is None
    report = store.report()
    assert report.durable[:2] == (2, 70536)
    assert report.read[:2] == (1, 65536)
    assert min(report.written.seconds, report.durable.seconds, report.read.seconds) > 0
    assert dict(report.faults) == {"missing": 1}
    assert report.cpu_s_per_gib is not None
    assert (report.io_path, report.identity, report.blocks) == ("posix_direct", "", 2)
    assert report.cold == "cold: no earlier blocks here"


def test_what_was_written_becomes_durable_unasked(make_store: MakeStore) -> None:
    """After `settle_s`."""
    store = make_store()
    put(store, {1: 5000})
    ended = threading.Event()
    while store.report().durable.blocks < 1:
        assert not ended.wait(0.02)
    assert store.report().found_blocks == 0


def test_bytes_in_the_directory_are_told(make_store: MakeStore) -> None:
    """This process's and everyone's."""
    store = make_store()
    put(store, dict.fromkeys(range(20), 60000))
    other = make_store()
    put(other, dict.fromkeys(range(20), 60000))
    one, two = store.report(), other.report()
    assert 20 * 65536 < one.used_bytes <= store.capacity_bytes
    assert one.directory_bytes == two.directory_bytes > 40 * 65536
    assert (one.neighbours, two.neighbours) == (0, 1)
    assert one.slots - one.free_slots == 20


def test_usable_bytes_are_those_of_the_block_size(make_store: MakeStore) -> None:
    """Small blocks pay more for their headers."""
    small = make_store(16 * MIB, block_bytes=4096)
    large = make_store(16 * MIB, block_bytes=1 * MIB)
    assert 7 * MIB < small.usable_bytes < 8 * MIB < 14 * MIB < large.usable_bytes < 16 * MIB


def test_nothing_leaks(make_store: MakeStore, io: FileIO) -> None:
    """Descriptors and threads are as before, however often a store is opened and closed."""
    with make_store() as store:
        put(store, {1: 100})  # the threads of `io` start with its first transfer
    before = len(os.listdir("/proc/self/fd")), threading.active_count()
    for _ in range(5):
        with make_store() as store:
            put(store, {number: 3000 * number for number in range(1, 40)})
            assert get(store, 3, 9000) is not None
    assert (len(os.listdir("/proc/self/fd")), threading.active_count()) == before


def test_slots_come_back(make_store: MakeStore) -> None:
    """Written, replaced, failed, deleted, cleared: in the end all are free."""
    store = make_store()
    for turn in range(4):
        put(store, {number: 1000 * number for number in range(40)}, keep=turn % 2 == 0)
        store.sync()
        store.delete([key(number) for number in range(10)])
    store.clear()
    report = store.report()
    assert report.slots == report.free_slots > 0
    assert len(store) == 0
    assert key(3) not in store


def test_a_full_store_finds_room_in_what_was_replaced(make_store: MakeStore) -> None:
    """Old blocks wait for the newer ones to be durable; when room is needed that is made so."""
    store = make_store(4 * MIB)
    fitting = store.usable_bytes // 65536
    put(store, dict.fromkeys(range(fitting - 2), 65536))
    store.sync()
    for version in range(10):
        item = (key(0), [content(1000 + version, 65536)], 65536)
        assert store.write([item, item]) == [None, None]
    assert np.array_equal(get(store, 0, 65536), content(1009, 65536))


def test_large_batches_go_in_windows(make_store: MakeStore) -> None:
    """More blocks than are moved at once: all of them, in order, whole."""
    store = make_store()
    memory = aligned(1200 * 4096)
    for number in range(1200):
        memory[number * 4096 : (number + 1) * 4096] = content(number, 4096)
    views = [memory[number * 4096 : (number + 1) * 4096] for number in range(1200)]
    items = [(key(number), [view], 4096) for number, view in enumerate(views)]
    assert store.write(items) == [None] * 1200
    memory[:] = 0
    missing = [(key(5000), [aligned(4096)], 4096)]
    answers = store.read([*items[:700], *missing, *items[700:]])
    assert [at for at, fault in enumerate(answers) if fault] == [700]
    assert all(np.array_equal(views[number], content(number, 4096)) for number in range(1200))


def test_read_only_memory_can_be_written_from(make_store: MakeStore) -> None:
    """A source is not written to."""
    store = make_store()
    source = content(1, 8192)
    source.flags.writeable = False
    assert store.write([(key(1), [source], 8192)]) == [None]
    assert is_whole(store, 1, 8192)


def test_a_block_larger_than_the_store_is_a_fault(make_store: MakeStore) -> None:
    """And nothing is made for it."""
    store = make_store(4 * MIB)
    fault = put(store, {1: 5 * MIB})[0]
    assert fault is not None
    assert fault.kind is FaultKind.SPACE
    assert list(store.directory.glob("*.blocks")) == []


def test_calls_under_way_end_before_close(make_store: MakeStore, tmp_path: Path) -> None:
    """Closing waits for them, and what they wrote is found."""
    store = make_store()
    began = threading.Event()
    answers = []

    def write() -> None:
        for number in range(50):
            answers.extend(put(store, {number: 100_000}))
            began.set()

    thread = threading.Thread(target=write)
    thread.start()
    assert began.wait(20)
    store.close()
    thread.join(20)
    good = sum(fault is None for fault in answers)
    assert {fault.kind for fault in answers if fault is not None} <= {FaultKind.CLOSED}
    assert len(make_store().keys()) == good


@pytest.mark.parametrize("nbytes", [0, 1, 511, 512, 513, 4095, 4096, 4097, 8388609])
def test_odd_sizes(make_store: MakeStore, nbytes: int) -> None:
    """DeepSpeed #1070: no tail is lost; the true length is stored."""
    store = make_store(24 * MIB)
    assert put(store, {1: nbytes}) == [None]
    store.close()
    again = make_store(24 * MIB)
    assert again.keys() == [(key(1), nbytes)]
    assert is_whole(again, 1, nbytes)
