"""Moving the bytes of a batch of blocks from one tier to another: direct, or through staging.

A mover waits; it is called on worker threads, with blocks that the core has pinned. It answers
with the blocks that did not get there and why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tiermem.runtime.inventory import Inventory
from tiermem.runtime.stores import Buffer, Fault, Item

Lost = dict[int, Fault]
"""Blocks that failed, and how."""

STAGING_BYTES = 64 << 20
"""Of the bytes that pass through pageable memory between two tiers that share no path."""


class Mover:
    """Carries blocks between the stores of one inventory."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._names = inventory.names

    def move(self, blocks: Sequence[int], source: str, target: str) -> Lost:
        """Copy `blocks`, whose room at `target` is allocated; return when their bytes are there."""
        memory, files = self._inventory.memory, self._inventory.files
        if source in memory and target in memory:
            return self._copy(blocks, source, target)
        if source in memory:
            return self._write(blocks, source, target)
        if target in files:
            return self._relay(blocks, source, target)
        return self._read(blocks, source, target)

    def _copy(self, blocks: Sequence[int], source: str, target: str) -> Lost:
        """Memory to memory. A device's copies run side by side on its streams."""
        inventory, under_way = self._inventory, []
        upper, lower = inventory.memory[source], inventory.memory[target]
        for block in blocks:
            nbytes = self._names.nbytes(block)
            if lower.kind == "device":
                host = inventory.views(source, block)
                device: Any = lower
                under_way.append(device.copy_in(inventory.extent(target, block), nbytes, host))
            elif upper.kind == "device":
                host = inventory.views(target, block)
                device = upper
                under_way.append(device.copy_out(inventory.extent(source, block), nbytes, host))
            else:
                copy_bytes(inventory.views(source, block), inventory.views(target, block))
        for copy in under_way:
            copy.wait()
        return {}

    def _write(self, blocks: Sequence[int], source: str, target: str) -> Lost:
        lost: Lost = {}
        for keep in (True, False):
            some = [block for block in blocks if self._names.kept(block) is keep]
            for batch in self._batches(some, source):
                items = [self._outgoing(block, source) for block in batch]
                faults = self._inventory.files[target].write(items, keep=keep)
                lost |= _failed(batch, faults)
        return lost

    def _read(self, blocks: Sequence[int], source: str, target: str) -> Lost:
        lost: Lost = {}
        store = self._inventory.memory[target]
        for batch in self._batches(blocks, target):
            items = [self._incoming(block, target) for block in batch]
            failed = _failed(batch, self._inventory.files[source].read(items))
            lost |= failed
            if store.kind != "device":
                continue
            device: Any = store
            under_way = [
                device.copy_in(self._inventory.extent(target, block), nbytes, buffers)
                for block, (_, buffers, nbytes) in zip(batch, items, strict=True)
                if block not in failed
            ]
            for copy in under_way:
                copy.wait()
        return lost

    def _relay(self, blocks: Sequence[int], source: str, target: str) -> Lost:
        """File to file, through memory of our own."""
        lost: Lost = {}
        files = self._inventory.files
        for batch in self._batches(blocks, None):
            items = [self._staged(block) for block in batch]
            failed = _failed(batch, files[source].read(items))
            left = [pair for pair in zip(batch, items, strict=True) if pair[0] not in failed]
            lost |= failed
            for keep in (True, False):
                some = [(b, item) for b, item in left if self._names.kept(b) is keep]
                faults = files[target].write([item for _, item in some], keep=keep)
                lost |= _failed([block for block, _ in some], faults)
        return lost

    def _batches(self, blocks: Sequence[int], tier: str | None) -> list[Sequence[int]]:
        """What is staged at once; in host memory nothing has to be, so everything is."""
        store = self._inventory.memory.get(tier) if tier is not None else None
        if store is not None and store.kind != "device":
            return [blocks] if blocks else []
        batches, held = [], 0
        start = 0
        for index, block in enumerate(blocks):
            nbytes = self._names.nbytes(block)
            if held and held + nbytes > STAGING_BYTES:
                batches.append(blocks[start:index])
                start, held = index, 0
            held += nbytes
        if start < len(blocks):
            batches.append(blocks[start:])
        return batches

    def _outgoing(self, block: int, source: str) -> Item:
        """What a file gets of a block in memory; a device's bytes are staged first."""
        store = self._inventory.memory[source]
        if store.kind != "device":
            views = self._inventory.views(source, block)
            return self._names.key(block), views, self._names.nbytes(block)
        item = self._staged(block)
        device: Any = store
        device.copy_out(self._inventory.extent(source, block), item[2], item[1]).wait()
        return item

    def _incoming(self, block: int, target: str) -> Item:
        if self._inventory.memory[target].kind == "device":
            return self._staged(block)
        views = self._inventory.views(target, block)
        return self._names.key(block), views, self._names.nbytes(block)

    def _staged(self, block: int) -> Item:
        nbytes = self._names.nbytes(block)
        return self._names.key(block), [np.empty(nbytes, np.uint8)], nbytes


def copy_bytes(sources: Sequence[Buffer], targets: Sequence[Buffer]) -> None:
    """Copy bytes between two lists of buffers of the same total length, cut as they may be."""
    if len(sources) == len(targets) == 1 and len(sources[0]) == len(targets[0]):
        np.copyto(targets[0], sources[0])
        return
    at, to = list(sources), list(targets)
    while at and to:
        count = min(len(at[0]), len(to[0]))
        np.copyto(to[0][:count], at[0][:count])
        at[0], to[0] = at[0][count:], to[0][count:]
        if not len(at[0]):
            at.pop(0)
        if not len(to[0]):
            to.pop(0)


def _failed(blocks: Sequence[int], faults: Sequence[Fault | None]) -> Lost:
    pairs = zip(blocks, faults, strict=True)
    return {block: fault for block, fault in pairs if fault is not None}
