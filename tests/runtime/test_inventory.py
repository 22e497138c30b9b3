"""Names and places: one number per key, all room or none, nothing freed twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tiermem.errors import InputError
from tiermem.runtime.inventory import Inventory, Names
from tiermem.runtime.stores import FaultKind


def test_a_key_is_one_block() -> None:
    """The same key is the same number; size and keeping are remembered with it."""
    names = Names()
    first = names.block(b"a" * 16, 5)
    assert names.block(b"b" * 16, 7, keep=False) != first
    assert names.block(b"a" * 16, 5) == first == names.find(b"a" * 16)
    assert (names.key(first), names.nbytes(first), names.kept(first)) == (b"a" * 16, 5, True)
    assert names.find(b"c" * 16) is None


def test_a_key_means_one_content() -> None:
    """Another size under a known key is refused, until the name is given up."""
    names = Names()
    block = names.block(b"a" * 16, 5)
    with pytest.raises(InputError, match="has 5 bytes, not 6"):
        names.block(b"a" * 16, 6)
    names.discard(block)
    names.discard(block)
    assert names.block(b"a" * 16, 6) != block, "a number is given out once"


def test_room_is_given_to_all_or_none(arena: Callable[..., Any]) -> None:
    """A batch that does not fit leaves nothing taken."""
    names = Names()
    inventory = Inventory({"dram": arena(3 * 4096)}, names)
    one, two, big = (names.block(bytes([i]) * 16, size) for i, size in enumerate((1, 4097, 9000)))
    assert inventory.allocate("dram", [one]) is None
    fault = inventory.allocate("dram", [two, big])
    assert fault is not None
    assert fault.kind is FaultKind.SPACE
    assert inventory.memory["dram"].used_bytes == 4096
    assert inventory.allocate("dram", [one, two]) is None, "what has its room keeps it"
    assert inventory.memory["dram"].used_bytes == 3 * 4096
    assert sum(len(view) for view in inventory.views("dram", two)) == 4097
    inventory.free("dram", [one, two, big])
    assert inventory.memory["dram"].used_bytes == 0


def test_what_hangs_keeps_its_room(arena: Callable[..., Any]) -> None:
    """A late transfer may still write there, so nobody else may get it."""
    names = Names()
    inventory = Inventory({"dram": arena(2 * 4096)}, names)
    block = names.block(b"a" * 16, 1)
    assert inventory.allocate("dram", [block]) is None
    inventory.strand("dram", [block])
    inventory.free("dram", [block])
    assert inventory.stuck_bytes == inventory.memory["dram"].used_bytes == 4096


def test_a_file_tier_is_freed_by_key(dict_store: Callable[..., Any]) -> None:
    """Freeing a block there deletes its key."""
    names = Names()
    store = dict_store(1 << 20)
    store.held[b"a" * 16] = b"x", True
    inventory = Inventory({"nvme": store}, names)
    assert inventory.capacity_bytes("nvme") == 1 << 20
    inventory.free("nvme", [names.block(b"a" * 16, 1)])
    assert not store.held
