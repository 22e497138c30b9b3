"""Least recently used: the block that was not used for the longest time goes first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator


class LRU:
    """Least recently used goes first."""

    def __init__(self, capacity: int) -> None:
        self._used: OrderedDict[int, None] = OrderedDict()

    def insert(self, block: int, size: int) -> None:
        self._used[block] = None

    def touch(self, block: int) -> None:
        self._used.move_to_end(block)

    def remove(self, block: int) -> None:
        del self._used[block]

    def victims(self) -> Iterator[int]:
        return iter(self._used)
