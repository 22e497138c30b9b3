"""Belady's MIN: the most block hits that any eviction order can reach, because it knows the future.

L. A. Belady, "A study of replacement algorithms for a virtual-storage computer", 1966: evict what
is used again farthest in the future. Two bounds, each in both orders:

    must insert   a missing block enters the cache, as it does under every `Evict` class
    may bypass    a missing block may be left out, as with an admission filter

In "forward" order time is counted in references. In "reverse" order a request is one moment: its
references look before any of them is used, so which other reference of the same request comes
first does not matter, and a block may leave between its look and its use. What binds is what is
resident between requests: of the blocks resident or named, the C that are used again soonest.
With must-insert the first block of a request that missed anything stays besides, as it is used
last. Both are optima over all eviction orders for block hits (the tests search them exhaustively
on small streams); in reverse order provided that no request names an id twice, since such a block
would be worth two. Requests made of prefix blocks never do.
Among blocks used again in the same request the one nearer its head stays, which favours prefix
hits, but prefix hits are those of the optimum for block hits, not a bound.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import pairwise

import numpy as np

from tiermem.curves.recurrence import Flags, Ints, previous, request_starts


def hits(block_ids: Ints, block_offsets: Ints, capacity: int, order: str, *, bypass: bool) -> Flags:
    """Whether each reference (file order) hits under MIN with `capacity` blocks."""
    # A step is what happens at one moment: a reference, or a request.
    steps = block_offsets if order == "reverse" else np.arange(len(block_ids) + 1)
    before = previous(block_ids)
    once = before < request_starts(steps)
    found = np.zeros(len(block_ids), dtype=np.bool_)
    found[once] = _farthest_first(
        _next_use(block_ids[once]), np.append(0, np.cumsum(once))[steps], capacity, bypass
    )
    for twice in np.flatnonzero(~once):  # named again in its step: shares the first one's fate
        found[twice] = found[before[twice]]
    return found


def _next_use(block_ids: Ints) -> Ints:
    """The reference after each one that has the same id, or m."""
    before = previous(block_ids)
    again = np.flatnonzero(before >= 0)
    after = np.full(len(block_ids), len(block_ids))
    after[before[again]] = again
    return after


def _farthest_first(next_use: Ints, steps: Ints, capacity: int, bypass: bool) -> Flags:
    """MIN over steps that name each id once.

    A resident that is used again is known by the reference that will use it: `kept` marks it, and
    the heap has the farthest on top. Marks of the past sink below those of the future, so the
    top is always a resident and nothing is ever searched for.
    """
    uses, bounds, never = next_use.tolist(), steps.tolist(), len(next_use)
    kept = bytearray(never)
    heap: list[int] = []
    useless = used = 0  # residents that are never used again; all residents
    for start, stop in pairwise(bounds):
        missing = stop - start - kept.count(1, start, stop)
        stays = start if bypass or not missing else start + 1
        for use in uses[stays:stop]:
            if use == never:
                useless += 1
            else:
                heappush(heap, -use)
                kept[use] = 1
        used += missing
        while used > capacity:
            used -= 1
            if useless:
                useless -= 1
            else:
                kept[-heappop(heap)] = 0
        for use in uses[start:stays]:
            if use == never:
                useless += 1
            else:
                heappush(heap, -use)
                kept[use] = 1
    return np.frombuffer(kept, dtype=np.bool_)
