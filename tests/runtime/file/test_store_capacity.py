"""The capacity is hard: at no instant do the files of a store take more, whatever is done to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from tiermem.runtime.file.store import FileStore
from tiermem.runtime.io.seam import FileIO
from tiermem.runtime.stores import FaultKind
from tiermem.testing.faults import FaultyIO, Trouble, seeded
from tiermem.testing.keyed_stores import bytes_in, is_whole, key, numbers_of, put

MakeStore = Callable[..., FileStore]
MIB = 1 << 20


class Walker:
    """A thread that adds up the files of a directory all the time; it knows nothing of stores."""

    def __init__(self, directory: Path) -> None:
        self.most_bytes = 0
        self.walks = 0
        self._directory = directory
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._walk)
        self._thread.start()

    def _walk(self) -> None:
        while not self._ended.is_set():
            total = bytes_in(self._directory)
            if total is not None:
                self.most_bytes = max(self.most_bytes, total)
                self.walks += 1
            time.sleep(0.0005)

    def end(self) -> int:
        """The most that was ever seen."""
        self._ended.set()
        self._thread.join()
        assert self.walks > 10
        return self.most_bytes


@pytest.fixture
def walk(tmp_path: Path) -> Iterator[Walker]:
    """Walks over `tmp_path/store`, where `make_store` makes stores."""
    walker = Walker(tmp_path / "store")
    yield walker
    walker.end()


def test_three_times_the_capacity(make_store: MakeStore, walk: Walker) -> None:
    """LMCache #4725: limit 12 MiB, write 36, of one size; most of the capacity is used."""
    store = make_store(12 * MIB)
    answers = [put(store, {number: 65536})[0] for number in range(36 * MIB // 65536)]
    kinds = {fault.kind for fault in answers if fault is not None}
    assert kinds == {FaultKind.SPACE}
    assert 11 * MIB < walk.end() <= 12 * MIB
    assert store.report().used_bytes <= 12 * MIB


@pytest.mark.parametrize("seed", [1, 2])
def test_sizes_that_change(make_store: MakeStore, walk: Walker, seed: int) -> None:
    """Blocks of many sizes come and go, segments are cut anew and removed, stores are opened
    again, some transfers fail: within the capacity all the time, and what is there is right."""
    random = Random(seed)
    troubles = {Trouble.IO: 0.01, Trouble.NO_SPACE: 0.01}
    held: dict[int, int] = {}
    store = make_store(12 * MIB)
    for number in range(250):
        nbytes = random.choice((100, 5000, 60_000, 65_536, 300_000, 1_000_000, 2_000_000))
        while put(store, {number: nbytes})[0] is not None and held:
            gone = random.choice(list(held))
            del held[gone]
            store.delete([key(gone)])
        if key(number) in store:
            held[number] = nbytes
        if number % 100 == 50:
            store.close()
            io = FaultyIO(store._opened.io, seeded(seed, troubles, "write"))
            store = make_store(12 * MIB, io=io if number % 200 == 50 else store._opened.io)
            held = {each: held[each] for each in held if key(each) in store}
        if number % 130 == 129:
            store.clear()
            held = {}
    print(f"seed {seed}")
    assert all(is_whole(store, each, nbytes) for each, nbytes in held.items())
    assert walk.end() <= 12 * MIB
    assert store.report().used_bytes <= 12 * MIB


def test_all_sizes_share(make_store: MakeStore) -> None:
    """Many classes with a few blocks each leave room for each other."""
    store = make_store(16 * MIB)
    sizes = [4096 * granules for granules in (1, 2, 3, 5, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256)]
    answers = put(store, {number: sizes[number % len(sizes)] for number in range(4 * len(sizes))})
    assert answers == [None] * len(answers)


def test_one_size_after_the_other(make_store: MakeStore, walk: Walker) -> None:
    """A cache that changes the size of its blocks gets the whole capacity for the new ones."""
    store = make_store(12 * MIB)
    for turn, nbytes in enumerate((4096, 65_536, 1_000_000, 65_536, 5 * MIB, 4096)):
        count = 0
        while put(store, {turn * 10_000 + count: nbytes}) == [None]:
            count += 1
        assert count * nbytes > 0.4 * 12 * MIB, nbytes
        store.delete(map(key, numbers_of(store)))
    assert walk.end() <= 12 * MIB


def test_each_process_has_its_own(make_store: MakeStore, io: FileIO) -> None:
    """Two stores on one directory: each within its capacity, and the total is told."""
    one, two = make_store(4 * MIB), make_store(4 * MIB)
    for number in range(100):
        put(one, {number: 65536})
        put(two, {1000 + number: 65536})
    for store in (one, two):
        report = store.report()
        assert 3 * MIB < report.used_bytes <= 4 * MIB
        assert 6 * MIB < report.directory_bytes <= 8 * MIB
    one.close()
    two.close()
    three = make_store(4 * MIB)
    assert three.report().used_bytes <= 4 * MIB
    assert three.report().directory_bytes <= 4 * MIB
