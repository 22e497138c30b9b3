"""The table keeps the books: bytes per tier, one copy of a block, pins."""

from __future__ import annotations

import pytest

from tiermem.core.table import LEAVING, READY, BlockTable


def ready(table: BlockTable, tier: str, blocks: list[int], size: int = 1) -> None:
    """READY copies that nothing pins."""
    room = table.rooms[tier]
    room.add(blocks, [size] * len(blocks))
    for block in blocks:
        room.copies[block].state = READY


def test_used_and_free_make_the_capacity() -> None:
    """INV-1: whatever comes and goes, used + free = capacity, and used is the sum of the copies."""
    room = BlockTable({"hbm": 10}).rooms["hbm"]
    room.add([1, 2], [3, 4])
    room.reserve(2)
    assert (room.used_bytes, room.free_bytes) == (9, 1)
    room.remove([1])
    assert (room.used_bytes, room.free_bytes) == (6, 4)
    room.give_back(2)
    room.remove([2])
    assert (room.used_bytes, room.free_bytes) == (0, 10)


def test_a_failure_half_way_leaves_the_books_straight() -> None:
    """Fault B33: of five blocks the third is refused (it is here already): none of the five is
    taken, and four others still fit."""
    table = BlockTable({"hbm": 5})
    ready(table, "hbm", [3])
    room = table.rooms["hbm"]
    with pytest.raises(AssertionError, match="INV-2"):
        room.add([1, 2, 3, 4, 5], [1] * 5)
    assert (set(room.copies), room.free_bytes) == ({3}, 4)
    room.add([6, 7, 8, 9], [1] * 4)
    assert (room.used_bytes, room.free_bytes) == (5, 0)
    table.check({})


def test_one_copy_in_a_tier() -> None:
    """INV-2: a second copy in the same tier is refused, in another tier it is not."""
    table = BlockTable({"hbm": 5, "dram": 5})
    ready(table, "hbm", [1])
    with pytest.raises(AssertionError, match="INV-2"):
        table.rooms["hbm"].add([1], [1])
    ready(table, "dram", [1])
    assert table.where(1) == ("hbm", "dram")


def test_no_tier_takes_more_than_it_can() -> None:
    """INV-1: one byte too many is refused, for blocks and for scratch."""
    room = BlockTable({"hbm": 5}).rooms["hbm"]
    room.reserve(4)
    with pytest.raises(AssertionError, match="INV-1"):
        room.add([1], [2])
    other = BlockTable({"hbm": 5}).rooms["hbm"]
    with pytest.raises(AssertionError, match="INV-1"):
        other.reserve(6)


def test_nobody_returns_what_was_not_taken() -> None:
    """INV-1, fault B45: occupancy never goes below zero."""
    room = BlockTable({"hbm": 5}).rooms["hbm"]
    room.reserve(1)
    with pytest.raises(AssertionError, match="INV-1"):
        room.give_back(2)


@pytest.mark.parametrize("way", ["remove", "leave"])
def test_a_pinned_copy_never_leaves(way: str) -> None:
    """INV-3: neither dropped nor moved down while a pin is on it; after the last pin it may."""
    table = BlockTable({"hbm": 5})
    ready(table, "hbm", [1])
    room = table.rooms["hbm"]
    copy = room.copies[1]
    room.pin(copy)
    room.pin(copy)
    assert room.unpin(copy) is False
    with pytest.raises(AssertionError, match="INV-3"):
        room.remove([1]) if way == "remove" else room.leave([1], 7)
    table = BlockTable({"hbm": 5})
    ready(table, "hbm", [1])
    room = table.rooms["hbm"]
    room.pin(room.copies[1])
    assert room.unpin(room.copies[1]) is True
    room.remove([1]) if way == "remove" else room.leave([1], 7)
    assert (1 in room.copies) is (way == "leave")


def test_pins_and_leaving_bytes_are_counted_once() -> None:
    """A copy pinned twice counts once; one that leaves counts as leaving only while unpinned."""
    table = BlockTable({"hbm": 9})
    ready(table, "hbm", [1, 2], size=3)
    room = table.rooms["hbm"]
    first = room.copies[1]
    room.leave([1], 7)
    assert (room.pinned_bytes, room.leaving_bytes) == (0, 3)
    room.pin(first)
    room.pin(first)
    assert (room.pinned_bytes, room.leaving_bytes) == (3, 0)
    room.unpin(first)
    room.unpin(first)
    assert (room.pinned_bytes, room.leaving_bytes) == (0, 3)
    table.check({})
    room.stay(first)
    assert (first.state, room.leaving_bytes) == (READY, 0)
    table.check({})


def test_only_ready_copies_leave_and_only_leaving_ones_stay() -> None:
    """ARRIVING, READY, LEAVING: no step is skipped."""
    room = BlockTable({"hbm": 9}).rooms["hbm"]
    room.add([1], [1])
    with pytest.raises(AssertionError, match="READY"):
        room.leave([1], 7)
    with pytest.raises(AssertionError, match="LEAVING"):
        room.stay(room.copies[1])


def test_an_arriving_copy_is_not_readable() -> None:
    """`where` names tiers with the whole bytes: READY and LEAVING copies, fastest first."""
    table = BlockTable({"hbm": 5, "dram": 5, "nvme": 5})
    table.rooms["hbm"].add([1], [1])
    ready(table, "nvme", [1])
    ready(table, "dram", [1])
    assert table.where(1) == ("dram", "nvme")
    table.rooms["dram"].leave([1], 7)
    assert table.rooms["dram"].copies[1].state is LEAVING
    assert table.where(1) == ("dram", "nvme")
    assert table.where(2) == ()


@pytest.mark.parametrize("field", ["used_bytes", "pinned_bytes", "leaving_bytes"])
def test_the_recount_finds_a_wrong_book(field: str) -> None:
    """INV-1: `check` counts every copy again, and names the tier where a sum is off."""
    table = BlockTable({"hbm": 5, "dram": 5})
    ready(table, "dram", [1])
    table.check({})
    room = table.rooms["dram"]
    setattr(room, field, getattr(room, field) + 1)
    with pytest.raises(AssertionError, match="dram"):
        table.check({})
