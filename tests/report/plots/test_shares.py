"""Token sources and occupancy: shares of what results.json says, peaks included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

from tiermem.report.folder import RunFolder
from tiermem.report.plots import shares

Save = Callable[..., RunFolder]


def test_each_bar_is_all_prompt_tokens(saved: Save) -> None:
    """Checklist 3: tiers and recompute of a policy add up to 100 %."""
    folder = saved("lru", "fifo", "s3fifo")
    axes = shares.prompt_token_sources(folder.results).axes[0]
    for place, run in enumerate(folder.runs):
        bars = [b for b in axes.patches if round(b.get_y() + b.get_height() / 2, 6) == place]
        assert sum(bar.get_width() for bar in bars) == pytest.approx(1)
        recompute = run["prompt_token_share_by_source"]["recompute"]
        assert max(bar.get_width() for bar in bars) == pytest.approx(recompute)


def test_no_peak_of_occupancy_is_lost() -> None:
    """A spike shorter than a time slice shows at its height; a value holds until it changes."""
    changes = pd.DataFrame(
        {"time_ns": [0, 4_000_000_000, 4_000_000_001], "used_bytes": [10, 99, 20]}
    )
    times, used = shares.highest(changes, 10.0)
    assert max(used) == 99
    assert used[times < 3.9].tolist() == [10] * int((times < 3.9).sum())
    assert used[times > 4.1].tolist() == [20] * int((times > 4.1).sum())


def test_a_tier_nobody_used_is_a_line_at_zero() -> None:
    """No change points: zero from beginning to end."""
    times, used = shares.highest(pd.DataFrame({"time_ns": [], "used_bytes": []}), 10.0)
    assert times[-1] == 10.0
    assert not used.any()


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_nothing_overlaps(
    saved: Save, layout: Callable[[Figure], None], words: Any, count: int
) -> None:
    """Readable for any number of panels, each named after its policy."""
    names = ["lru", "fifo", "lfu", "s3fifo", "module:Policy"][:count]
    folder = saved(*names)
    made = shares.occupancy(folder.results, folder.table("occupancy"))
    layout(made)
    assert set(names) <= set(words(made))
    layout(shares.prompt_token_sources(folder.results))


def test_the_heads_say_what_is_simulated_and_what_hbm_is(saved: Save, words: Any) -> None:
    """Shares come out of the simulator; the fastest tier is what weights leave of it."""
    folder = saved("lru")
    assert any("simulated" in text for text in words(shares.prompt_token_sources(folder.results)))
    made = shares.occupancy(folder.results, folder.table("occupancy"))
    assert any("hbm: room left for KV after weights" in text for text in words(made))
