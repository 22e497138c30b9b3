"""TTFT and TPOT per policy: the whole distribution, and the percentiles people quote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tiermem.report.plots import style

_RANKS = ("p50", "p95", "p99")
# A linear axis shows values within this factor of one another; beyond it, a logarithmic one.
_WIDE = 15.0
_ROW_IN = 0.17


def ttft_distribution(results: Mapping[str, Any], frame: pd.DataFrame) -> Figure:
    """Share of requests whose first token came within x seconds; x is logarithmic."""
    made = style.figure(results, "Time to first token", [style.SIMULATED], (7.6, 4.8))
    (axes,) = style.panels(made, 1, 1)
    names = [run["policy"] for run in results["runs"]]
    colours = style.policy_colours(names)
    zeros, least = 0, np.inf
    for place, name in enumerate(names):
        values = frame.loc[frame["policy"] == name, "ttft_s"].dropna().to_numpy(dtype=float)
        label = f"{name} (n = {len(values):,})"
        if not len(values):
            axes.plot([], [], color=colours[name], label=label)
            continue
        axes.ecdf(values, color=colours[name], lw=style.strand(place), label=label)
        zeros += int((values <= 0).sum())
        least = min(least, float(values[values > 0].min(initial=np.inf)))
    if np.isfinite(least):
        if zeros:
            axes.set_xscale("symlog", linthresh=least)
            axes.set_xlim(left=0)
        else:
            axes.set_xscale("log")
            style.plain_log(axes.xaxis)
    note = f"; {zeros:,} values are zero" if zeros else ""
    axes.set_xlabel(f"Time to first token in s (log scale{note})")
    axes.set_ylabel("Share of requests")
    style.percent(axes, top=1.02)
    style.legend(made, axes)
    return made


def latency_percentiles(results: Mapping[str, Any]) -> Figure:
    """p50, p95 and p99 of TTFT (s) and of TPOT (ms), one dot and its value per policy."""
    runs = results["runs"]
    height = 2.3 + len(_RANKS) * (0.25 + _ROW_IN * max(len(runs), 1))
    made = style.figure(results, "TTFT and TPOT percentiles", [style.SIMULATED], (8.6, height))
    axes = style.panels(made, 1, 2)
    _panel(axes[0], runs, "ttft_s", 1.0)
    _panel(axes[1], runs, "tpot_s", 1000.0)
    style.heading(axes[0], "TTFT: arrival to first token")
    style.heading(axes[1], "TPOT: mean gap of later tokens")
    labels = ("Time to first token in s", "Time per output token in ms")
    for panel, metric, label in zip(axes, ("ttft_s", "tpot_s"), labels, strict=True):
        sizes = sorted({run[metric]["n"] for run in runs}) or [0]
        counted = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
        scale = ", log scale" if panel.get_xscale() == "log" else ""
        panel.set_xlabel(f"{label} (n = {counted}{scale})")
    axes[0].set_ylabel("Percentile over requests")
    style.legend(made, axes[0])
    return made


def _panel(axes: Axes, runs: list[dict[str, Any]], metric: str, factor: float) -> None:
    """Dots, a row for each policy within a percentile: a bar has no foot on a logarithmic axis."""
    colours = style.policy_colours(run["policy"] for run in runs)
    row = 0.74 / max(len(runs), 1)
    every = [run[metric][rank] for run in runs for rank in _RANKS]
    drawn = [value * factor for value in every if value is not None]
    if drawn and min(drawn) > 0 and max(drawn) > _WIDE * min(drawn):
        axes.set_xscale("log")
        low, high = min(drawn), max(drawn)
        # Room on the right for the values beside the dots.
        axes.set_xlim(low / (high / low) ** 0.06, high * (high / low) ** 0.2)
        style.plain_log(axes.xaxis)
    else:
        axes.set_xlim(0, max(drawn, default=1.0) * 1.2 or 1.0)
    for place, run in enumerate(runs):
        shift = (place - (len(runs) - 1) / 2) * row
        found = [(i + shift, run[metric][rank]) for i, rank in enumerate(_RANKS)]
        dots = [(value * factor, at) for at, value in found if value is not None]
        x, y = [value for value, _ in dots], [at for _, at in dots]
        axes.plot(x, y, "o", markersize=6, color=colours[run["policy"]], label=run["policy"])
        for value, at in dots:
            axes.annotate(
                f"{value:.4g}",
                (value, at),
                xytext=(6, 0),
                textcoords="offset points",
                va="center",
                fontsize=7.5,
                color="#404040",
            )
    axes.set_yticks(range(len(_RANKS)), list(_RANKS))
    axes.set_ylim(len(_RANKS) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    for between in range(1, len(_RANKS)):
        axes.axhline(between - 0.5, color="#E3E3E3", lw=0.7, zorder=0)
    if not drawn:
        axes.text(0.5, 1, "no values", ha="center", color="#666666")
