"""Least frequently used, in constant time per call.

Blocks with the same number of uses share a bucket; buckets are linked in rising order of uses.
A block counts its uses only while it is resident: when it leaves, its count is forgotten.
Within a bucket the block that came into it first goes first, so ties fall to the least recently
used one. The idea is K. Shah, A. Mitra and D. Matani, "An O(1) algorithm for implementing the
LFU cache eviction scheme", 2010.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator


class _Bucket:
    """The blocks used `uses` times, least recent first, between its neighbours in the list."""

    __slots__ = ("after", "before", "blocks", "uses")

    def __init__(self, uses: int) -> None:
        self.uses = uses
        self.blocks: OrderedDict[int, None] = OrderedDict()
        self.before = self.after = self


class LFU:
    """Least frequently used goes first; among equals the least recently used."""

    def __init__(self, capacity: int) -> None:
        self._ends = _Bucket(0)  # both ends of the ring of buckets; never holds a block
        self._bucket: dict[int, _Bucket] = {}

    def insert(self, block: int, size: int) -> None:
        self._put(block, self._ends, 1)

    def touch(self, block: int) -> None:
        bucket = self._bucket[block]
        del bucket.blocks[block]
        self._put(block, bucket, bucket.uses + 1)
        if not bucket.blocks:
            _unlink(bucket)

    def remove(self, block: int) -> None:
        bucket = self._bucket.pop(block)
        del bucket.blocks[block]
        if not bucket.blocks:
            _unlink(bucket)

    def victims(self) -> Iterator[int]:
        bucket = self._ends.after
        while bucket is not self._ends:
            yield from bucket.blocks
            bucket = bucket.after

    def _put(self, block: int, before: _Bucket, uses: int) -> None:
        """Into the bucket of `uses`, which follows `before` or is made there."""
        bucket = before.after
        if bucket.uses != uses:
            bucket = _Bucket(uses)
            bucket.before, bucket.after = before, before.after
            before.after.before = bucket
            before.after = bucket
        bucket.blocks[block] = None
        self._bucket[block] = bucket


def _unlink(bucket: _Bucket) -> None:
    bucket.before.after = bucket.after
    bucket.after.before = bucket.before
