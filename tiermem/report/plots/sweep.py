"""What a tier's size buys: hit share and TTFT against its capacity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from tiermem.report.plots import style

_GIB = 2**30


def capacity_sweep(
    results: Mapping[str, Any], sweep: pd.DataFrame, notes: Sequence[str] = ()
) -> Figure:
    """Two panels over capacity (log): share of prompt tokens hit, and mean and p99 TTFT.

    `sweep` has one row per capacity and policy: tier, capacity_bytes, policy, hit_share,
    ttft_mean_s, ttft_p99_s, n. `results` names trace, system and model as results.json does;
    `notes` go into the head.
    """
    tier = str(sweep["tier"].iloc[0])
    made = style.figure(
        results, f"What the size of {tier} buys", [style.SIMULATED, *notes], (9.0, 4.7)
    )
    left, right = style.panels(made, 1, 2)
    colours = style.policy_colours(sweep["policy"])
    for place, (name, rows) in enumerate(sweep.groupby("policy", sort=False)):
        part = rows.sort_values("capacity_bytes")
        size = part["capacity_bytes"].to_numpy(dtype=float) / _GIB
        look: dict[str, Any] = {
            "color": colours[str(name)],
            "lw": style.strand(place),
            "marker": "o",
        }
        left.plot(size, part["hit_share"].to_numpy(dtype=float), label=str(name), **look)
        right.plot(size, part["ttft_mean_s"].to_numpy(dtype=float), label=f"{name}, mean", **look)
        right.plot(
            size,
            part["ttft_p99_s"].to_numpy(dtype=float),
            label=f"{name}, p99",
            **look | {"lw": 1.2, "ls": "--", "marker": "s", "markersize": 4},
        )
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_xlabel(f"Capacity of {tier} in GiB (log scale)")
    left.set_ylabel("Share of prompt tokens read from a tier")
    style.percent(left, top=max(float(sweep["hit_share"].max()) * 1.15, 0.01))
    right.set_ylabel("Time to first token in s")
    slowest = sweep["ttft_p99_s"].dropna()
    right.set_ylim(0, float(slowest.max()) * 1.12 if len(slowest) else 1.0)
    for axes in (left, right):  # each panel its own: p99 is in one of them alone
        style.legend_below(axes)
    return made
