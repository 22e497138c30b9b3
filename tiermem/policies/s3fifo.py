"""S3-FIFO: three queues, so that what is used once leaves quickly.

J. Yang, Y. Zhang, Z. Qiu, Y. Yue and K. V. Rashmi, "FIFO queues are all you need for cache
eviction", SOSP 2023, section 4 and algorithm 1. New blocks enter the small queue, which gets a
tenth of the room. At its end a block that was used more than once since it entered (freq > 1, with
freq capped at 3) moves to the main queue with freq cleared; any other one leaves, and its name
stays in the ghost queue. A block that comes back while its name is there enters the main queue.
Main is a CLOCK: at its end a block with freq > 0 pays one and goes round again. Ghost remembers as
many names as main has room for.

Three things the paper leaves open. Sizes may differ here, so the shares of the queues are counted
in size, not in blocks. A victim that the caller skips (it is pinned) goes round its queue once
more, so that it is not met on every call. `remove` cannot tell an eviction from forgetting, so
either leaves a name in ghost. As in the paper, asking for a victim is what moves blocks to main.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator
from fractions import Fraction

from tiermem.errors import InputError

_FREQ_MAX = 3


class S3FIFO:
    """Small, main and ghost FIFO queues (SOSP 2023): one-time blocks leave quickly.

    `small` is the small queue's share of the capacity, between 0 and 1; the paper takes 0.1.
    """

    def __init__(self, capacity: int, small: float = 0.1) -> None:
        if not isinstance(small, int | float) or not math.isfinite(small) or not 0 < small < 1:
            raise InputError(f"{small!r} is not a share between 0 and 1", key="s3fifo: small")
        self._small_room = math.ceil(Fraction(str(small)) * capacity)
        self._small: OrderedDict[int, int] = OrderedDict()  # block: size, oldest first
        self._main: OrderedDict[int, int] = OrderedDict()
        self._ghost: OrderedDict[int, int] = OrderedDict()
        self._small_used = 0
        self._ghost_left = capacity - self._small_room
        self._freq: dict[int, int] = {}
        self._passed_small: set[int] = set()  # given by the latest `victims` and still here
        self._passed_main: set[int] = set()

    def insert(self, block: int, size: int) -> None:
        self._freq[block] = 0
        if block in self._ghost:
            self._ghost_left += self._ghost.pop(block)
            self._main[block] = size
        else:
            self._small[block] = size
            self._small_used += size

    def touch(self, block: int) -> None:
        freq = self._freq
        if freq[block] < _FREQ_MAX:
            freq[block] += 1

    def remove(self, block: int) -> None:
        del self._freq[block]
        if block in self._main:
            del self._main[block]
            self._passed_main.discard(block)
            return
        size = self._small.pop(block)
        self._passed_small.discard(block)
        self._small_used -= size
        ghost, left = self._ghost, self._ghost_left - size
        ghost[block] = size
        while left < 0:
            left += ghost.popitem(last=False)[1]
        self._ghost_left = left

    def victims(self) -> Iterator[int]:
        small, main, freq = self._small, self._main, self._freq
        passed_small, passed_main = self._passed_small, self._passed_main
        passed_small.clear()
        passed_main.clear()
        while True:
            from_main = len(main) > len(passed_main)
            if (self._small_used >= self._small_room or not from_main) and (
                len(small) > len(passed_small)
            ):
                block = next(iter(small))
                if freq[block] > 1:
                    main[block] = size = small.pop(block)
                    self._small_used -= size
                    freq[block] = 0
                    continue
                yield block
                if block in small:
                    small.move_to_end(block)
                    passed_small.add(block)
            elif from_main:
                block = next(iter(main))
                if freq[block] > 0:
                    freq[block] -= 1
                elif block not in passed_main:
                    yield block
                    if block not in main:
                        continue
                    passed_main.add(block)
                main.move_to_end(block)
            else:
                return
