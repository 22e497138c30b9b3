"""What is held always has a place."""

from __future__ import annotations

import pytest

from tiermem.errors import DoesNotFit
from tiermem.offload.ledger import Ledger, exactly, whole_classes
from tiermem.runtime.sizes import charged_bytes

G = 4096


def test_the_fastest_tier_bounds_a_block_and_the_largest_the_sum() -> None:
    """Both numbers are in the message."""
    ledger = Ledger({"dram": 4 * G, "nvme": 10 * G})
    ledger.check(4 * G)
    with pytest.raises(DoesNotFit, match=r"16,385 bytes.*'dram'.*16,384 bytes"):
        ledger.check(4 * G + 1)
    ledger.hold({1: 4 * G, 2: 4 * G, 3: 1, 4: 0})
    assert (ledger.blocks, ledger.nbytes) == (4, 10 * G)
    with pytest.raises(DoesNotFit, match=r"4,096 bytes.*40,960 bytes\) are held.*'nvme'"):
        ledger.hold({5: 1})
    assert ledger.blocks == 4
    ledger.hold({4: 0})  # held already
    ledger.drop([1, 99])
    ledger.hold({5: 1})
    ledger.check_all([1, 1, 1])
    with pytest.raises(DoesNotFit):
        ledger.check_all([1] * 4)
    ledger.check_all([1], each=3)
    with pytest.raises(DoesNotFit):
        ledger.check_all([1], each=10**30)
    ledger.clear()
    assert (ledger.blocks, ledger.nbytes) == (0, 0)


def test_the_largest_may_be_any_tier() -> None:
    """All that is held fits it, so it need not drop anything."""
    assert Ledger({"dram": 9 * G, "nvme": 5 * G}).largest == ("dram", 9 * G)
    assert Ledger({"hbm": G, "dram": 9 * G, "nvme": 5 * G}).fastest == ("hbm", G)


def test_orphans_are_told_once() -> None:
    """In the order in which they came."""
    ledger = Ledger({"dram": G})
    ledger.orphan(3)
    ledger.orphan(1)
    assert ledger.orphans() == [3, 1]
    assert ledger.orphans() == []


def test_a_room_is_filled_exactly() -> None:
    """By a few sizes that are charged what they are."""
    for granules in [*range(1, 300), 2**18 - 1, 2**18 + 12345, 10**6 + 7]:
        sizes = whole_classes(granules * G)
        assert sum(sizes) == granules * G
        assert [charged_bytes(size) for size in sizes] == sizes
        assert len(sizes) < 12


def test_a_size_is_for_a_person_and_for_a_calculator() -> None:
    """Rounded, and to the byte."""
    assert exactly(65_537) == "64 KiB (65,537 bytes)"
