"""A device that misbehaves: each fault a miss with a counter, and the store usable afterwards."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from tiermem.runtime.file.store import FileStore
from tiermem.runtime.io.seam import FileIO
from tiermem.runtime.stores import Fault, FaultKind
from tiermem.testing.faults import FaultyIO, Trouble, at, since
from tiermem.testing.keyed_stores import content, get, is_whole, key, numbers_of, put

MakeStore = Callable[..., FileStore]
KINDS = {
    Trouble.IO: FaultKind.IO,
    Trouble.SHORT: FaultKind.SHORT,
    Trouble.NO_SPACE: FaultKind.SPACE,
    Trouble.PERMISSION: FaultKind.PERMISSION,
}


class Switch:
    """A plan that tests turn on and off: this trouble, for these operations."""

    def __init__(self) -> None:
        self.trouble: Trouble | None = None
        self.operations: tuple[str, ...] = ()

    def __call__(self, operation: str, number: int) -> Trouble | None:
        return self.trouble if operation in self.operations else None

    def on(self, trouble: Trouble, *operations: str) -> None:
        self.trouble, self.operations = trouble, operations

    def off(self) -> None:
        self.trouble = None


@pytest.fixture
def switch() -> Switch:
    """Off."""
    return Switch()


@pytest.mark.parametrize("trouble", list(KINDS))
def test_a_failed_write_is_no_block(
    make_store: MakeStore, io: FileIO, switch: Switch, trouble: Trouble
) -> None:
    """The older one stays, the slot comes back, the counter counts."""
    store = make_store(io=FaultyIO(io, switch))
    put(store, {1: 5000})
    free = store.report().free_slots
    switch.on(trouble, "write")
    for number in (1, 2):
        fault = store.write([(key(number), [content(9, 5000)], 5000)])[0]
        assert fault is not None
        assert fault.kind is KINDS[trouble]
    switch.off()
    assert is_whole(store, 1, 5000)
    assert key(2) not in store
    report = store.report()
    assert report.free_slots == free
    assert report.faults == {KINDS[trouble]: 2}
    assert report.used_bytes <= report.capacity_bytes
    assert put(store, {2: 5000}) == [None]
    assert is_whole(store, 2, 5000)


@pytest.mark.parametrize("trouble", [Trouble.IO, Trouble.SHORT, Trouble.PERMISSION, Trouble.FLIP])
def test_a_failed_read_drops_the_block(
    make_store: MakeStore, io: FileIO, switch: Switch, trouble: Trouble
) -> None:
    """It is a miss from then on, and its slot is used again."""
    store = make_store(io=FaultyIO(io, switch))
    put(store, {1: 5000, 2: 3_000_000})
    free = store.report().free_slots
    switch.on(trouble, "read")
    assert isinstance(get(store, 1, 5000), Fault)
    assert isinstance(get(store, 2, 3_000_000), Fault)
    switch.off()
    assert store.keys() == []
    report = store.report()
    assert (report.dropped, report.free_slots) == (2, free + 2)
    assert sum(report.faults.values()) == 2
    assert put(store, {1: 5000}) == [None]
    assert is_whole(store, 1, 5000)


def test_bytes_flipped_on_the_way_out_are_noticed(make_store: MakeStore, io: FileIO) -> None:
    """Whenever they are read; also after a restart."""
    faulty = FaultyIO(io, lambda operation, number: Trouble.FLIP if operation == "write" else None)
    store = make_store(io=faulty)
    put(store, {1: 9000, 2: 9000})
    assert isinstance(get(store, 1, 9000), Fault)
    store.close()
    store = make_store()
    assert isinstance(get(store, 2, 9000), Fault)


@pytest.mark.parametrize("trouble", [Trouble.IO, Trouble.NO_SPACE, Trouble.PERMISSION])
def test_a_segment_that_cannot_be_made(
    make_store: MakeStore, io: FileIO, switch: Switch, trouble: Trouble
) -> None:
    """ENOSPC, EIO or EACCES at its opening or its first write: a fault, and nothing left behind."""
    store = make_store(io=FaultyIO(io, switch))
    for operation in ("open", "write"):
        switch.on(trouble, operation)
        fault = put(store, {1: 5000})[0]
        assert fault is not None
        assert fault.kind is KINDS[trouble]
        assert list(store.directory.glob("*.blocks")) == []
        assert store.report().used_bytes == 0
    switch.off()
    assert put(store, {1: 5000}) == [None]
    assert is_whole(store, 1, 5000)


def test_permission_lost_midway(make_store: MakeStore, io: FileIO) -> None:
    """From one call on every write is refused; what is there is still read."""
    store = make_store(io=FaultyIO(io, since(8, Trouble.PERMISSION, "write", "open")))
    answers = [put(store, {number: 70_000})[0] for number in range(20)]
    good = [number for number, fault in enumerate(answers) if fault is None]
    assert 0 < len(good) < 20
    assert all(is_whole(store, number, 70_000) for number in good)
    assert store.report().faults["permission"] == 20 - len(good)


def test_a_directory_that_hangs(make_store: MakeStore, io: FileIO, switch: Switch) -> None:
    """Calls end at their deadline; slots and buffers that a late transfer may touch are nobody
    else's until it cannot; then all is as before."""
    faulty = FaultyIO(io, switch)
    store = make_store(io=faulty)
    put(store, {1: 5000, 2: 5000})
    store.deadline_s = 0.1
    switch.on(Trouble.HANG, "read", "write")
    began = time.monotonic()
    written, found = put(store, {3: 5000})[0], get(store, 1, 5000)
    assert time.monotonic() - began < 5
    assert isinstance(written, Fault)
    assert isinstance(found, Fault)
    assert written.kind is found.kind is FaultKind.TIMEOUT
    switch.off()
    store.deadline_s = 20.0
    assert is_whole(store, 2, 5000)
    assert put(store, {4: 5000}) == [None]
    faulty.release()  # the late write lands now: in a slot that nobody else has
    assert is_whole(store, 4, 5000)
    assert put(store, {5: 5000}) == [None]
    assert is_whole(store, 5, 5000)
    store.clear()
    report = store.report()
    assert report.slots == report.free_slots
    assert report.faults[FaultKind.TIMEOUT] == 2


def test_a_preparation_that_hangs(make_store: MakeStore, io: FileIO, switch: Switch) -> None:
    """Its bytes stay booked until they cannot be written any more."""
    faulty = FaultyIO(io, switch)
    store = make_store(2 << 20, io=faulty)
    store.deadline_s = 0.1
    switch.on(Trouble.HANG, "write")
    assert isinstance(put(store, {1: 500_000})[0], Fault)
    assert store.report().used_bytes > 500_000
    switch.off()
    store.deadline_s = 20.0
    faulty.release()
    assert put(store, {1: 500_000, 2: 500_000}) == [None, None]
    assert is_whole(store, 1, 500_000)


def test_a_failed_fdatasync_is_told(make_store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it was for is dropped: nothing is called durable that is not."""
    store = make_store()
    put(store, {1: 5000})
    assert store.sync() is None
    put(store, {2: 5000})

    def refuse(fd: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", refuse)
    fault = store.sync()
    assert fault is not None
    assert fault.kind is FaultKind.IO
    monkeypatch.undo()
    assert numbers_of(store) == [1]
    report = store.report()
    assert (report.faults["io"], report.dropped) == (1, 1)
    assert store.sync() is None
    store.close()
    assert numbers_of(make_store()) == [1]


def test_an_fdatasync_that_hangs(make_store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller waits for its deadline and no longer; reads go on."""
    store = make_store()
    put(store, {1: 5000})
    store.deadline_s = 0.1
    open_again = threading.Event()
    monkeypatch.setattr(os, "fdatasync", lambda fd: open_again.wait(20))
    fault = store.sync()
    assert fault is not None
    assert fault.kind is FaultKind.TIMEOUT
    assert is_whole(store, 1, 5000)
    open_again.set()
    monkeypatch.undo()
    store.deadline_s = 10.0
    assert store.sync() is None


def test_one_bad_block_in_a_batch(make_store: MakeStore, io: FileIO) -> None:
    """The others of the batch are not touched by it."""
    store = make_store(io=FaultyIO(io, at(read={4: Trouble.IO})))
    put(store, dict.fromkeys(range(10), 4096))
    rooms = [np.zeros(4096, dtype=np.uint8) for _ in range(10)]
    answers = store.read([(key(n), [room], 4096) for n, room in enumerate(rooms)])
    bad = [number for number, fault in enumerate(answers) if fault is not None]
    assert len(bad) == 1
    for number in set(range(10)) - set(bad):
        assert np.array_equal(rooms[number], content(number, 4096))
