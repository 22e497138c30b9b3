"""What every keyed store must do, as a suite to inherit; and blocks to try it with.

    from tiermem.testing.keyed_stores import KeyedStoreTests

    class TestMyStore(KeyedStoreTests):
        def make(self, directory, capacity_bytes):
            return MyStore(directory, capacity_bytes)

`make` is called again with the same directory to see what is found after a restart.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np

from tiermem.runtime.stores import Buffer, Fault, FaultKind, KeyedStore

ODD_SIZES = (0, 1, 511, 512, 513, 4095, 4096, 4097, 65536, 8388609)
CAPACITY_BYTES = 64 << 20


def key(number: int) -> bytes:
    """The key of block `number`."""
    return number.to_bytes(16, "big")


def content(number: int, nbytes: int) -> Buffer:
    """Bytes that only this block has: the same ones in every process."""
    return np.random.Generator(np.random.SFC64(number)).integers(
        0, 256, nbytes, dtype=np.uint8, endpoint=False
    )


def put(store: KeyedStore, blocks: Mapping[int, int], *, keep: bool = True) -> list[Fault | None]:
    """Write blocks `number: nbytes` with their own content."""
    items = [(key(each), [content(each, nbytes)], nbytes) for each, nbytes in blocks.items()]
    return store.write(items, keep=keep)


def get(store: KeyedStore, number: int, nbytes: int) -> Buffer | Fault:
    """What the store has for block `number`."""
    room = np.full(nbytes, 0xA5, dtype=np.uint8)
    fault = store.read([(key(number), [room], nbytes)])[0]
    return room if fault is None else fault


def numbers_of(store: KeyedStore) -> list[int]:
    """The blocks that the store lists, by number."""
    listed = store.keys()
    return [int.from_bytes(name, "big") for name, _ in listed]


def is_whole(store: KeyedStore, number: int, nbytes: int) -> bool:
    """Whether block `number` is there; wrong bytes are an AssertionError, never an answer."""
    found = get(store, number, nbytes)
    if isinstance(found, Fault):
        return False
    assert np.array_equal(found, content(number, nbytes)), f"wrong bytes for block {number}"
    return True


def bytes_in(directory: Path) -> int | None:
    """What the files of a directory take, by length or by blocks, whichever is more. None if they
    changed meanwhile: only two equal looks in a row saw one moment."""
    first, second = _look(directory), _look(directory)
    return sum(first.values()) if first == second else None


def _look(directory: Path) -> dict[str, int]:
    seen = {}
    with contextlib.suppress(FileNotFoundError):
        for entry in os.scandir(directory):
            with contextlib.suppress(FileNotFoundError):
                fields = os.stat(entry.path)
                seen[entry.name] = max(fields.st_blocks * 512, fields.st_size)
    return seen


def pieces_of(buffer: Buffer, cuts: list[int]) -> list[Buffer]:
    """`buffer` in several views, cut at `cuts`."""
    edges = [0, *sorted(cuts), len(buffer)]
    return [buffer[start:end] for start, end in pairwise(edges)]


class KeyedStoreTests:
    """Inherit and override `make`."""

    def make(self, directory: Path, capacity_bytes: int) -> KeyedStore:
        """The store of `directory`; what was there before is found again."""
        raise NotImplementedError

    def test_empty_is_a_state(self, tmp_path: Path) -> None:
        """Nothing in it, nothing wrong; and again after a restart."""
        for _ in range(2):
            store = self.make(tmp_path, CAPACITY_BYTES)
            assert store.keys() == []
            found = get(store, 1, 10)
            assert isinstance(found, Fault)
            assert found.kind is FaultKind.MISSING
            store.delete([key(1)])
            store.clear()
            assert store.sync() is None
            assert store.write([]) == []
            assert store.read([]) == []
            store.close()

    def test_every_size_comes_back(self, tmp_path: Path) -> None:
        """Any number of bytes, none included, exactly; also after a restart."""
        store = self.make(tmp_path, CAPACITY_BYTES)
        blocks = dict(enumerate(ODD_SIZES))
        assert put(store, blocks) == [None] * len(blocks)
        for _ in range(2):
            assert store.keys() == [(key(each), nbytes) for each, nbytes in blocks.items()]
            assert all(is_whole(store, each, nbytes) for each, nbytes in blocks.items())
            assert store.sync() is None
            store.close()
            store = self.make(tmp_path, CAPACITY_BYTES)
        store.close()

    def test_buffers_lie_anyhow(self, tmp_path: Path) -> None:
        """One block in several views, at odd addresses, in and out."""
        store = self.make(tmp_path, CAPACITY_BYTES)
        random = Random(5)
        for number, nbytes in enumerate((10, 5000, 70_000, 3_000_001)):
            cuts = [random.randrange(nbytes + 1) for _ in range(number + 2)]
            whole = np.concatenate([np.zeros(3, np.uint8), content(number, nbytes)])[3:]
            views = pieces_of(whole, cuts)
            assert store.write([(key(number), views, nbytes)]) == [None]
            room = np.zeros(nbytes + 1, dtype=np.uint8)[1:]
            rooms = pieces_of(room, [random.randrange(nbytes + 1) for _ in range(3)])
            assert store.read([(key(number), rooms, nbytes)]) == [None]
            assert np.array_equal(room, whole)
            assert is_whole(store, number, nbytes)
        store.close()

    def test_the_source_may_change_after_the_write(self, tmp_path: Path) -> None:
        """On return the bytes are the store's: the caller's buffer is free."""
        store = self.make(tmp_path, CAPACITY_BYTES)
        source = content(1, 100_000)
        assert store.write([(key(1), [source], 100_000)]) == [None]
        source[:] = 0
        assert is_whole(store, 1, 100_000)
        store.close()

    def test_a_longer_buffer_is_not_used_up(self, tmp_path: Path) -> None:
        """The first `nbytes` count, and no byte behind them is touched."""
        store = self.make(tmp_path, CAPACITY_BYTES)
        put(store, {1: 5000})
        room = np.full(8192, 7, dtype=np.uint8)
        assert store.read([(key(1), [room], 5000)]) == [None]
        assert np.array_equal(room[:5000], content(1, 5000))
        assert (room[5000:] == 7).all()
        store.close()

    def test_a_newer_write_replaces(self, tmp_path: Path) -> None:
        """The same key again: the newer bytes and length, once, and last in `keys`."""
        store = self.make(tmp_path, CAPACITY_BYTES)
        put(store, {1: 3000, 2: 100})
        assert store.write([(key(1), [content(9, 9000)], 9000)]) == [None]
        assert store.keys() == [(key(2), 100), (key(1), 9000)]
        found = get(store, 1, 9000)
        assert not isinstance(found, Fault)
        assert np.array_equal(found, content(9, 9000))
        store.close()

    def test_another_length_is_a_miss(self, tmp_path: Path) -> None:
        """A block is asked for with its length; another one is no block, and harms none."""
        store = self.make(tmp_path, CAPACITY_BYTES)
        put(store, {1: 3000})
        for nbytes in (2999, 3001, 0):
            assert isinstance(get(store, 1, nbytes), Fault)
        assert is_whole(store, 1, 3000)
        store.close()

    def test_deleted_and_cleared_are_gone(self, tmp_path: Path) -> None:
        """At once, and after a restart; the others stay."""
        store = self.make(tmp_path, CAPACITY_BYTES)
        put(store, {1: 100, 2: 5000, 3: 70_000})
        store.sync()
        store.delete([key(2), key(77)])
        assert numbers_of(store) == [1, 3]
        store.close()
        store = self.make(tmp_path, CAPACITY_BYTES)
        assert numbers_of(store) == [1, 3]
        store.clear()
        assert store.keys() == []
        store.close()
        store = self.make(tmp_path, CAPACITY_BYTES)
        assert store.keys() == []
        assert not is_whole(store, 1, 100)
        store.close()

    def test_what_is_not_kept_does_not_come_back(self, tmp_path: Path) -> None:
        """`keep=False`: served until the store is closed, and never after."""
        store = self.make(tmp_path, CAPACITY_BYTES)
        put(store, {1: 5000}, keep=False)
        put(store, {2: 5000})
        assert is_whole(store, 1, 5000)
        store.sync()
        store.close()
        store = self.make(tmp_path, CAPACITY_BYTES)
        assert store.keys() == [(key(2), 5000)]
        store.close()

    def test_full_is_a_fault(self, tmp_path: Path) -> None:
        """More than fits is refused block by block, what is there stays, and what is let go can be
        used again. Blocks of one size fit up to `usable_bytes`."""
        store = self.make(tmp_path, 8 << 20)
        nbytes = 64 << 10
        promised = store.usable_bytes // nbytes
        assert promised > (6 << 20) // nbytes
        answers = [put(store, {number: nbytes})[0] for number in range(promised)]
        assert answers == [None] * promised
        beyond = [put(store, {promised + more: nbytes})[0] for more in range(promised)]
        refused = [fault for fault in beyond if fault is not None]
        assert refused, "a store never takes more than its capacity"
        assert {fault.kind for fault in refused} == {FaultKind.SPACE}
        assert all(is_whole(store, number, nbytes) for number in range(promised))
        store.delete([key(number) for number in range(promised)])
        again = [put(store, {1000 + number: nbytes})[0] for number in range(promised)]
        assert again == [None] * promised
        store.close()

    def test_closed_is_a_fault(self, tmp_path: Path) -> None:
        """After `close` every transfer answers `closed`; closing twice is closing once."""
        store = self.make(tmp_path, CAPACITY_BYTES)
        put(store, {1: 100})
        store.close()
        store.close()
        for fault in (put(store, {2: 100})[0], get(store, 1, 100)):
            assert isinstance(fault, Fault)
            assert fault.kind is FaultKind.CLOSED

    def test_many_threads(self, tmp_path: Path) -> None:
        """Writers, readers and a sync at once: no wrong bytes, and all are there in the end."""
        store = self.make(tmp_path, CAPACITY_BYTES)
        mistakes: list[BaseException] = []

        def work(first: int) -> None:
            try:
                for number in range(first, first + 20):
                    assert put(store, {number: 3000 + number}) == [None]
                    assert is_whole(store, number, 3000 + number)
                    if number % 5 == 0:
                        store.sync()
            except BaseException as mistake:
                mistakes.append(mistake)

        threads = [threading.Thread(target=work, args=(first,)) for first in range(0, 120, 20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not mistakes, mistakes
        assert all(is_whole(store, number, 3000 + number) for number in range(120))
        store.close()
