"""Counters while they grow: the sums of one tier, and which blocks can be read there."""

from __future__ import annotations

from collections.abc import Sequence

from tiermem.runtime.counters import WORDS, Count, TierCounters
from tiermem.units import NS_PER_S


class Sums(dict[str, list[int]]):
    """Blocks and bytes by word."""

    def add(self, word: str, blocks: int, nbytes: int) -> None:
        """So many more; a word that is never counted does not appear."""
        if blocks:
            have = self.setdefault(word, [0, 0])
            have[0] += blocks
            have[1] += nbytes

    def count(self, word: str) -> Count:
        """What was counted of one word."""
        return Count(*self.get(word, (0, 0)))

    def counts(self) -> dict[str, Count]:
        """What was counted of each word."""
        return {word: Count(*pair) for word, pair in self.items()}


class TierSums:
    """The sums of one tier, and which blocks can be read there."""

    def __init__(self) -> None:
        self.words, self.refused, self.dropped = Sums(), Sums(), Sums()
        self.faults: dict[str, int] = {}
        self.held: dict[int, int] = {}  # block -> bytes
        self.held_bytes = 0
        self.arriving: set[int] = set()
        self.loads = 0  # under way
        self.loading_since_ns = 0
        self.load_ns = 0

    def hold(self, blocks: Sequence[int], sizes: Sequence[int]) -> int:
        """These copies can be read here now; the bytes that are new."""
        if self.held.keys().isdisjoint(blocks):
            nbytes = sum(sizes)
        else:
            pairs = zip(blocks, sizes, strict=True)
            nbytes = sum([size for block, size in pairs if block not in self.held])
        self.held.update(zip(blocks, sizes, strict=True))
        self.held_bytes += nbytes
        return nbytes

    def let_go(self, blocks: Sequence[int]) -> int:
        """These copies are gone; their bytes."""
        pop = self.held.pop
        nbytes = sum([pop(block, 0) for block in blocks])
        self.held_bytes -= nbytes
        return nbytes

    def load(self, change: int, now: int) -> None:
        """A load begins (1) or ends (-1)."""
        if not self.loads:
            self.loading_since_ns = now
        self.loads += change
        if not self.loads:
            self.load_ns += now - self.loading_since_ns

    def snapshot(self) -> TierCounters:
        """The sums now, as a value."""
        return TierCounters(
            **{word: self.words.count(word) for word in WORDS},
            held=Count(len(self.held), self.held_bytes),
            refused=self.refused.counts(),
            dropped=self.dropped.counts(),
            faults=dict(self.faults),
            load_s=self.load_ns / NS_PER_S,
        )
