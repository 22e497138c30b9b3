"""What every figure has to be: named, honest about its data, and free of overlaps."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from tiermem.report import folder
from tiermem.report.folder import RunFolder


def texts(made: Figure) -> list[str]:
    """Every text of a figure that has letters in it."""
    return [item.get_text() for item in made.findobj(Text) if item.get_text().strip()]


def painted(made: Figure) -> list[Text]:
    """The texts that are painted: not hidden, and no tick beyond the limits of its axis."""
    found: list[Text] = [*made.texts, *(t for key in made.legends for t in key.get_texts())]
    for axes in made.axes:
        if not axes.get_visible():
            continue
        titles = [axes.title, *(child for child in axes.get_children() if isinstance(child, Text))]
        found += [*titles, axes.xaxis.label, axes.yaxis.label]
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
            found += [tick.label1 for tick in ticks]
    unique = {id(text): text for text in found}
    return [text for text in unique.values() if text.get_visible() and text.get_text().strip()]


def boxes(made: Figure) -> list[tuple[str, Bbox]]:
    """Where each painted text lands, in pixels."""
    canvas = made.canvas
    assert isinstance(canvas, FigureCanvasAgg)
    canvas.draw()
    renderer = canvas.get_renderer()
    return [(text.get_text(), text.get_window_extent(renderer)) for text in painted(made)]


def check_layout(made: Figure) -> None:
    """No text touches another one or leaves the picture."""
    found = boxes(made)
    assert len(found) > 8
    width, height = made.canvas.get_width_height()
    for text, box in found:
        inside = box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height
        assert inside, f"{text!r} leaves the picture"
    for (one, a), (two, b) in combinations(found, 2):
        assert not a.padded(-1).overlaps(b.padded(-1)), f"{one!r} over {two!r}"


@pytest.fixture
def layout() -> Callable[[Figure], None]:
    return check_layout


@pytest.fixture
def words() -> Callable[[Figure], list[str]]:
    return texts


@pytest.fixture
def saved(tmp_path: Path, large: Any, contents: Any) -> Callable[..., RunFolder]:
    """A run folder of made-up runs of these policies."""

    def write(*policies: str, **changes: Any) -> RunFolder:
        runs = [
            large(name, reuse=0.2 + 0.04 * place, slow=1.1 - 0.05 * place)
            for place, name in enumerate(policies)
        ]
        return folder.write(tmp_path / "out", contents(runs, **changes), overwrite=True)

    return write
