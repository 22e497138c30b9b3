"""The steps to more slots are told apart by their class."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from tiermem.runtime.file.steps import Create, Stale, Step


def test_steps_are_known_by_their_class() -> None:
    """All of them are in `Step`."""
    assert Create in get_args(Step)
    assert isinstance(Stale(Path("x"), 1), Step)
