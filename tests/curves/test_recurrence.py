"""Where a block was referenced before, and the order of use inside a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tiermem.curves.recurrence import before_request, last_to_first, previous, request_starts


def test_previous_reference_of_the_same_id() -> None:
    """-1 for a first reference, else the place of the one before."""
    assert previous(np.array([0, 1, 0, 0, 2, 1])).tolist() == [-1, -1, 0, 2, -1, 1]
    assert previous(np.array([], dtype=np.int64)).tolist() == []


def test_before_request_looks_past_the_own_request(stream: Callable[..., Any]) -> None:
    """Where a request names an id three times, all three look at the request before."""
    ids, offsets = stream([[7, 8], [], [8, 7, 8, 9, 8]])
    starts = request_starts(offsets)
    assert starts.tolist() == [0, 0, 2, 2, 2, 2, 2]
    assert before_request(previous(ids), starts).tolist() == [-1, -1, 1, 0, 1, -1, 1]


def test_last_to_first_turns_each_request(stream: Callable[..., Any]) -> None:
    """Requests keep their places; the references of each are turned round."""
    _, offsets = stream([[1, 2, 3], [], [4], [5, 6]])
    assert last_to_first(offsets).tolist() == [2, 1, 0, 3, 5, 4]
