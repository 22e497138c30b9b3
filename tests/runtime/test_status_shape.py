"""What a status file must have to be printed, and the line that says what it lacks."""

from __future__ import annotations

from typing import Any

import pytest

from tiermem.runtime.status_shape import HEAD, NONE, NUMBER, TEXT, Each, trouble


@pytest.mark.parametrize(
    ("value", "shape", "said"),
    [
        (5, NUMBER, None),
        (True, NUMBER, "it is not a number"),
        (10**400, NUMBER, "it is not a number"),
        (float("inf"), NUMBER, "it is not a number"),
        (None, (TEXT, NONE), None),
        (5, (TEXT, NONE), "it is not a text"),
        ([{"a": 1}, {}], Each(list, {"a": NUMBER}), "it[1] has no a"),
        ({"x": "y"}, Each(dict, NUMBER), "it[x] is not a number"),
        ([], HEAD, "it is not an object"),
        ({**dict.fromkeys(HEAD, 1)}, HEAD, "it.closed is not true or false"),
    ],
)
def test_the_first_trouble_is_named_with_its_place(value: Any, shape: Any, said: str) -> None:
    """None where there is none."""
    assert trouble(value, shape, "it") == said
