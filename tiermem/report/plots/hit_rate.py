"""Hit rate against capacity: what an eviction order is worth, and what no order can reach.

Drawn from hit counts without a clock. Left: any block found. Right: leading blocks only, which
is all that a prefix cache can use.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tiermem.report.plots import style
from tiermem.units import format_bytes

# Drawn in this order, so that the second shows as dots on the first where they are equal.
_BOUNDS: dict[str, tuple[str, dict[str, Any]]] = {
    "belady-bypass": ("Belady (may bypass)", {"color": "#BDBDBD", "lw": 3.4}),
    "belady": ("Belady (must insert)", {"color": "#000000", "lw": 1.6, "ls": (0, (1, 1))}),
}
_NEAR = 1.25
# Width of a panel, and of a letter of a tier's name, in points.
_PANEL_POINTS, _LETTER_POINTS = 280.0, 5.2


def hit_rate(results: Mapping[str, Any], hits: pd.DataFrame) -> Figure:
    """Two panels over capacity in blocks (log), with the infinite cache and Belady in both."""
    known = hits[hits["references"] > 0]
    beyond, marks = _tier_marks(results, known)
    notes = ["no clock", "blocks touched tail first unless marked head first"]
    if beyond:
        notes.append(f"{' and '.join(beyond)}: beyond the right edge")
    made = style.figure(results, "Hit rate against capacity", notes, (9.4, 5.0))
    axes = style.panels(made, 1, 2, sharey=True)
    rows = 0
    what = (("block_hits", "Any block"), ("prefix_hits", "Leading blocks (usable as a prefix)"))
    for panel, (column, title) in zip(axes, what, strict=True):
        style.heading(panel, title)
        _draw(panel, known, column)
        rows = _mark(panel, marks)
        panel.set_xlabel(f"Capacity in blocks{_block_size(results)}")
    style.percent(axes[0], top=max(_ceiling(known) * (1.12 + 0.06 * rows), 1e-3))
    axes[0].set_ylabel("Hits / block references")
    style.legend(made, axes[0])
    return made


def _draw(axes: Axes, hits: pd.DataFrame, column: str) -> None:
    share = hits[column] / hits["references"]
    bounded = hits.assign(share=share)[hits["capacity_blocks"].notna()]
    for name, (label, look) in _BOUNDS.items():
        _line(axes, bounded[bounded["policy"] == name], label, look)
    names = [name for name in dict.fromkeys(bounded["policy"]) if name not in _BOUNDS]
    colours = style.policy_colours(names)
    points = bounded["capacity_blocks"].nunique()
    for place, name in enumerate(names):
        look = {"color": colours[name], "lw": style.strand(place), "marker": "o", "ms": 3.6}
        rows = bounded[(bounded["policy"] == name) & (bounded["order"] == "reverse")]
        fewer = "" if len(rows) == points else f" ({len(rows)} of {points} capacities)"
        _line(axes, rows, f"{name}{fewer}", look)
    for name in names:
        look = {"color": style.darker(colours[name]), "lw": 1.3, "ls": (0, (3, 2)), "zorder": 3}
        rows = bounded[bounded["policy"] == name]
        _line(axes, rows[rows["order"] == "forward"], f"{name}, head first", look)
    if "infinite" in set(hits["policy"]):
        ceiling = float(share[hits["policy"] == "infinite"].max())
        axes.axhline(ceiling, color="#8C8C8C", lw=1.4, label="Infinite cache", zorder=1)
    axes.set_xscale("log")
    style.plain_log(axes.xaxis)


def _line(axes: Axes, rows: pd.DataFrame, label: str, look: dict[str, Any]) -> None:
    if len(rows):
        part = rows.sort_values("capacity_blocks")
        x, y = part["capacity_blocks"].to_numpy(dtype=float), part["share"].to_numpy(dtype=float)
        axes.plot(x, y, label=label, **look)


def _ceiling(hits: pd.DataFrame) -> float:
    shares = hits[["block_hits", "prefix_hits"]].div(hits["references"], axis=0)
    return float(shares.max().max()) if len(shares) else 1.0


def _block_size(results: Mapping[str, Any]) -> str:
    tokens = results.get("trace", {}).get("block_tokens")
    per_token = results.get("llm", {}).get("kv_bytes_per_token")
    if not tokens:
        return ""
    size = f" = {format_bytes(tokens * per_token)}" if per_token else ""
    return f" (1 block = {tokens:,} tokens{size})"


def _tier_marks(
    results: Mapping[str, Any], hits: pd.DataFrame
) -> tuple[list[str], list[tuple[float, str]]]:
    """Tiers beyond the right edge, and (blocks, names) of those within it."""
    tokens = results.get("trace", {}).get("block_tokens")
    per_token = results.get("llm", {}).get("kv_bytes_per_token")
    runs, edge = results["runs"], hits["capacity_blocks"].max()
    if not runs or not tokens or not per_token or pd.isna(edge):
        return [], []
    rooms = {
        tier: facts["capacity_bytes"] / (tokens * per_token)
        for tier, facts in runs[0]["tiers"].items()
    }
    beyond = [tier for tier, blocks in rooms.items() if blocks > edge]
    marks: list[tuple[float, str]] = []
    within = [(blocks, tier) for tier, blocks in rooms.items() if 1 <= blocks <= edge]
    for blocks, tier in sorted(within, key=lambda mark: mark[0]):
        if marks and blocks < marks[-1][0] * _NEAR:
            marks[-1] = (marks[-1][0], f"{marks[-1][1]}, {tier}")
        else:
            marks.append((blocks, tier))
    return beyond, marks


def _mark(axes: Axes, marks: list[tuple[float, str]]) -> int:
    """A dashed line where a tier's capacity lies, its name beside it; rows the names take.

    A name goes into the first row where it touches no other, to the right of its line where
    the panel ends on the left.
    """
    low, high = axes.get_xlim()
    ends: list[float] = []
    for blocks, name in marks:
        line = _PANEL_POINTS * math.log(blocks / low) / math.log(high / low)
        width = _LETTER_POINTS * len(name) + 6
        left_of = line >= width
        start, end = (line - width, line) if left_of else (line, line + width)
        row = next((row for row, taken in enumerate(ends) if taken <= start), len(ends))
        ends[row : row + 1] = [end]
        axes.axvline(blocks, color="#999999", lw=0.8, ls=(0, (5, 4)), zorder=0)
        axes.annotate(
            name,
            (blocks, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(-3 if left_of else 3, -2 - 11 * row),
            textcoords="offset points",
            ha="right" if left_of else "left",
            va="top",
            fontsize=8.5,
            color="#666666",
            # A name must stay readable where the line of another tier runs through it.
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
        )
    return len(ends)
