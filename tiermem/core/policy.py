"""What a policy is asked, and all that it may see.

A policy proposes and the controller disposes: pinned and moving victims are skipped, what does
not fit is clipped. A policy cannot break an invariant, only be unwise. `Parts` makes one out of
four small pieces, which is all that most authors write one of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple, Protocol

from tiermem.core.messages import Hint
from tiermem.core.table import BlockTable
from tiermem.models.topology import Topology

TouchOrder = Literal["reverse", "forward"]


class Evict(Protocol):
    """The eviction order of one tier. Built as `Evict(capacity, **parameters)`, with the capacity
    in the unit of `size`: bytes in a tier, blocks in `tiermem hits`."""

    def insert(self, block: int, size: int) -> None:
        """`block` became resident."""
        ...

    def touch(self, block: int) -> None:
        """A resident block was used."""
        ...

    def remove(self, block: int) -> None:
        """A resident block left: evicted, or forgotten."""
        ...

    def victims(self) -> Iterator[int]:
        """Residents, the first to go first, each at most once, lazily. The caller may skip some
        (they are pinned) and may stop at any time; it changes nothing until it has stopped."""
        ...


class View:
    """The read-only world of a policy (INV-9): the machine, the table, and no future."""

    __slots__ = ("_recompute_ns", "_table", "now", "topology")

    def __init__(
        self,
        table: BlockTable,
        topology: Topology,
        recompute_ns: Callable[[int, int], int] | None = None,
    ) -> None:
        self._table = table
        self._recompute_ns = recompute_ns
        self.topology = topology
        self.now = 0

    def free_bytes(self, tier: str) -> int:
        """Bytes of `tier` that nobody holds."""
        return self._table.rooms[tier].free_bytes

    def used_bytes(self, tier: str) -> int:
        """Bytes of `tier` that copies and leases hold."""
        return self._table.rooms[tier].used_bytes

    def where(self, block: int) -> tuple[str, ...]:
        """The tiers with a readable copy of `block`, fastest first."""
        return self._table.where(block)

    def recompute_ns(self, nbytes_before: int, nbytes: int) -> int | None:
        """Estimated time to compute `nbytes` of blocks again after `nbytes_before` of their
        prefix; None when these blocks cannot be computed."""
        return self._recompute_ns(nbytes_before, nbytes) if self._recompute_ns else None


class Found(NamedTuple):
    """A run of leading blocks found in one tier, as `Place.reuse` is told of it."""

    tier: str
    blocks: int
    nbytes: int


class Place(Protocol):
    """Where blocks go and what is worth bringing back.

    When a tier has to demote, the share `demote_ahead` of it (or of the tier below, if that is
    smaller) leaves beyond what is needed now; 0 demotes exactly what is needed.
    """

    demote_ahead: float

    def admit(self, blocks: Sequence[int], at: str, view: View) -> Sequence[str]:
        """Lower tiers that also get a copy as soon as `blocks` are written at `at`
        (write-through); empty for write-back."""
        ...

    def demote(self, blocks: Sequence[int], tier: str, view: View) -> Sequence[str | None]:
        """For each victim the lower tier that it moves to; None drops it."""
        ...

    def reuse(self, found: Sequence[Found], total_bytes: int, at: str, view: View) -> int:
        """How many of the leading runs in `found` to use; what follows is recomputed.
        `total_bytes` is the size of the whole chain asked for."""
        ...

    def site(self, tiers: Sequence[str], view: View) -> str:
        """The tier, one of `tiers`, where work runs."""
        ...


class Prefetch(Protocol):
    """What to bring before it is asked for."""

    def prefetch(self, hint: Hint, view: View) -> Sequence[int]:
        """Blocks worth bringing to `hint.at`, in the order of their worth."""
        ...


class Policy(Place, Prefetch, Protocol):
    """Everything that is a matter of judgement. One policy object drives both bodies."""

    touch_order: TouchOrder

    def evict(self, tier: str) -> Evict:
        """The eviction order of `tier`; the same object each time."""
        ...


class Parts:
    """A policy from its pieces.

    `touch_order` says in which order the blocks of one request become recent: "reverse", tail
    before head, leaves the head of a prefix most recent, and so the last to go.
    """

    def __init__(
        self,
        evict: Callable[[int], Evict],
        place: Place,
        prefetch: Prefetch,
        capacities_bytes: dict[str, int],
        touch_order: TouchOrder = "reverse",
    ) -> None:
        self._orders = {tier: evict(size) for tier, size in capacities_bytes.items()}
        self.touch_order = touch_order
        self.evict = self._orders.__getitem__
        self.demote_ahead = place.demote_ahead
        self.admit = place.admit
        self.demote = place.demote
        self.reuse = place.reuse
        self.site = place.site
        self.prefetch = prefetch.prefetch
