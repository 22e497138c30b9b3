"""A segment's slots: each given once, neighbours in a row."""

from __future__ import annotations

import os
from pathlib import Path

from tiermem.runtime.file.head import Head
from tiermem.runtime.file.segment import Segment, Slot, State
from tiermem.runtime.io.seam import OpenFile


def segment(tmp_path: Path, slots: int = 10) -> Segment:
    path = tmp_path / "one.blocks"
    file = OpenFile(path, os.open(path, os.O_RDWR | os.O_CREAT))
    return Segment(file, Head(8192, slots, 0, bytes(16), ""), b"boot")


def test_slots_are_given_once_and_in_a_row(tmp_path: Path) -> None:
    """Neighbours are written in one go; the one that came back last is the next."""
    one = segment(tmp_path)
    assert not one.has_room
    one.extend(4)
    assert [one.take() for _ in range(4)] == [0, 1, 2, 3]
    assert not one.has_room
    one.give(2)
    one.extend(2)
    assert [one.take() for _ in range(3)] == [2, 4, 5]
    assert (one.used, one.ready, one.free_slots, one.plannable_slots) == (6, 6, 0, 4)
    one.full_grown = True
    assert one.plannable_slots == 0
    assert "6 of 6" in repr(one)
    one.close()


def test_free_slots_at_the_end_can_be_cut_off(tmp_path: Path) -> None:
    """Not those before a block."""
    one = segment(tmp_path)
    one.populate(8, {1, 4})
    assert one.free_tail() == 3
    one.cut_off(2)
    assert (one.ready, one.free_slots, one.free_tail()) == (6, 4, 1)
    one.extend(2)
    assert one.free_tail() == 3
    one.close()


def test_a_found_segment_has_what_was_found(tmp_path: Path) -> None:
    """Slots with blocks are taken, the others free."""
    one = segment(tmp_path)
    one.populate(5, {1, 3})
    assert (one.used, one.free_slots) == (2, 3)
    assert [one.take() for _ in range(3)] == [0, 2, 4]
    assert one.offset(2) == one.head.start + 2 * 8192
    assert one.file_bytes == one.head.start + 5 * 8192
    one.close()


def test_a_slot_says_what_its_header_says(tmp_path: Path) -> None:
    """All that a reader needs to make the header again."""
    one = segment(tmp_path)
    slot = Slot(one, 3, b"k" * 16, 4000, 9, True)
    assert slot.state is State.WRITING
    header = slot.header()
    assert (header.key, header.nbytes, header.sequence) == (b"k" * 16, 4000, 9)
    assert (header.number, header.slot_bytes, header.store) == (3, 8192, bytes(16))
    one.close()
