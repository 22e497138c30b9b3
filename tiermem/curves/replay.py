"""Any `Evict` class over a stream of references, in a plain loop. Users' policies run here."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tiermem.core.policy import Evict
from tiermem.curves.recurrence import Flags, Ints
from tiermem.errors import InputError


def hits(evict: Evict, block_ids: Ints, block_offsets: Ints, capacity: int, order: str) -> Flags:
    """Whether each reference (file order) hits a cache of `capacity` blocks run by `evict`.

    A resident block that is used is touched; an absent one is inserted, after the first victim
    was removed if the cache is full. "forward": each reference looks and is used in file order.
    "reverse": the references of a request look at its start and are used last to first.
    """
    ids, offsets = block_ids.tolist(), block_offsets.tolist()
    found = bytearray(len(ids))
    resident: set[int] = set()
    room = capacity
    insert, touch, remove, victims = evict.insert, evict.touch, evict.remove, evict.victims
    for start, stop in pairwise(offsets):
        blocks = ids[start:stop]
        if order == "reverse":
            at_start = bytes(map(resident.__contains__, blocks))
            blocks.reverse()
        for i, block in enumerate(blocks, start):
            if block in resident:
                found[i] = 1
                touch(block)
                continue
            if room:
                room -= 1
            else:
                victim = next(iter(victims()), None)
                if victim is None:
                    raise InputError(f"it offers no victim with {len(resident)} blocks resident")
                if victim not in resident:
                    raise InputError(f"its victim {victim!r} is not resident")
                remove(victim)
                resident.remove(victim)
            insert(block, 1)
            resident.add(block)
        if order == "reverse":
            found[start:stop] = at_start
    return np.frombuffer(found, dtype=np.bool_)
