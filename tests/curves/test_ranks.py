"""Counting earlier smaller values equals counting them one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tiermem.curves.ranks import count_smaller


@settings(deadline=None)
@given(data=st.data(), n=st.integers(0, 40))
def test_equals_counting(data: st.DataObject, n: int) -> None:
    """For any values in 0..n, repeated or not, and any prefixes and limits."""
    values = data.draw(st.lists(st.integers(0, n), min_size=n, max_size=n))
    queries = data.draw(st.lists(st.tuples(st.integers(0, n), st.integers(0, n)), max_size=20))
    found = count_smaller(
        np.array(values, dtype=np.int64),
        np.array([end for end, _ in queries], dtype=np.int64),
        np.array([limit for _, limit in queries], dtype=np.int64),
    )
    assert found.tolist() == [
        sum(value < limit for value in values[:end]) for end, limit in queries
    ]
