"""The counters of a runtime, as values: what became of the blocks of each tier.

The words stand in docs/glossary.md, in the order in which a block passes them: offered, admitted
or refused (why), stored, looked up, hit, loaded, failed; then evicted, demoted, promoted, dropped.
`tiermem.runtime.tally` counts them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

WORDS = (
    *("offered", "admitted", "stored", "looked_up", "hit", "loaded", "failed"),
    *("evicted", "demoted", "promoted", "adopted"),
)


class Count(NamedTuple):
    """So many blocks, and the bytes they are charged."""

    blocks: int = 0
    nbytes: int = 0


NONE = Count()


@dataclass(frozen=True, slots=True)
class TierCounters:
    """One tier since the start. What each word means stands in the glossary."""

    offered: Count = NONE
    admitted: Count = NONE
    stored: Count = NONE
    looked_up: Count = NONE
    hit: Count = NONE
    loaded: Count = NONE
    failed: Count = NONE
    evicted: Count = NONE
    demoted: Count = NONE
    promoted: Count = NONE
    adopted: Count = NONE
    held: Count = NONE
    """Readable now; this one goes down too."""
    refused: Mapping[str, Count] = field(default_factory=dict)
    """By why: `policy`, `no_room`, `too_large`, `stuck`, `gave_up`."""
    dropped: Mapping[str, Count] = field(default_factory=dict)
    """By the cause of `tiermem.core.messages.Drop`."""
    faults: Mapping[str, int] = field(default_factory=dict)
    """Blocks by the kind of `tiermem.runtime.stores.FaultKind`, as the executor saw them."""
    load_s: float = 0.0
    """Seconds during which something was being loaded from here."""

    def document(self) -> dict[str, Any]:
        """For JSON: each count as `{"blocks": n, "bytes": n}`."""
        counts = {word: _pair(getattr(self, word)) for word in (*WORDS, "held")}
        refused = {why: _pair(count) for why, count in sorted(self.refused.items())}
        dropped = {why: _pair(count) for why, count in sorted(self.dropped.items())}
        faults = dict(sorted(self.faults.items()))
        load = {"load_s": self.load_s}
        return {**counts, "refused": refused, "dropped": dropped, "faults": faults, **load}


@dataclass(frozen=True, slots=True)
class Counters:
    """Every tier at one moment, fastest first, and what was asked of all of them together."""

    tiers: Mapping[str, TierCounters]
    leases: int = 0
    """Leases that got their room."""
    asked: Count = NONE
    """Blocks of those leases: each is a hit of one tier, or missed."""
    missed: Mapping[str, Count] = field(default_factory=dict)
    """By why: `new` (never stored, or long gone), the cause of the drop of its last copy, `gap`
    (it is there, behind one that is not), `recompute` (it is there; the policy would not)."""

    def __getitem__(self, tier: str) -> TierCounters:
        return self.tiers[tier]

    @property
    def hit(self) -> Count:
        """Hits of all tiers."""
        return _sum(tier.hit for tier in self.tiers.values())

    @property
    def hit_rate(self) -> float | None:
        """Blocks hit / blocks asked for; None before anything was."""
        return self.hit.blocks / self.asked.blocks if self.asked.blocks else None

    def document(self) -> dict[str, Any]:
        """For JSON."""
        rate = {} if self.asked.blocks else {"hit_rate_reason": "nothing was asked for yet"}
        return {
            "leases": self.leases,
            "asked": _pair(self.asked),
            "hit": _pair(self.hit),
            "hit_rate": self.hit_rate,
            **rate,
            "missed": {why: _pair(count) for why, count in sorted(self.missed.items())},
            "tiers": {name: tier.document() for name, tier in self.tiers.items()},
        }


def _pair(count: Count) -> dict[str, int]:
    return {"blocks": count.blocks, "bytes": count.nbytes}


def _sum(counts: Iterable[Count]) -> Count:
    pairs = list(counts)
    return Count(sum(pair.blocks for pair in pairs), sum(pair.nbytes for pair in pairs))
