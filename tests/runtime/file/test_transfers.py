"""Windows of blocks, between the lock and the device."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from tiermem.runtime.file.builder import Builder
from tiermem.runtime.file.cuts import Block, cut
from tiermem.runtime.file.index import Index
from tiermem.runtime.file.plan import plan
from tiermem.runtime.file.report import Tally
from tiermem.runtime.file.room import Room
from tiermem.runtime.file.scratch import Scratch
from tiermem.runtime.file.transfers import Shop, Transfers
from tiermem.runtime.io.seam import FileIO, aligned
from tiermem.runtime.stores import Buffer, Fault, FaultKind
from tiermem.testing.faults import FaultyIO, Trouble
from tiermem.testing.keyed_stores import content, key


class Bench:
    """Transfers over 2 MiB and a device whose trouble can be set."""

    def __init__(self, builder: Builder, io: FileIO) -> None:
        self.lock = threading.Lock()
        self.trouble: Trouble | None = None
        self.io = FaultyIO(io, lambda operation, number: self.trouble)
        self.index = Index(lambda slot: self.room.give(slot.segment, slot.number), self.fail)
        self.room = Room(plan(2 << 20, 256 << 20), builder, self.lock, lambda: self.index.newest)
        self.tally = Tally()
        self.scratch = Scratch(aligned)
        shop = Shop(self.io, self.room, self.index, self.scratch, self.tally)
        self.transfers = Transfers(shop, self.lock)

    def fail(self, error: OSError) -> None:
        raise error

    @property
    def deadline_s(self) -> float:
        return 0.1 if self.trouble is Trouble.HANG else 20.0

    def write(self, *numbers: int, nbytes: int = 5000) -> list[Fault | None]:
        blocks = [Block(key(n), nbytes, cut([content(n, nbytes)], nbytes)) for n in numbers]
        return self.transfers.write(blocks, True, self.deadline_s)

    def read(self, *numbers: int, nbytes: int = 5000) -> list[Fault | None]:
        self.rooms: list[Buffer] = [np.zeros(nbytes, dtype=np.uint8) for _ in numbers]
        blocks = [
            Block(key(n), nbytes, cut([room], nbytes))
            for n, room in zip(numbers, self.rooms, strict=True)
        ]
        return self.transfers.read(blocks, self.deadline_s)

    @property
    def free(self) -> int:
        return sum(segment.free_slots for segment in self.room.segments)

    @property
    def slots(self) -> int:
        return sum(segment.ready for segment in self.room.segments)


@pytest.fixture
def bench(builder: Builder, io: FileIO) -> Iterator[Bench]:
    """See `Bench`."""
    made = Bench(builder, io)
    yield made
    made.room.close()


def kinds(answers: list[Fault | None]) -> list[str]:
    return ["good" if fault is None else fault.kind.value for fault in answers]


def test_answers_are_in_order(bench: Bench) -> None:
    """Good, missing and of another length, each in its place."""
    assert kinds(bench.write(1, 2, 3)) == ["good"] * 3
    assert kinds(bench.read(3, 7, 1)) == ["good", "missing", "good"]
    assert np.array_equal(bench.rooms[2], content(1, 5000))
    assert kinds(bench.read(1, nbytes=4999)) == ["missing"]
    assert kinds(bench.read(1)) == ["good"]


def test_what_does_not_fit_is_refused_alone(bench: Bench) -> None:
    """Blocks before and after it in the window are written."""
    blocks = [
        Block(key(number), nbytes, cut([content(number, nbytes)], nbytes))
        for number, nbytes in ((1, 5000), (2, 9 << 20), (3, 100))
    ]
    assert kinds(bench.transfers.write(blocks, True, 10.0)) == ["good", "space", "good"]


def test_a_slot_is_pinned_while_it_is_read(bench: Bench) -> None:
    """Deleted in the middle of a read: free only after it."""
    bench.write(1)
    free = bench.free
    slot = bench.index.slots[key(1)]
    original = bench.io.transfer

    def meanwhile(pieces: object, deadline_s: float) -> object:
        with bench.lock:
            bench.index.drop([key(1)])
            assert bench.free == free
            assert slot.readers == 1
        return original(pieces, deadline_s)  # type: ignore[arg-type]

    bench.io.transfer = meanwhile  # type: ignore[method-assign, assignment]
    assert kinds(bench.read(1)) == ["good"]
    assert np.array_equal(bench.rooms[0], content(1, 5000))
    assert bench.free == free + 1


def test_a_late_write_keeps_its_slot(bench: Bench) -> None:
    """Nobody else gets it while the device may still write to it; then it is free."""
    bench.write(1, 11, 12, 13, 14)
    bench.index.drop([key(number) for number in (11, 12, 13, 14)])
    free = bench.free
    bench.trouble = Trouble.HANG
    assert kinds(bench.write(2)) == ["timeout"]
    bench.trouble = None
    assert bench.free == free - 1
    assert kinds(bench.write(3)) == ["good"]
    assert bench.free == free - 2
    bench.io.release()
    assert kinds(bench.write(4)) == ["good"]
    assert bench.free == free - 2
    assert kinds(bench.read(3, 4, 2)) == ["good", "good", "missing"]
    assert np.array_equal(bench.rooms[0], content(3, 5000))


def test_scratch_memory_comes_back_unless_it_is_late(bench: Bench) -> None:
    """A page that a late read may still fill is not given to the next one."""
    bench.write(1, 2)
    bench.read(1)
    pages = len(bench.scratch._pages)
    bench.read(1)
    assert len(bench.scratch._pages) == pages
    bench.trouble = Trouble.HANG
    assert kinds(bench.read(1)) == ["timeout"]
    bench.trouble = None
    assert len(bench.scratch._pages) < pages
    bench.io.release()


def test_a_closed_path_drops_nothing(bench: Bench, io: FileIO) -> None:
    """That it is closed says nothing about the blocks."""
    bench.write(1)
    io.close()
    assert kinds(bench.read(1)) == ["closed"]
    assert key(1) in bench.index.slots
    assert bench.tally.dropped == 0


def test_many_writers_of_one_key(bench: Bench) -> None:
    """One of them wins, and no slot is lost."""
    threads = [threading.Thread(target=bench.write, args=(1, 2, 1)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kinds(bench.read(1, 2)) == ["good", "good"]
    assert bench.free == bench.slots - 2
    assert FaultKind.SPACE not in bench.tally.faults
