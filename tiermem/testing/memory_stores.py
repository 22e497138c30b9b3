"""What every memory store must do, as a suite to inherit.

    from tiermem.testing.memory_stores import MemoryStoreTests

    class TestHostArena(MemoryStoreTests):
        def make(self, capacity_bytes):
            return HostArena(capacity_bytes)

A store whose views are no numpy arrays overrides `fill` and `content` too.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from tiermem.runtime.sizes import GRANULE_BYTES
from tiermem.runtime.stores import Extent, MemoryStore, Span

G = GRANULE_BYTES


class MemoryStoreTests:
    """Inherit and override `make`."""

    def make(self, capacity_bytes: int) -> MemoryStore:
        """A new store of `capacity_bytes`."""
        raise NotImplementedError

    def fill(self, view: Any, data: bytes) -> None:
        """Write `data`, as long as `view`, into it."""
        view[:] = np.frombuffer(data, dtype=np.uint8)

    def content(self, view: Any) -> bytes:
        """What `view` holds."""
        return bytes(view)

    def put(self, store: MemoryStore, extent: Extent, data: bytes) -> None:
        """Write `data` over the views of `extent`."""
        at = 0
        for view in store.views(extent, len(data)):
            self.fill(view, data[at : at + len(view)])
            at += len(view)
        assert at == len(data), "views hold exactly the bytes asked for"

    def get(self, store: MemoryStore, extent: Extent, nbytes: int) -> bytes:
        """What the views of `extent` hold."""
        return b"".join(self.content(view) for view in store.views(extent, nbytes))

    def given(self, store: MemoryStore, nbytes: int) -> Extent:
        """Room that must be there."""
        extent = store.allocate(nbytes)
        assert extent is not None, f"{nbytes} bytes are free and were not given"
        return extent

    def test_capacity_is_what_was_asked(self) -> None:
        """The bytes asked for, rounded up to whole granules and to nothing else."""
        for asked, capacity in ((1, G), (G, G), (G + 1, 2 * G), (65 * G, 65 * G)):
            store = self.make(asked)
            assert store.capacity_bytes == capacity
            assert store.used_bytes == 0
            assert store.name
            assert store.kind
            store.close()

    def test_gives_whole_granules(self) -> None:
        """Every span is aligned and inside; the room suffices, by less than a granule more."""
        store = self.make(64 * G)
        for nbytes in (1, G - 1, G, G + 1, 5 * G - 7):
            extent = self.given(store, nbytes)
            assert all(at % G == 0 == size % G for at, size in extent)
            assert nbytes <= sum(size for _, size in extent) < nbytes + G
        store.close()

    def test_room_without_bytes_is_room(self) -> None:
        """Zero bytes take one granule and have no view."""
        store = self.make(4 * G)
        extent = self.given(store, 0)
        assert store.used_bytes == G
        assert store.views(extent, 0) == []
        store.close()

    def test_never_more_than_its_capacity(self) -> None:
        """A full store gives nothing, and what it refuses costs nothing."""
        store = self.make(8 * G)
        assert store.allocate(8 * G + 1) is None
        assert store.used_bytes == 0
        extent = self.given(store, 8 * G)
        assert store.allocate(1) is None
        assert store.used_bytes == 8 * G
        store.free(extent)
        assert store.used_bytes == 0
        store.close()

    def test_contiguous_where_possible(self) -> None:
        """Free neighbours become one room again, and a block gets one span while one fits."""
        store = self.make(8 * G)
        parts = [self.given(store, G) for _ in range(8)]
        assert all(len(part) == 1 for part in parts)
        for number in (1, 4, 3, 6):
            store.free(parts[number])
        assert len(self.given(store, 2 * G)) == 1
        store.close()

    def test_scattered_where_necessary(self) -> None:
        """Room that lies in pieces is given in pieces, before anything is refused."""
        store = self.make(8 * G)
        parts = [self.given(store, G) for _ in range(8)]
        for part in parts[::2]:
            store.free(part)
        extent = self.given(store, 4 * G)
        assert len(extent) == 4
        data = bytes(Random(3).randbytes(4 * G))
        self.put(store, extent, data)
        assert self.get(store, extent, 4 * G) == data
        assert store.allocate(1) is None
        store.close()

    def test_views_are_the_memory_itself(self) -> None:
        """What is written through a view is there for whoever asks for a view later."""
        store = self.make(16 * G)
        extent = self.given(store, 3 * G)
        for nbytes in (1, 511, 513, G, 2 * G + 1, 3 * G):
            data = Random(nbytes).randbytes(nbytes)
            self.put(store, extent, data)
            assert self.get(store, extent, nbytes) == data
        store.close()

    def test_random_histories(self) -> None:
        """Blocks of every size come and go; the bytes of each stay its own, and none is lost."""
        for seed in range(6):
            self.run_history(Random(seed), capacity=96)

    def run_history(self, random: Random, capacity: int) -> None:
        """Three hundred steps against a list of who owns which granule."""
        store = self.make(capacity * G)
        owners: list[int | None] = [None] * capacity
        held: dict[int, tuple[Extent, bytes]] = {}
        for step in range(300):
            if held and random.random() < 0.45:
                gone = random.choice(sorted(held))
                extent, data = held.pop(gone)
                assert self.get(store, extent, len(data)) == data
                self.own(owners, extent, gone, None)
                store.free(extent)
            else:
                data = random.randbytes(random.randint(1, 14 * G))
                need = -(-len(data) // G)
                room = store.allocate(len(data))
                assert (room is None) == (need > owners.count(None))
                if room is not None:
                    self.own(owners, room, None, step)
                    self.put(store, room, data)
                    held[step] = (room, data)
            assert store.used_bytes == (capacity - owners.count(None)) * G
        for extent, data in held.values():
            assert self.get(store, extent, len(data)) == data
            store.free(extent)
        assert self.given(store, capacity * G) == (Span(0, capacity * G),)
        store.close()

    def own(
        self, owners: list[int | None], extent: Extent, before: int | None, after: int | None
    ) -> None:
        """Each granule of `extent` passes from `before` to `after`."""
        for at, size in extent:
            for granule in range(at // G, (at + size) // G):
                assert owners[granule] == before, "two blocks share a granule"
                owners[granule] = after

    def test_close_ends_it(self) -> None:
        """After close nothing is given; closing again changes nothing."""
        store = self.make(4 * G)
        self.given(store, G)
        store.close()
        store.close()
        assert store.allocate(1) is None
