"""How many earlier values are smaller: one question, many times, in array operations only."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def count_smaller(values: Ints, ends: Ints, limits: Ints) -> Ints:
    """For each query q, how many of `values[:ends[q]]` are below `limits[q]`.

    With n values, all of `values` and `limits` lie in 0..n, and so do `ends`. The method is a
    wavelet matrix (F. Claude and G. Navarro, 2012) of which only the level at hand is kept: bit
    by bit from the highest, the values are parted, in order, into those with the bit clear and
    those with it set; each query follows the range of values that agree with its limit so far.
    O((n + queries) log n) time, O(n + queries) memory.
    """
    n = len(values)
    # Half the memory is nearly half the time.
    kind: type[np.signedinteger[Any]] = np.int32 if n < 2**31 else np.int64
    here, limit = values.astype(kind), limits.astype(kind)
    first, last = np.zeros_like(limit), ends.astype(kind)
    found = np.zeros_like(limit)
    clear_before = np.zeros(n + 1, dtype=kind)
    for bit in reversed(range(n.bit_length())):
        clear = (here & (1 << bit)) == 0
        np.cumsum(clear, out=clear_before[1:])
        here = np.concatenate((here[clear], here[~clear]))
        clear_first, clear_last = clear_before[first], clear_before[last]
        is_set = (limit & (1 << bit)) != 0
        found += (clear_last - clear_first) * is_set
        total = clear_before[-1]
        first = np.where(is_set, total + first - clear_first, clear_first)
        last = np.where(is_set, total + last - clear_last, clear_last)
    return found.astype(np.int64)
