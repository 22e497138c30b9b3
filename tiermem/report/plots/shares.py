"""Where prompt tokens came from, and how full each tier was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tiermem.report.plots import style
from tiermem.units import NS_PER_S, format_bytes

_SLICES = 600
_READABLE = 0.06


def prompt_token_sources(results: Mapping[str, Any]) -> Figure:
    """One bar per policy: the share of all prompt tokens by tier, recompute and the rest."""
    runs = results["runs"]
    total = runs[0]["prompt_tokens"] if runs else 0
    title = "Where prompt tokens came from"
    height = 2.3 + 0.42 * max(len(runs), 1)
    notes = [f"{total:,} prompt tokens", "simulated"]
    made = style.figure(results, title, notes, (8.2, height))
    (axes,) = style.panels(made, 1, 1)
    sources = list(runs[0]["prompt_tokens_by_source"]) if runs else []
    used = [s for s in sources if any(run["prompt_tokens_by_source"][s] for run in runs)]
    colours = style.source_colours(sources)
    left = np.zeros(len(runs))
    for source in used:
        shares = np.array([run["prompt_token_share_by_source"][source] or 0.0 for run in runs])
        bars = axes.barh(
            range(len(runs)), shares, left=left, height=0.68, color=colours[source], label=source
        )
        for bar, share in zip(bars, shares, strict=True):
            if share >= _READABLE:
                axes.text(
                    bar.get_x() + share / 2,
                    bar.get_y() + bar.get_height() / 2,
                    f"{share:.1%}",
                    ha="center",
                    va="center",
                    fontsize=8.5,
                    color=_ink(colours[source]),
                )
        left += shares
    axes.set_yticks(range(len(runs)), [run["policy"] for run in runs])
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xticks(np.linspace(0, 1, 6), [f"{share:.0%}" for share in np.linspace(0, 1, 6)])
    axes.set_xlabel("Share of prompt tokens")
    axes.grid(axis="y", visible=False)
    if used:
        style.legend(made, axes)
    return made


def occupancy(results: Mapping[str, Any], table: pd.DataFrame) -> Figure:
    """One panel per policy: bytes used in each tier as a share of its capacity, over time."""
    runs = results["runs"]
    columns = 2 if len(runs) == 4 else min(max(len(runs), 1), 3)
    rows = max(1, -(-len(runs) // columns))
    size = (max(7.6, 3.5 * columns), 1.6 + 2.4 * rows)
    notes = [style.SIMULATED, f"peaks of {_SLICES} time slices"]
    notes += [f"{tier}: room left for KV after weights" for tier in _tiers(runs)[:1]]
    made = style.figure(results, "Occupancy of each tier", notes, size)
    grid = style.panels(made, rows, columns, sharex=True, sharey=True)
    tiers = _tiers(runs)
    colours = style.source_colours(tiers)
    end_s = max((run["simulated_s"] for run in runs), default=0.0)
    unit, length = ("min", 60.0) if end_s >= 600 else ("s", 1.0)
    for axes, run in zip(grid, runs, strict=False):
        style.heading(axes, run["policy"])
        for place, tier in enumerate(tiers):
            rows_of = table[(table["policy"] == run["policy"]) & (table["tier"] == tier)]
            capacity = run["tiers"][tier]["capacity_bytes"]
            times, used = highest(rows_of, end_s)
            axes.plot(
                times / length,
                used / capacity,
                drawstyle="steps-post",
                color=colours[tier],
                lw=2.6 - 0.3 * min(place, 3),
                label=f"{tier} ({format_bytes(capacity)})",
            )
        style.percent(axes, top=1.05)
        axes.set_ylim(bottom=-0.02)  # so that an unused tier is a line and not the axis
    for axes in grid[len(runs) :]:
        axes.set_visible(False)
    _label(grid, len(runs), columns, f"Simulated time in {unit}")
    if runs:
        style.legend(made, grid[0])
    return made


def highest(changes: pd.DataFrame, end_s: float) -> tuple[np.ndarray, np.ndarray]:
    """Start (s) of each time slice, and the most bytes in use within it.

    A value holds until the next change, so a slice without a change shows the last one.
    """
    edges = np.linspace(0.0, max(end_s, 1e-9), _SLICES + 1)
    if changes.empty:
        return edges, np.zeros(len(edges))
    times = changes["time_ns"].to_numpy(dtype=float) / NS_PER_S
    used = changes["used_bytes"].to_numpy(dtype=float)
    before = np.searchsorted(times, edges, side="right") - 1
    held = np.where(before >= 0, used[np.maximum(before, 0)], 0.0)
    slices = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, _SLICES)
    np.maximum.at(held, slices, used)
    return edges, held


def _tiers(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(runs[0]["tiers"]) if runs else []


def _label(grid: Sequence[Axes], count: int, columns: int, xlabel: str) -> None:
    for place, axes in enumerate(grid[:count]):
        if place % columns == 0:
            axes.set_ylabel("Used / capacity")
        if place + columns >= count:
            axes.set_xlabel(xlabel)
            axes.tick_params(labelbottom=True)


def _ink(colour: str) -> str:
    """Black or white, whichever reads better on `colour` (relative luminance, WCAG 2.1)."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#000000" if light > 0.18 else "#FFFFFF"
