"""The sweep figure: hit share and TTFT against the capacity of one tier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

from tiermem.report.plots.sweep import capacity_sweep


@pytest.fixture
def table() -> pd.DataFrame:
    """Two policies at three sizes, larger is better."""
    rows = [
        {
            "tier": "dram",
            "capacity_bytes": size * 2**30,
            "policy": policy,
            "hit_share": share * size / 256,
            "ttft_mean_s": 5 / size,
            "ttft_p99_s": 50 / size,
            "n": 800,
        }
        for policy, share in (("lru", 0.3), ("s3fifo", 0.4))
        for size in (256, 16, 64)
    ]
    return pd.DataFrame(rows)


def test_lines_run_over_capacity(
    saved: Any, table: pd.DataFrame, layout: Callable[[Figure], None]
) -> None:
    """Points are sorted by size, in GiB, and are the values of the table."""
    made = capacity_sweep(saved("lru").results, table)
    left, right = made.axes
    assert list(left.lines[0].get_xdata()) == [16, 64, 256]
    assert left.lines[1].get_ydata()[-1] == pytest.approx(0.4)
    assert [line.get_label() for line in right.lines] == [
        "lru, mean",
        "lru, p99",
        "s3fifo, mean",
        "s3fifo, p99",
    ]
    shown = [[text.get_text() for text in axes.get_legend().get_texts()] for axes in made.axes]
    assert shown[0] == ["lru", "s3fifo"], "p99 is in the other panel"
    assert set(shown[1]) == {"lru, mean", "lru, p99", "s3fifo, mean", "s3fifo, p99"}
    layout(made)


def test_sizes_without_latency_are_left_out(saved: Any, table: pd.DataFrame) -> None:
    """A size at which nobody was served has no TTFT: a gap, no warning."""
    none = table.assign(ttft_mean_s=None, ttft_p99_s=None, hit_share=0.0)
    made = capacity_sweep(saved("lru").results, none)
    assert len(made.axes) == 2
