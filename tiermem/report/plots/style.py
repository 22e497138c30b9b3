"""How every figure looks: fixed colours, the head that says what is shown, and saving.

Nothing here opens a window: the Agg canvas is made by hand, so no display, no pyplot state and
no figure left open. Colours are from sets made for colour-blind readers (Okabe and Ito 2008 for
policies, Tol's "muted" for tiers).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from tiermem.report import tables

DPI = 150
SIMULATED = "simulated times (roofline estimate)"
_HEAD_IN = 0.78
_GREY = "#595959"
_FEW_DECADES = 10**2.5

_POLICIES = {
    "lru": "#0072B2",
    "fifo": "#D55E00",
    "lfu": "#009E73",
    "s3fifo": "#CC79A7",
}
_OTHER_POLICIES = ("#E69F00", "#56B4E9", "#882255", "#999933", "#6F4E37", "#332288")
_SOURCES = {
    "hbm": "#332288",
    "dram": "#88CCEE",
    "cxl": "#44AA99",
    "cxl_pim": "#117733",
    "nvme": "#DDCC77",
    "csd": "#999933",
    "recompute": "#CC6677",
    "rejected": "#882255",
    "not_served": "#BBBBBB",
}
_OTHER_SOURCES = ("#AA4499", "#6699CC", "#661100", "#888888")

# Any: matplotlib's stubs spell out every key as a literal.
_RC: Any = {
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E3E3E3",
    "grid.linewidth": 0.7,
    "axes.edgecolor": "#777777",
    "legend.frameon": False,
    "lines.solid_capstyle": "butt",
}


def policy_colours(names: Iterable[str]) -> dict[str, str]:
    """A colour for each policy: always the same for a built-in, from its name for any other."""
    return _colours(names, _POLICIES, _OTHER_POLICIES)


def source_colours(names: Iterable[str]) -> dict[str, str]:
    """A colour for each tier and for recompute, rejected and not_served, as for policies."""
    return _colours(names, _SOURCES, _OTHER_SOURCES)


def darker(colour: str) -> str:
    """The same hue at half the brightness, for what is drawn over a line of `colour`."""
    return "#" + "".join(f"{int(colour[i : i + 2], 16) // 2:02X}" for i in (1, 3, 5))


def strand(place: int) -> float:
    """Line width of the `place`-th policy: lines on top of one another stay visible as strands."""
    return max(1.2, 3.4 - 0.8 * place)


def figure(
    results: Mapping[str, Any], title: str, notes: Sequence[str], size: tuple[float, float]
) -> Figure:
    """An empty figure of `size` inches with its head: title, subject, and what to know.

    The head names model, system and trace, says whether the trace is synthetic, and how many
    requests it has; `notes` follow. A figure of times has `SIMULATED` among its notes.
    """
    with rc_context(_RC):
        made = Figure(figsize=size, dpi=DPI, layout="constrained")
        FigureCanvasAgg(made)
        layout = made.get_layout_engine()
        assert layout is not None
        layout.set(rect=(0.0, 0.0, 1.0, 1.0 - _HEAD_IN / size[1]), h_pad=0.06)  # type: ignore[call-arg]
        total = results.get("trace", {}).get("requests")
        about = [f"n = {total:,} requests"] if total is not None else []
        about += notes
        left = 0.12 / size[0]
        lines = (
            (0.10, title, 12.5, "#000000", "bold"),
            (0.36, tables.subject(results), 9.0, _GREY, "normal"),
            (0.55, "; ".join(about), 8.5, _GREY, "normal"),
        )
        for down, text, points, colour, weight in lines:
            made.text(
                left,
                1.0 - down / size[1],
                text,
                fontsize=points,
                color=colour,
                fontweight=weight,
                va="top",
            )
    return made


def panels(made: Figure, rows: int, columns: int, **options: Any) -> list[Axes]:
    """`rows` x `columns` axes in the house style, row by row."""
    with rc_context(_RC):
        grid = made.subplots(rows, columns, squeeze=False, **options)
    return [axes for row in grid for axes in row]


def heading(axes: Axes, text: str) -> None:
    """What one panel of several shows, over its left edge."""
    axes.set_title(text, loc="left", fontsize=10)


def percent(axes: Axes, *, top: float | None = None) -> None:
    """The y axis is a share: from 0 to `top`, written in per cent."""
    axes.set_ylim(0, top)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g}%"))


def plain_log(axis: XAxis | YAxis) -> None:
    """Write 0.01, 1, 100, 10k on a logarithmic axis instead of powers of ten.

    An axis of few decades has labels at 2 and 5 too, so that none is left without any.
    """
    low, high = sorted(axis.get_view_interval())
    close = low > 0 and high / low < _FEW_DECADES
    axis.set_major_locator(LogLocator(10, subs=(1, 2, 5) if close else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axis.set_minor_formatter(NullFormatter())


def short(value: float) -> str:
    """`0.5`, `20`, `3k`, `1.2M`: a number as an axis has room for it."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def legend(made: Figure, axes: Axes, *, title: str | None = None) -> None:
    """One legend for the whole figure, under it, without a name twice."""
    with rc_context(_RC):
        handles, labels = axes.get_legend_handles_labels()
        first = dict(zip(reversed(labels), reversed(handles), strict=True))
        names = list(dict.fromkeys(labels))
        made.legend(
            [first[name] for name in names],
            names,
            loc="outside lower center",
            ncols=_columns(names, made.get_figwidth()),
            title=title,
        )


def legend_below(axes: Axes) -> None:
    """A legend of one panel, under it."""
    with rc_context(_RC):
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)


def _columns(names: Sequence[str], width_in: float) -> int:
    """As many legend columns as fit, taking a letter for 6.2 points and a line sample for 44."""
    widest_points = 44 + 6.2 * max(map(len, names), default=0)
    return max(1, min(len(names), 5, int((72 * width_in - 20) / widest_points)))


def save(made: Figure, path: Path) -> Path:
    """Write a PNG without dates in it, and free the figure."""
    with rc_context(_RC):
        made.savefig(path, dpi=DPI, metadata={"Software": None})
    made.clear()
    return path


def _colours(
    names: Iterable[str], fixed: Mapping[str, str], others: Sequence[str]
) -> dict[str, str]:
    asked = list(dict.fromkeys(names))
    found = {name: fixed[name] for name in asked if name in fixed}
    taken: set[str] = set()
    for name in sorted(set(asked) - set(found)):
        start = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
        ring = [others[(start + step) % len(others)] for step in range(len(others))]
        colour = next((colour for colour in ring if colour not in taken), ring[0])
        taken.add(colour)
        found[name] = colour
    return {name: found[name] for name in asked}
