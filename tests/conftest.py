"""Fixtures that every test may use, and the one place that knows where recorded traces lie."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest

mpl.use("Agg")

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("TIERMEM_SHARED", REPOSITORY.parent / "shared"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of recorded traces and reference values, which is not part of the project."""
    if not (SHARED / "traces").is_dir():
        pytest.skip("recorded traces are absent: no folder 'shared' beside the checkout")
    return SHARED


@pytest.fixture(scope="session")
def reference_values(shared: Path) -> dict[str, Any]:
    """Independently counted hits per trace file (see `shared/traces/README.md`, section 5)."""
    values = json.loads((shared / "traces" / "reference_values.json").read_text())
    return dict(values["traces"])
