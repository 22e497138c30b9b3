"""Block hits are all hits; prefix hits end at a request's first miss."""

from __future__ import annotations

import numpy as np
import pytest

from tiermem.curves.tally import tally


@pytest.mark.parametrize(
    ("hits", "offsets", "counts"),
    [
        ([1, 1, 0, 1], [0, 4], (3, 2)),
        ([0, 1, 1, 1], [0, 1, 4], (3, 3)),
        ([1, 1, 0, 1], [0, 2, 2, 4], (3, 2)),
        ([1, 1, 1], [0, 1, 3], (3, 3)),
        ([0, 0], [0, 2], (0, 0)),
        ([], [0, 0, 0], (0, 0)),
    ],
)
def test_counts(hits: list[int], offsets: list[int], counts: tuple[int, int]) -> None:
    """By hand, with an empty request and a miss in the middle."""
    assert tally(np.array(hits, dtype=bool), np.array(offsets)) == counts
