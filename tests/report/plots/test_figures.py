"""Drawing: from saved files, the same bytes each time, nothing left open."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import pytest

from tiermem.report import folder
from tiermem.report.folder import FIGURES, RunFolder
from tiermem.report.plots.figures import draw

PNG = b"\x89PNG\r\n\x1a\n"


def test_every_figure_is_a_png_in_the_folder(saved: Callable[..., RunFolder]) -> None:
    """Five figures with fixed names, and no figure stays in memory (fault 139)."""
    found = draw(saved("lru", "fifo"))
    assert [path.name for path in found] == list(FIGURES)
    assert all(path.read_bytes().startswith(PNG) for path in found)
    assert plt.get_fignums() == []


def test_drawing_again_gives_the_same_bytes(saved: Callable[..., RunFolder]) -> None:
    """A figure depends on the saved files alone: no date, no version, no order of a set."""
    run = saved("lru", "mine:Policy")
    first = [path.read_bytes() for path in draw(run)]
    assert [path.read_bytes() for path in draw(folder.load(run.path))] == first


def test_a_display_that_is_not_there_is_not_missed(saved: Callable[..., RunFolder]) -> None:
    """Fault 129: a display variable that points nowhere does not matter."""
    run = saved("lru")
    code = (
        "import sys; from tiermem.report import folder;"
        "from tiermem.report.plots.figures import draw;"
        "draw(folder.load(sys.argv[1]))"
    )
    environment = {"DISPLAY": ":99", "MPLBACKEND": "tkagg", "PYTHONPATH": ":".join(sys.path)}
    subprocess.run([sys.executable, "-c", code, str(run.path)], env=environment, check=True)
    assert len(run.figures) == len(FIGURES)


@pytest.mark.parametrize("state", ["rejected", "unfinished"])
def test_nobody_served_can_be_drawn(tmp_path: Any, small: Any, contents: Any, state: str) -> None:
    """Every figure exists when no request was completed, without a warning."""
    source = {"rejected": "tokens_rejected", "unfinished": "tokens_not_served"}[state]
    run = small([{"state": state, source: 9}], finished_ns=0)
    saved = folder.write(tmp_path / "out", contents([run], hits=[]))
    assert len(draw(saved)) == len(FIGURES)
    assert json.loads((saved.path / "results.json").read_text())["runs"][0]["ttft_s"]["n"] == 0
