"""Which bytes belong to which block: extents in memory tiers, keys in file tiers.

The core says what is where; this keeps the addresses. Everything here is called from the one
thread that runs the core, except `views`, which movers call for what the core has pinned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any, cast

from tiermem.errors import InputError
from tiermem.runtime.sizes import charged_bytes
from tiermem.runtime.stores import Extent, Fault, FaultKind, KeyedStore, MemoryStore, Store


class Names:
    """Blocks by key: the core counts in small integers, storage in keys that mean content."""

    def __init__(self) -> None:
        self._blocks: dict[bytes, int] = {}
        self._named: dict[int, tuple[bytes, int, bool]] = {}
        self._next = count()
        self._again: set[int] = set()  # named more than once since they were expected to go

    def block(self, key: bytes, nbytes: int, *, keep: bool = True) -> int:
        """The block called `key`, the same at every call. `keep`: later processes should find it.

        Raises `InputError` for a size other than before: a key means one content."""
        block = self._blocks.get(key)
        if block is None:
            block = self._blocks[key] = next(self._next)
            self._named[block] = key, nbytes, keep
            return block
        known = self._named[block]
        if known != (key, nbytes, keep):
            if known[1] != nbytes:
                raise InputError(f"key {key.hex()} has {known[1]:,} bytes, not {nbytes:,}")
            self._named[block] = key, nbytes, keep
        self._again.add(block)
        return block

    def expect_no_more(self, blocks: Iterable[int]) -> None:
        """Unless they are named again from now on, `discard` may forget these blocks."""
        self._again.difference_update(blocks)

    def discard(self, block: int) -> None:
        """Nobody will speak of `block` again, unless somebody has named it since it was expected to
        go; its key may mean something else one day."""
        named = None if block in self._again else self._named.pop(block, None)
        if named is not None:
            del self._blocks[named[0]]

    def named(self, block: int) -> bool:
        """Whether `block` still has a name."""
        return block in self._named

    def find(self, key: bytes) -> int | None:
        """The block called `key`, if anybody named it yet."""
        return self._blocks.get(key)

    def key(self, block: int) -> bytes:
        """The key of `block`."""
        return self._named[block][0]

    def nbytes(self, block: int) -> int:
        """The true bytes of `block`; every tier charges its size class."""
        return self._named[block][1]

    def kept(self, block: int) -> bool:
        """Whether `block` is to be found after a restart."""
        return self._named[block][2]


class Inventory:
    """The bytes of every copy there is."""

    def __init__(self, stores: Mapping[str, Store], names: Names) -> None:
        self.names = names
        self.memory: dict[str, MemoryStore] = {}
        self.files: dict[str, KeyedStore] = {}
        self._extents: dict[str, dict[int, Extent]] = {}
        self.stuck_bytes = 0  # extents that a transfer past its deadline may yet write to
        for tier, store in stores.items():
            if hasattr(store, "allocate"):
                self.memory[tier] = cast(MemoryStore, store)
                self._extents[tier] = {}
            else:
                self.files[tier] = store

    def capacity_bytes(self, tier: str) -> int:
        """What the core may put there."""
        store = self.files.get(tier)
        return self.memory[tier].capacity_bytes if store is None else store.usable_bytes

    def allocate(self, tier: str, blocks: Iterable[int]) -> Fault | None:
        """Room for `blocks` in a memory tier, all or none; in a file tier a write makes it."""
        if tier in self.files:
            return None
        store, extents = self.memory[tier], self._extents[tier]
        made: list[int] = []
        for block in blocks:
            if block in extents:
                continue
            extent = store.allocate(charged_bytes(self.names.nbytes(block)))
            if extent is None:
                self.free(tier, made)
                return Fault(FaultKind.SPACE, f"tier {tier!r} has no {self.names.nbytes(block)} B")
            extents[block] = extent
            made.append(block)
        return None

    def free(self, tier: str, blocks: Iterable[int]) -> None:
        """These copies are gone."""
        if tier in self.files:
            self.files[tier].delete([self.names.key(block) for block in blocks])
            return
        store, extents = self.memory[tier], self._extents[tier]
        for block in blocks:
            extent = extents.pop(block, None)
            if extent is not None:
                store.free(extent)

    def strand(self, tier: str, blocks: Iterable[int]) -> None:
        """Copies whose bytes a hanging transfer may still touch: gone, but nobody gets the room."""
        if tier in self.files:
            return
        for block in blocks:
            extent = self._extents[tier].pop(block, None)
            if extent is not None:
                self.stuck_bytes += sum(span.nbytes for span in extent)

    def views(self, tier: str, block: int) -> Sequence[Any]:
        """The bytes of `block` in a memory tier, without a copy."""
        return self.memory[tier].views(self._extents[tier][block], self.names.nbytes(block))

    def extent(self, tier: str, block: int) -> Extent:
        """Where `block` lies in a memory tier."""
        return self._extents[tier][block]

    def close(self) -> None:
        """Let every store go."""
        for memory in self.memory.values():
            memory.close()
        for files in self.files.values():
            files.close()
