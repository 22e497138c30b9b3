"""`count` equals hits that other programs counted, on recorded traces (skipped where absent)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tiermem import hits
from tiermem.traces import mooncake
from tiermem.traces.trace import Trace

RECORDED = [
    "mooncake/synthetic_trace.jsonl.gz",
    "mooncake/conversation_trace.first40min.jsonl.gz",
]


@pytest.fixture(scope="session")
def recorded(shared: Path) -> Iterator[Callable[[str], Trace]]:
    """Each recorded trace, read once."""
    read: dict[str, Trace] = {}

    def get(name: str) -> Trace:
        if name not in read:
            read[name] = mooncake.read(shared / "traces" / name)
        return read[name]

    yield get
    read.clear()


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("order", ["forward", "reverse"])
def test_lru_equals_reference_values(
    recorded: Callable[[str], Trace], reference_values: Any, name: str, order: str
) -> None:
    """LRU in either order: block and prefix hits at ten capacities, counted by other programs."""
    wanted = reference_values[name]["lru"][order]
    rows = hits.count(recorded(name), ["lru"], [int(capacity) for capacity in wanted], order)
    assert {
        str(row.capacity_blocks): (row.references, row.block_hits, row.prefix_hits) for row in rows
    } == {
        capacity: (
            reference_values[name]["references"],
            counted["block_hits"],
            counted["prefix_hits"],
        )
        for capacity, counted in wanted.items()
    }


@pytest.mark.parametrize("name", RECORDED)
def test_others_equal_reference_values(
    recorded: Callable[[str], Trace], reference_values: Any, name: str
) -> None:
    """FIFO and both Belady bounds, block hits in file order, and the infinite cache."""
    names = {"fifo": "fifo", "belady": "min_insert", "belady-bypass": "min_bypass"}
    wanted = reference_values[name]["other_policies_block_hits"]
    capacities = [int(capacity) for capacity in wanted]
    rows = hits.count(recorded(name), list(names), capacities, "forward")
    counted = {(row.policy, str(row.capacity_blocks)): row.block_hits for row in rows}
    assert counted == {
        (ours, capacity): wanted[capacity][theirs]
        for ours, theirs in names.items()
        for capacity in wanted
    }
    for order in hits.ORDERS:
        (row,) = hits.count(recorded(name), ["infinite"], [], order)
        most = reference_values[name]["max_hits"]
        assert (row.block_hits, row.prefix_hits) == (most, most)


def test_stack_distances_equal_reference_values(
    recorded: Callable[[str], Trace], reference_values: Any
) -> None:
    """A distance percentile d in the reference: LRU of d + 1 blocks hits at least that share."""
    name = RECORDED[0]
    wanted = reference_values[name]["stack_distance"]
    for percent in (1, 25, 50, 99, 100):
        distance = wanted[f"p{percent}"]
        rank = -(-wanted["count"] * percent // 100)  # nearest rank
        (at, above) = hits.count(recorded(name), ["lru"], [distance, distance + 1], "forward")
        assert at.block_hits < rank <= above.block_hits
