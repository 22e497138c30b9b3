"""Draw every figure of a run folder from the files in it, and the figure of a capacity sweep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from tiermem.report.folder import FIGURES, RunFolder
from tiermem.report.plots import hit_rate, latency, shares, style
from tiermem.report.plots.sweep import capacity_sweep


def draw(folder: RunFolder) -> list[Path]:
    """Write the figures into the folder as PNG files; returns their paths.

    Only what is saved is drawn, so drawing again gives the same figures.
    """
    results = folder.results
    makers: tuple[Callable[[], Figure], ...] = (
        lambda: hit_rate.hit_rate(results, folder.table("hits")),
        lambda: shares.prompt_token_sources(results),
        lambda: latency.ttft_distribution(results, folder.frame()),
        lambda: latency.latency_percentiles(results),
        lambda: shares.occupancy(results, folder.table("occupancy")),
    )
    return [
        style.save(make(), folder.path / name) for name, make in zip(FIGURES, makers, strict=True)
    ]


def draw_sweep(
    sweep: pd.DataFrame, results: dict[str, object], path: Path, notes: Sequence[str] = ()
) -> Path:
    """Write the figure of a sweep of one tier's capacity (see `capacity_sweep`) to `path`."""
    return style.save(capacity_sweep(results, sweep, notes), path)
