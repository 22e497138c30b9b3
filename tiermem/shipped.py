"""What is shipped: where `models/` and `traces/` lie (beside the package, or inside its wheel), and
which names a comparison uses when nothing is said."""

from __future__ import annotations

from pathlib import Path

DEFAULT_TRACE = "smollm2-chat"
DEFAULT_SYSTEM = "epyc-core-nvme"
DEFAULT_LLM = "smollm2-135m-f32"
DEFAULT_POLICIES = ("lru", "fifo", "s3fifo")

_PACKAGE = Path(__file__).resolve().parent


def folder(name: str) -> Path:
    """The shipped folder `name`, one of `models` and `traces`."""
    for place in (_PACKAGE / "data" / name, _PACKAGE.parent / name):
        if place.is_dir():
            return place
    raise AssertionError(f"this installation lacks its {name} folder")
