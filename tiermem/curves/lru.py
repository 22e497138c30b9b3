"""LRU at every capacity in one pass: stack distances.

The stack distance of a reference is how many other ids were used since its id was last used. An
LRU cache of C blocks holds the id exactly when that is below C (R. L. Mattson, J. Gecsei,
D. R. Slutz and I. L. Traiger, "Evaluation techniques for storage hierarchies", 1970).

The count is done from the references' predecessors. Say p is the last use of the id before the
question. Of all uses so far, those up to p (there are p + 1) have predecessors before p, and one
after p has a predecessor at or before p only if it is the first use of its id since p. So

    distance = number of uses whose predecessor is at or before p, minus (p + 1).
"""

from __future__ import annotations

import numpy as np

from tiermem.curves.ranks import count_smaller
from tiermem.curves.recurrence import (
    Ints,
    before_request,
    last_to_first,
    previous,
    request_starts,
)

NEVER = np.iinfo(np.int64).max


def stack_distances(block_ids: Ints, block_offsets: Ints, order: str) -> Ints:
    """The LRU stack distance of each reference (int64[m], file order); NEVER at a first use.

    "forward": every reference is a use, in file order. "reverse": the references of a request
    all ask at its start, and are then used from last to first.
    """
    turn = last_to_first(block_offsets) if order == "reverse" else np.arange(len(block_ids))
    before = previous(block_ids[turn])
    asked = np.arange(len(before))
    last_use = before
    if order == "reverse":
        asked = request_starts(block_offsets)
        last_use = before_request(before, asked)
    distances = np.full(len(before), NEVER)
    distances[turn] = _distances(before, asked, last_use)
    return distances


def _distances(before: Ints, asked: Ints, last_use: Ints) -> Ints:
    """In order of use: uses `before` each, how many uses came before it `asked`, and the
    `last_use` of its id by then."""
    again = last_use >= 0
    p = last_use[again]
    # No use before the question has p itself as predecessor: "before p" is "at or before p".
    counted = count_smaller(before + 1, asked[again], p + 1)
    distances = np.full(len(before), NEVER)
    distances[again] = counted - (p + 1)
    return distances
