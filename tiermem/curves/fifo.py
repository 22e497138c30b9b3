"""FIFO without a queue: the cache holds the last C insertions, so a number per id will do."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tiermem.curves.recurrence import Flags, Ints


def hits(block_ids: Ints, block_offsets: Ints, capacity: int, order: str) -> Flags:
    """Whether each reference (file order) hits a FIFO cache of `capacity` blocks.

    "forward": each reference looks and is inserted if absent, in file order. "reverse": the
    references of a request look at its start, and the absent ones are inserted last to first.
    """
    ids = block_ids.tolist()
    found = bytearray(len(ids))
    inserted = [-1 - capacity] * (max(ids, default=-1) + 1)  # the number of its last insertion
    count = 0
    if order == "forward":
        for i, block in enumerate(ids):
            if inserted[block] + capacity >= count:
                found[i] = 1
            else:
                inserted[block] = count
                count += 1
        return np.frombuffer(found, dtype=np.bool_)
    offsets = block_offsets.tolist()
    for start, stop in pairwise(offsets):
        blocks = ids[start:stop]
        found[start:stop] = bytes([inserted[block] + capacity >= count for block in blocks])
        for block in reversed(blocks):
            if inserted[block] + capacity < count:
                inserted[block] = count
                count += 1
    return np.frombuffer(found, dtype=np.bool_)
