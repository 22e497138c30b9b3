"""What the controller remembers about a lease, and about a transfer under way."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from tiermem.core.messages import Acquire, Runs
from tiermem.core.table import Copy


class LeaseState(Enum):
    """The life of a lease."""

    QUEUED = auto()  # waits for room
    FILLING = auto()  # has its room; some of its blocks are on their way
    READY = auto()


class Lease:
    """The right to use some blocks at one tier until released."""

    __slots__ = (
        "at",
        "blocks",
        "copies",
        "hits",
        "id",
        "nbytes",
        "need_bytes",
        "scratch_bytes",
        "sizes",
        "state",
        "waiting",
    )

    def __init__(self, request: Acquire) -> None:
        self.id, self.blocks, self.sizes, self.at, self.scratch_bytes = request
        self.state = LeaseState.QUEUED
        self.copies: list[Copy] = []  # of its blocks, pinned, once it has its room
        self.hits: Runs = ()
        self.nbytes = sum(self.sizes) + self.scratch_bytes  # all the room it asks for
        self.need_bytes = 0  # what of it was not there when last looked
        self.waiting = 0  # transfers still to come

    def truncate(self, lost: Sequence[int]) -> None:
        """Some blocks could not be fetched: hits end before the first of them."""
        keep = min(self.blocks.index(block) for block in lost if block in self.blocks)
        hits = []
        for tier, count in self.hits:
            if keep <= 0:
                break
            hits.append((tier, min(count, keep)))
            keep -= count
        self.hits = tuple(hits)


class Transfer:
    """One `Move`: waiting for room at its target, or under way."""

    __slots__ = ("blocks", "cause", "id", "leases", "nbytes", "source", "target")

    def __init__(
        self, transfer_id: int, cause: str, blocks: list[int], nbytes: int, route: tuple[str, str]
    ) -> None:
        self.id = transfer_id
        self.cause = cause
        self.blocks = blocks
        self.nbytes = nbytes
        self.source, self.target = route
        self.leases: list[Lease] = []  # those that wait for it
