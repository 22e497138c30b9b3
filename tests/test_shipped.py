"""The data folders are found wherever the package is."""

from __future__ import annotations

import pytest

from tiermem import shipped


@pytest.mark.parametrize(
    ("name", "inside"), [("models", "systems"), ("models", "llms"), ("traces", "catalog.toml")]
)
def test_folders_are_there(name: str, inside: str) -> None:
    """models/ and traces/ come with every installation."""
    assert (shipped.folder(name) / inside).exists()


def test_only_data_folders_are_shipped() -> None:
    """Asking for another folder is a mistake of ours, found at once."""
    with pytest.raises(AssertionError, match="lacks its nonsense folder"):
        shipped.folder("nonsense")
