"""Formatter, linter and type checker, with the settings of pyproject.toml, find nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize(
    "arguments",
    [
        ("ruff", "check", "--no-cache", "."),
        ("ruff", "format", "--check", "--no-cache", "."),
        ("mypy",),
    ],
    ids=["ruff check", "ruff format", "mypy"],
)
def test_clean(arguments: tuple[str, ...]) -> None:
    """House style section 5: ruff and mypy strict are clean."""
    found = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout + found.stderr
