"""How much of a capacity is left for blocks, and in how many files."""

from __future__ import annotations

import pytest

from tiermem.runtime.file.plan import SEGMENT_BYTES, STEP_BYTES, plan, status_bytes
from tiermem.runtime.file.slot import slot_bytes

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("capacity", "nbytes", "share"),
    [
        (64 * MIB, 64 * KIB, 0.92),
        (64 * MIB, 2 * MIB, 0.92),
        (GIB, 2 * MIB, 0.98),
        (64 * GIB, 2 * MIB, 0.99),
        (GIB, 32 * MIB, 0.96),
        (40 * MIB, 32 * MIB, 0.79),
        (GIB, 4 * KIB, 0.49),
    ],
)
def test_most_of_a_capacity_is_usable(capacity: int, nbytes: int, share: float) -> None:
    """A header page a block, and a few pages a file."""
    usable = plan(capacity, SEGMENT_BYTES).usable_bytes(nbytes)
    assert share * capacity < usable < capacity


def test_segments_are_few_and_not_too_large() -> None:
    """A sixteenth of the capacity, within bounds: descriptors are few, and steps are short."""
    assert plan(64 * MIB, SEGMENT_BYTES).segment_bytes == 4 * MIB
    assert plan(GIB, SEGMENT_BYTES).segment_bytes == 64 * MIB
    assert plan(64 * GIB, SEGMENT_BYTES).segment_bytes == 256 * MIB
    assert plan(4096 * GIB, SEGMENT_BYTES).segment_bytes == 16 * GIB
    size = slot_bytes(2 * MIB)
    for capacity in (64 * MIB, GIB, 4096 * GIB):
        shape = plan(capacity, SEGMENT_BYTES)
        assert 1 <= shape.step(size, 10**9, 10**9) * size <= max(STEP_BYTES, size)
        assert shape.slots(size) >= 1
    assert plan(64 * MIB, SEGMENT_BYTES).slots(slot_bytes(32 * MIB)) == 1


def test_a_class_grows_as_it_is_used() -> None:
    """Many sizes with a few blocks each do not use up the capacity: a step is as long as what the
    class has already, or as what is being written."""
    shape = plan(GIB, SEGMENT_BYTES)
    assert shape.step(slot_bytes(64 * KIB), 0, 1) == 15
    assert shape.step(slot_bytes(64 * KIB), 100, 1) == 100
    assert shape.step(slot_bytes(64 * KIB), 100, 200) == 200
    assert shape.step(slot_bytes(2 * MIB), 0, 1) == 1
    assert shape.step(slot_bytes(2 * MIB), 16, 1) == 16


def test_too_little_holds_nothing() -> None:
    """Said as zero, for whoever asks."""
    assert plan(16 * KIB, SEGMENT_BYTES).usable_bytes(1) == 0
    assert plan(64 * KIB, SEGMENT_BYTES).usable_bytes(1) >= 4096


def test_the_status_file_has_its_share() -> None:
    """It lies in the same directory, so it counts; of a small store it takes little."""
    assert status_bytes(GIB) == 64 << 10
    assert status_bytes(64 << 10) == 1 << 10
