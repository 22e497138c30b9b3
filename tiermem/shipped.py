"""Where the data folders `models/` and `traces/` lie: beside the package, or inside its wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def folder(name: str) -> Path:
    """The shipped folder `name`, one of `models` and `traces`."""
    for place in (_PACKAGE / "data" / name, _PACKAGE.parent / name):
        if place.is_dir():
            return place
    raise AssertionError(f"this installation lacks its {name} folder")
