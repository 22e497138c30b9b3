"""From hits per reference to the two numbers that are reported."""

from __future__ import annotations

import numpy as np

from tiermem.curves.recurrence import Flags, Ints


def tally(hits: Flags, block_offsets: Ints) -> tuple[int, int]:
    """Block hits (every hit) and prefix hits (the hits of each request before its first miss)."""
    misses = np.append(np.flatnonzero(~hits), len(hits))
    starts, stops = block_offsets[:-1], block_offsets[1:]
    first_miss = np.minimum(misses[np.searchsorted(misses, starts)], stops)
    return int(np.count_nonzero(hits)), int((first_miss - starts).sum())
