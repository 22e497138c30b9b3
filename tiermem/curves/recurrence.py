"""Where each block was referenced before: the one fact that every curve is made of.

References are numbered 0..m-1 in file order, the requests' blocks one after the other. A stream
is (`block_ids` int64[m], ids dense from 0; `block_offsets` int64[n+1], request i owns the
references `block_offsets[i]` up to `block_offsets[i+1]`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def previous(block_ids: Ints) -> Ints:
    """The reference before each one that has the same id, or -1."""
    m = len(block_ids)
    keys = block_ids * np.int64(m) + np.arange(m)
    keys.sort()
    ids, places = np.divmod(keys, max(m, 1))
    before = np.full(m, -1, dtype=np.int64)
    again = ids[1:] == ids[:-1]
    before[places[1:][again]] = places[:-1][again]
    return before


def before_request(previous: Ints, starts: Ints) -> Ints:
    """`previous`, but never a reference of the same request: further back, or -1.

    `starts` (int64[m]) is the first reference of each reference's request. It differs from
    `previous` only where a request names an id twice.
    """
    before = previous.copy()
    while len(inside := np.flatnonzero(before >= starts)):
        before[inside] = previous[before[inside]]
    return before


def request_starts(block_offsets: Ints) -> Ints:
    """For each reference, the first reference of its request."""
    return np.repeat(block_offsets[:-1], np.diff(block_offsets))


def last_to_first(block_offsets: Ints) -> Ints:
    """The references with those of each request turned round: a permutation, its own inverse."""
    starts = request_starts(block_offsets)
    stops = np.repeat(block_offsets[1:], np.diff(block_offsets))
    return starts + stops - 1 - np.arange(block_offsets[-1])
