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
    """p50, p95 and p99 of TTFT (s) and of TPOT (ms), one bar or dot per policy."""
    made = style.figure(results, "TTFT and TPOT percentiles", [style.SIMULATED], (8.6, 4.8))
    axes = style.panels(made, 1, 2)
    runs = results["runs"]
    _panel(axes[0], runs, "ttft_s", 1.0)
    _panel(axes[1], runs, "tpot_s", 1000.0)
    style.heading(axes[0], "TTFT: arrival to first token")
    style.heading(axes[1], "TPOT: mean gap of later tokens")
    labels = ("Time to first token in s", "Time per output token in ms")
    for panel, label in zip(axes, labels, strict=True):
        panel.set_ylabel(label + (" (log scale)" if panel.get_yscale() == "log" else ""))
    style.legend(made, axes[0])
    return made


def _panel(axes: Axes, runs: list[dict[str, Any]], metric: str, factor: float) -> None:
    """Bars from zero; dots on a logarithmic axis, where a bar has no foot to stand on."""
    colours = style.policy_colours(run["policy"] for run in runs)
    width = 0.62 / max(len(runs), 1)
    every = [run[metric][rank] for run in runs for rank in _RANKS]
    drawn = [value * factor for value in every if value is not None]
    wide = bool(drawn) and min(drawn) > 0 and max(drawn) > _WIDE * min(drawn)
    for place, run in enumerate(runs):
        shift = (place - (len(runs) - 1) / 2) * width
        found = [(i + shift, run[metric][rank]) for i, rank in enumerate(_RANKS)]
        x = [at for at, value in found if value is not None]
        y = [value * factor for _, value in found if value is not None]
        look = {"color": colours[run["policy"]], "label": run["policy"]}
        if wide:
            axes.plot(x, y, "o", markersize=7, **look)
        else:
            axes.bar(x, y, width=width * 0.92, **look)
    if wide:
        axes.set_yscale("log")
        style.plain_log(axes.yaxis)
    else:
        axes.set_ylim(0, max(drawn, default=1.0) * 1.12 or 1.0)
    sizes = sorted({run[metric]["n"] for run in runs}) or [0]
    counted = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
    axes.set_xticks(range(len(_RANKS)), list(_RANKS))
    axes.set_xlim(-0.5, len(_RANKS) - 0.5)
    axes.set_xlabel(f"Percentile over requests (n = {counted})")
    axes.grid(axis="x", visible=False)
    if not drawn:
        axes.text(1, 0.5, "no values", ha="center", color="#666666")
