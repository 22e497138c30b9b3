"""The hit-rate figure shows the shares that were counted, with its bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from tiermem.report.folder import RunFolder
from tiermem.report.plots.hit_rate import hit_rate

Save = Callable[..., RunFolder]


def drawn(saved: RunFolder) -> Figure:
    return hit_rate(saved.results, saved.table("hits"))


def test_lines_are_the_counted_shares(saved: Save) -> None:
    """Hits over references at each capacity: any block left, leading blocks right."""
    folder = saved("lru", "s3fifo")
    made, hits = drawn(folder), folder.table("hits")
    rows = hits[(hits["policy"] == "lru") & (hits["order"] == "forward")]
    for axes, column in zip(made.axes, ("block_hits", "prefix_hits"), strict=True):
        (line,) = [line for line in axes.lines if line.get_label() == "lru, head first"]
        assert np.allclose(line.get_ydata(), rows[column] / rows["references"])
        assert list(line.get_xdata()) == rows["capacity_blocks"].tolist()
        assert line.get_linestyle() == "--"
        (solid,) = [line for line in axes.lines if line.get_label() == "lru"]
        assert solid.get_linestyle() == "-"
        assert line.get_zorder() > solid.get_zorder(), "it shows where both orders are equal"


def test_the_ceiling_and_belady_are_always_there(saved: Save) -> None:
    """Checklist 34: the infinite cache and Belady stand beside every policy."""
    labels = [line.get_label() for line in drawn(saved("mine:Policy")).axes[0].lines]
    assert {"Infinite cache", "Belady (must insert)", "Belady (may bypass)"} <= set(labels)
    assert {"lru", "lru, head first", "mine:Policy"} <= set(labels)


@pytest.mark.parametrize("count", [1, 4, 8])
def test_nothing_overlaps(
    saved: Save, layout: Callable[[Figure], None], words: Any, count: int
) -> None:
    """Readable with one policy and with eight, and called synthetic."""
    names = ["lru", "fifo", "lfu", "s3fifo", *(f"module:Policy{n}" for n in range(4))]
    made = drawn(saved(*names[:count]))
    layout(made)
    assert any("synthetic trace made-up" in text for text in words(made))
    assert not any("roofline" in text for text in words(made)), "no time is in this figure"


def test_a_trace_without_blocks_still_has_a_figure(saved: Save) -> None:
    """No references: an empty figure, no warning and no division by zero."""
    made = drawn(saved("lru", hits=[]))
    assert len(made.axes) == 2


def test_fewer_capacities_are_said(saved: Save, hit_counts: Any) -> None:
    """A policy counted at 2 of the 9 capacities has that beside its name."""
    hits = [
        row for row in hit_counts(["fifo"]) if row.policy != "fifo" or row.capacity_blocks < 200
    ]
    labels = [line.get_label() for line in drawn(saved("fifo", hits=hits)).axes[0].lines]
    assert "fifo (2 of 9 capacities)" in labels
    assert "lru" in labels


def test_names_of_tiers_do_not_collide(saved: Save, layout: Callable[[Figure], None]) -> None:
    """Tiers of nearly one size, and one at the very left: each name is readable."""
    folder = saved("lru")
    block = 512 * 131_072
    for tier, blocks in zip(
        folder.results["runs"][0]["tiers"].values(), (55, 800, 1100, 1500), strict=True
    ):
        tier["capacity_bytes"] = blocks * block
    layout(drawn(folder))
