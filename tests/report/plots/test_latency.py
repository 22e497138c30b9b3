"""TTFT and TPOT figures: every request is in them, zeros included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from matplotlib.figure import Figure

from tiermem.report.folder import RunFolder
from tiermem.report.plots.latency import latency_percentiles, ttft_distribution

Save = Callable[..., RunFolder]


def test_the_distribution_reaches_every_request(saved: Save, words: Any) -> None:
    """Each step of the curve is a request; n is written beside the name."""
    folder = saved("lru", "fifo")
    frame = folder.frame()
    made = ttft_distribution(folder.results, frame)
    for line, (name, rows) in zip(
        made.axes[0].lines, frame.groupby("policy", sort=False), strict=True
    ):
        assert line.get_label() == f"{name} (n = 800)"
        assert max(line.get_xdata()) == rows["ttft_s"].max()
        assert max(line.get_ydata()) == pytest.approx(1.0)
    assert any("simulated times (roofline estimate)" in text for text in words(made))


def test_zeros_are_drawn_at_zero_and_counted(saved: Save) -> None:
    """Fault 138: a value of 0 on the log axis stands at 0, and the label says how many do."""
    folder = saved("lru")
    frame = folder.frame()
    frame.loc[:9, "ttft_s"] = 0.0
    axes = ttft_distribution(folder.results, frame).axes[0]
    assert axes.get_xscale() == "symlog"
    assert axes.get_xlim()[0] == 0
    assert "10 values are zero" in axes.get_xlabel()


def test_percentiles_are_those_of_the_results(saved: Save, words: Any) -> None:
    """A dot and its value for each of results.json, TTFT in s and TPOT in ms."""
    folder = saved("lru", "fifo")
    made = latency_percentiles(folder.results)
    for axes, metric, factor in zip(made.axes, ("ttft_s", "tpot_s"), (1, 1000), strict=True):
        for line, run in zip(axes.lines, folder.runs, strict=False):
            expected = [run[metric][rank] * factor for rank in ("p50", "p95", "p99")]
            assert list(line.get_xdata()) == pytest.approx(expected)
            assert {f"{value:.4g}" for value in expected} <= set(words(made))


def test_marks_are_the_same_on_both_kinds_of_axis(saved: Save) -> None:
    """Dots on a logarithmic axis and on a plain one, where they count from zero."""
    results = saved("lru").results
    results["runs"][0]["ttft_s"] |= {"p50": 0.01, "p99": 10.0}
    made = latency_percentiles(results)
    assert [axes.get_xscale() for axes in made.axes] == ["log", "linear"]
    assert made.axes[1].get_xlim()[0] == 0
    assert {axes.lines[0].get_marker() for axes in made.axes} == {"o"}
    (handle,) = made.legends[0].legend_handles
    assert handle.get_marker() == "o"


def test_nobody_served_is_an_empty_figure(saved: Save, words: Any) -> None:
    """All rejected: the axes say that there are no values."""
    folder = saved("lru")
    results = folder.results
    results["runs"][0]["ttft_s"] = dict.fromkeys(("mean", "p50", "p95", "p99")) | {"n": 0}
    frame = folder.frame()
    frame["ttft_s"] = float("nan")
    assert "no values" in words(latency_percentiles(results))
    assert len(ttft_distribution(results, frame).axes[0].lines) == 1


@pytest.mark.parametrize("count", [1, 3, 7])
def test_nothing_overlaps(saved: Save, layout: Callable[[Figure], None], count: int) -> None:
    """Readable with one policy and with seven."""
    folder = saved(*["lru", "fifo", "lfu", "s3fifo", "mine:A", "mine:B", "mine:C"][:count])
    layout(latency_percentiles(folder.results))
    layout(ttft_distribution(folder.results, folder.frame()))
