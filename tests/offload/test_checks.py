"""Every argument is looked at before anything is made of it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiermem.core.chosen import make_policy
from tiermem.errors import InputError
from tiermem.offload import checks
from tiermem.policies.lru import LRU

WRONG: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "whole": (checks.whole, (0, -1, 1.5, "x", None, True, math.nan)),
    "text": (checks.text, (None, 3, b"x", "\ud800")),
    "folder": (checks.folder, ("", 3, None, b"x", "a\0b", "\ud800")),
    "seconds": (checks.seconds, (math.inf, math.nan, 0, -1, "3", None, True, 1e300)),
    "taps": (checks.taps, (3, [3], None, "x")),
    "policy": (checks.policy, (None, 3, "", b"lru", LRU, object())),
}


@pytest.mark.parametrize("name", list(WRONG))
def test_what_is_wrong_is_named(name: str) -> None:
    """One line, and it begins with the argument."""
    check, values = WRONG[name]
    for value in values:
        with pytest.raises(InputError, match=r"^the_key: ") as caught:
            check(value, "the_key")
        assert "\n" not in str(caught.value)


def test_what_is_right_is_used() -> None:
    """Also from numpy, and as paths."""
    assert checks.whole(np.int64(3), "k") == 3
    assert checks.text("", "k") == ""
    assert checks.folder(Path("a"), "k") == "a"
    assert checks.seconds(3, "k") == 3.0
    assert checks.taps((print,), "k") == (print,)
    made = make_policy("lru", {"dram": 4096})
    assert checks.policy(made, "k") is made
    with pytest.raises(InputError, match="empty"):
        checks.text("", "k", empty=False)
