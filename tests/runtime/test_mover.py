"""Moves between every kind of store: the bytes arrive, and what fails is named."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiermem.runtime.inventory import Inventory, Names
from tiermem.runtime.mover import STAGING_BYTES, Mover, copy_bytes
from tiermem.runtime.stores import FaultKind

SIZES = (0, 1, 4095, 4096, 4097, 70_001)


@pytest.fixture
def world(arena: Callable[..., Any], dict_store: Callable[..., Any]) -> Inventory:
    stores = {
        "dram": arena(1 << 20),
        "cxl": arena(1 << 20, name="cxl"),
        "nvme": dict_store(1 << 20),
        "far": dict_store(1 << 20, name="far"),
    }
    return Inventory(stores, Names())


def content(block: int, nbytes: int) -> Any:
    return np.random.default_rng(block).integers(0, 256, nbytes, dtype=np.uint8)


def fill(world: Inventory) -> list[int]:
    """A block of each size at dram."""
    names = world.names
    blocks = [names.block(bytes([i]) * 16, size, keep=i % 2 == 0) for i, size in enumerate(SIZES)]
    assert world.allocate("dram", blocks) is None
    for block in blocks:
        copy_bytes([content(block, names.nbytes(block))], list(world.views("dram", block)))
    return blocks


def held(world: Inventory, tier: str, block: int) -> bytes:
    return b"".join(bytes(view) for view in world.views(tier, block))


def test_bytes_arrive_whole_over_every_way(world: Inventory) -> None:
    """Memory, memory, file, file and back up: each size comes back as it was."""
    blocks, mover = fill(world), Mover(world)
    for source, target in (("dram", "cxl"), ("cxl", "nvme"), ("nvme", "far")):
        assert world.allocate(target, blocks) is None
        assert mover.move(blocks, source, target) == {}
        world.free(source, blocks)
    assert world.allocate("dram", blocks) is None
    for block in blocks:
        for view in world.views("dram", block):
            view[:] = 255
    assert mover.move(blocks, "far", "dram") == {}
    for block in blocks:
        assert held(world, "dram", block) == content(block, world.names.nbytes(block)).tobytes()


def test_what_is_not_kept_is_written_so(world: Inventory) -> None:
    """A block of this process alone is marked as such in the files."""
    blocks = fill(world)
    Mover(world).move(blocks, "dram", "nvme")
    store: Any = world.files["nvme"]
    assert [keep for _, keep in store.held.values()].count(True) == 3
    assert store.held[world.names.key(blocks[1])][1] is False


def test_a_fault_is_one_blocks(world: Inventory) -> None:
    """Of a batch, the others arrive; on either side."""
    blocks, mover = fill(world), Mover(world)
    store: Any = world.files["nvme"]
    store.faults[world.names.key(blocks[2])] = FaultKind.IO
    lost = mover.move(blocks, "dram", "nvme")
    assert {block: fault.kind for block, fault in lost.items()} == {blocks[2]: FaultKind.IO}
    store.faults = {world.names.key(blocks[4]): FaultKind.CHECKSUM}
    lost = mover.move(blocks, "nvme", "far")
    assert {block: fault.kind for block, fault in lost.items()} == {
        blocks[2]: FaultKind.MISSING,
        blocks[4]: FaultKind.CHECKSUM,
    }


def test_staging_is_bounded(world: Inventory) -> None:
    """Between two file tiers no more than `STAGING_BYTES` are held, however many blocks move."""
    names = world.names
    blocks = [names.block(bytes([9, i]) * 8, STAGING_BYTES // 4) for i in range(10)]
    batches = Mover(world)._batches(blocks, None)
    assert [block for batch in batches for block in batch] == blocks
    assert max(len(batch) for batch in batches) == 4


@given(st.lists(st.integers(1, 40), max_size=6), st.lists(st.integers(1, 40), max_size=6))
def test_buffers_may_be_cut_differently(sources: list[int], targets: list[int]) -> None:
    """Whatever the pieces, the bytes come in order; nothing is written past the shorter side."""
    total = min(sum(sources), sum(targets))
    data = np.arange(sum(sources), dtype=np.uint8)
    room = np.full(sum(targets), 255, dtype=np.uint8)
    copy_bytes(cut(data, sources), cut(room, targets))
    assert (room[:total] == data[:total]).all()
    assert (room[total:] == 255).all()


def cut(whole: Any, lengths: list[int]) -> list[Any]:
    ends = np.cumsum([0, *lengths])
    return [whole[start:end] for start, end in pairwise(ends)]
