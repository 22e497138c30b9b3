"""Walk an ordered dict from its front while entries already seen may vanish. Knows no policy."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice
from typing import Any


def front_first(queue: OrderedDict[int, Any]) -> Iterator[int]:
    """Every key of `queue` once, oldest first, lazily.

    Between two `next()` the caller may delete keys that were yielded; nothing else may change.
    An iterator of `OrderedDict` does not survive that, and a copy of all keys would cost time
    that grows with the queue. So keys are copied in pieces that double: the walk costs time
    in proportion to what it yielded, however much lies behind.
    """
    start = len(queue)
    for key in queue:  # most callers want one, and this is the cheapest way to it
        yield key
        break
    yielded, piece = 1, 2
    while True:
        skipped = yielded - (start - len(queue))
        keys = list(islice(queue, skipped, skipped + piece))
        if not keys:
            return
        for key in keys:
            yielded += 1
            yield key
        piece *= 2
