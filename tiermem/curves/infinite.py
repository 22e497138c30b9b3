"""A cache that never evicts: only a first use misses."""

from __future__ import annotations

from tiermem.curves.recurrence import Flags, Ints, before_request, previous, request_starts


def hits(block_ids: Ints, block_offsets: Ints, order: str) -> Flags:
    """Whether each reference (file order) was used before: before itself in "forward" order,
    before its request in "reverse" order. The two differ only where a request names an id twice.
    """
    before = previous(block_ids)
    if order == "reverse":
        before = before_request(before, request_starts(block_offsets))
    return before >= 0
