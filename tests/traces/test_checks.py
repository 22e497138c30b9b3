"""Block sizes that fit, ties, chains and rates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiermem.traces import checks


def ints(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=20), st.integers(1, 600), st.booleans())
def test_the_block_size_of_a_file_is_found(
    prompts: list[int], block_tokens: int, full_only: bool
) -> None:
    """Counts that some block size explains are explained, by a size that fits every request."""
    counts = ints(*(p // block_tokens + (p % block_tokens > 0 and not full_only) for p in prompts))
    found = checks.fitting_block_tokens(ints(*prompts), counts)
    if found is None:
        assert not counts.any(), "only a file without any id says nothing"
    else:
        assert len(checks.misfits(ints(*prompts), counts, found)) == 0


@pytest.mark.parametrize(
    ("prompts", "counts", "expected"),
    [
        ([20], [2], 16),
        ([6955, 3181, 512, 1], [14, 7, 1, 1], 512),
        ([130, 63, 64], [2, 0, 1], 64),
        ([100, 100], [10, 11], None),
        ([3], [4], None),
        ([9], [0], None),
        ([33], [3], 16),
        ([30, 31], [3, 4], 10),
    ],
)
def test_which_block_size_is_suggested(
    prompts: list[int], counts: list[int], expected: int | None
) -> None:
    """The smallest power of two that fits, else the smallest size, else none."""
    assert checks.fitting_block_tokens(ints(*prompts), ints(*counts)) == expected


def test_ties_count_requests_that_share_an_instant() -> None:
    """A group of k equal times has k tied requests."""
    assert checks.tied(ints(0, 0, 1, 2, 2, 2, 9)) == 5
    assert checks.tied(ints(0)) == 0
    assert checks.arrival_notices(ints(0, 10**9)) == []
    assert checks.arrival_notices(ints(0, 0))[-1] == "all requests arrive at the same instant"


def test_prefix_ids_raise_no_notice() -> None:
    """Ids whose predecessor and place never change are prefix ids; others are counted."""
    assert checks.chain_notices(ints(0, 1, 2, 0, 3, 0, 1, 2), ints(0, 3, 5, 5, 8)) == []
    assert checks.chain_notices(ints(), ints(0, 0)) == []
    (notice,) = checks.chain_notices(ints(0, 1, 1, 0), ints(0, 2, 4))
    assert notice.startswith("2 of 4 block references follow another block")
