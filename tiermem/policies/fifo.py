"""First in, first out: a block goes when it is the oldest insertion, however often it was used."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator


class FIFO:
    """The oldest insertion goes first; use changes nothing."""

    def __init__(self, capacity: int) -> None:
        self._inserted: OrderedDict[int, None] = OrderedDict()

    def insert(self, block: int, size: int) -> None:
        self._inserted[block] = None

    def touch(self, block: int) -> None:
        pass

    def remove(self, block: int) -> None:
        del self._inserted[block]

    def victims(self) -> Iterator[int]:
        return iter(self._inserted)
