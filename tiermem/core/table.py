"""The one truth: which tier holds which block, in what state, pinned by how many.

The table keeps the books (INV-1 to INV-3) and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto
from itertools import repeat


class CopyState(Enum):
    """The life of a copy."""

    ARRIVING = auto()  # room is taken; its bytes are being moved in or computed
    READY = auto()
    LEAVING = auto()  # still whole and readable; its bytes are being moved down


ARRIVING, READY, LEAVING = CopyState.ARRIVING, CopyState.READY, CopyState.LEAVING


class Copy:
    """One block at one tier."""

    __slots__ = ("moving", "nbytes", "pins", "ranked", "state")

    def __init__(self, nbytes: int, moving: int, pins: int) -> None:
        self.nbytes = nbytes
        self.state = ARRIVING
        self.pins = pins
        self.ranked = False  # known to the tier's eviction order
        self.moving = moving  # the move that brings it in, or takes it down; -1 for none


class Room:
    """The copies and the bytes of one tier."""

    __slots__ = (
        "capacity_bytes",
        "copies",
        "doomed",
        "evictable_bytes",
        "leaving_bytes",
        "name",
        "pinned_bytes",
        "used_bytes",
    )

    def __init__(self, name: str, capacity_bytes: int) -> None:
        self.name = name
        self.capacity_bytes = capacity_bytes
        self.copies: dict[int, Copy] = {}
        self.doomed: dict[int, str] = {}  # copies that go as soon as nothing pins them, and why
        self.used_bytes = 0
        self.pinned_bytes = 0  # of pinned copies, and of scratch
        self.leaving_bytes = 0  # of LEAVING copies that nothing pins
        self.evictable_bytes = 0  # of ranked copies that nothing pins

    @property
    def free_bytes(self) -> int:
        """Bytes that nobody holds."""
        return self.capacity_bytes - self.used_bytes

    def readable(self, block: int) -> bool:
        """Whether the bytes of `block` may be read here by somebody who comes now."""
        copy = self.copies.get(block)
        return copy is not None and copy.state is not ARRIVING and block not in self.doomed

    def add(
        self, blocks: Sequence[int], sizes: Sequence[int], *, moving: int = -1, pins: int = 0
    ) -> list[Copy]:
        """New ARRIVING copies. There must be room, and no other copies here (INV-1, INV-2)."""
        copies, before = self.copies, len(self.copies)
        assert copies.keys().isdisjoint(blocks), "INV-2: one copy of a block in a tier"
        made = list(map(Copy, sizes, repeat(moving), repeat(pins)))
        copies.update(zip(blocks, made, strict=True))
        assert len(copies) == before + len(made), "a chain names each block once"
        nbytes = sum(sizes)
        self.used_bytes += nbytes
        assert self.used_bytes <= self.capacity_bytes, "INV-1: no tier holds more than it can"
        if pins:
            self.pinned_bytes += nbytes
        return made

    def remove(self, blocks: Sequence[int]) -> None:
        """These copies are gone. A pinned one never goes (INV-3)."""
        copies = list(map(self.copies.pop, blocks))
        sizes = [copy.nbytes for copy in copies if not copy.pins]
        assert len(sizes) == len(copies), "INV-3: a pinned copy never leaves"
        self.used_bytes -= sum(sizes)
        if self.leaving_bytes:
            self.leaving_bytes -= sum([copy.nbytes for copy in copies if copy.state is LEAVING])
        if self.doomed:
            for block in blocks:
                self.doomed.pop(block, None)

    def pin(self, copy: Copy) -> None:
        """Forbid leaving once more."""
        self.pin_all((copy,))

    def unpin(self, copy: Copy) -> bool:
        """Take one pin away; true when it was the last."""
        assert copy.pins > 0, "a pin is taken away once"
        self.unpin_all((copy,))
        return not copy.pins

    def pin_all(self, copies: Sequence[Copy]) -> None:
        """Forbid each of these copies leaving once more."""
        pinned = evictable = leaving = 0
        for copy in copies:
            if not copy.pins:
                pinned += copy.nbytes
                if copy.ranked:
                    evictable += copy.nbytes
                elif copy.state is LEAVING:
                    leaving += copy.nbytes
            copy.pins += 1
        self.pinned_bytes += pinned
        self.evictable_bytes -= evictable
        self.leaving_bytes -= leaving

    def unpin_all(self, copies: Sequence[Copy]) -> None:
        """Take one pin of each of these copies away."""
        pinned = evictable = leaving = 0
        for copy in copies:
            copy.pins -= 1
            if not copy.pins:
                pinned += copy.nbytes
                if copy.ranked:
                    evictable += copy.nbytes
                elif copy.state is LEAVING:
                    leaving += copy.nbytes
        self.pinned_bytes -= pinned
        self.evictable_bytes += evictable
        self.leaving_bytes += leaving

    def rank(self, copy: Copy) -> None:
        """The eviction order of this tier knows the copy from now on."""
        assert copy.state is READY, "only READY copies are ranked"
        assert not copy.ranked, "a copy is ranked once"
        copy.ranked = True
        if not copy.pins:
            self.evictable_bytes += copy.nbytes

    def unrank(self, copy: Copy) -> None:
        """The eviction order of this tier knows the copy no more."""
        assert copy.ranked, "only a ranked copy can be unranked"
        copy.ranked = False
        if not copy.pins:
            self.evictable_bytes -= copy.nbytes

    def leave(self, blocks: Sequence[int], moving: int) -> None:
        """READY copies that nothing pins start on their way down."""
        nbytes = 0
        for copy in map(self.copies.__getitem__, blocks):
            assert copy.state is READY, "only a READY copy leaves"
            assert copy.pins == 0, "INV-3: a pinned copy never leaves"
            copy.state = LEAVING
            copy.moving = moving
            nbytes += copy.nbytes
        self.leaving_bytes += nbytes

    def stay(self, copy: Copy) -> None:
        """A copy on its way down is READY here again."""
        assert copy.state is LEAVING, "only a LEAVING copy can be kept"
        if copy.pins == 0:
            self.leaving_bytes -= copy.nbytes
        copy.state = READY
        copy.moving = -1

    def reserve(self, nbytes: int) -> None:
        """Take room that has no identity."""
        self.used_bytes += nbytes
        self.pinned_bytes += nbytes
        assert self.used_bytes <= self.capacity_bytes, "INV-1: no tier holds more than it can"

    def give_back(self, nbytes: int) -> None:
        """Return room taken by `reserve`."""
        self.used_bytes -= nbytes
        self.pinned_bytes -= nbytes
        assert self.used_bytes >= 0, "INV-1: nobody returns what was not taken"


class BlockTable:
    """The rooms of one machine, fastest first."""

    def __init__(self, capacities_bytes: Mapping[str, int]) -> None:
        self.rooms = {name: Room(name, size) for name, size in capacities_bytes.items()}

    def where(self, block: int) -> tuple[str, ...]:
        """The tiers with a copy to read, fastest first; one that is about to go is none."""
        return tuple(name for name, room in self.rooms.items() if room.readable(block))

    def check(self, scratch_bytes: Mapping[str, int]) -> None:
        """Count everything again (INV-1); for tests, since it walks every copy."""
        for name, room in self.rooms.items():
            copies: Iterable[Copy] = room.copies.values()
            held = sum(copy.nbytes for copy in copies)
            pinned = sum(copy.nbytes for copy in copies if copy.pins)
            leaving = sum(copy.nbytes for copy in copies if copy.state is LEAVING and not copy.pins)
            evictable = sum(copy.nbytes for copy in copies if copy.ranked and not copy.pins)
            scratch = scratch_bytes.get(name, 0)
            assert room.used_bytes == held + scratch, f"INV-1 at {name}"
            assert room.pinned_bytes == pinned + scratch, f"pins at {name}"
            assert room.leaving_bytes == leaving, f"leaving at {name}"
            assert room.evictable_bytes == evictable, f"evictable at {name}"
            assert 0 <= room.used_bytes <= room.capacity_bytes, f"INV-1 at {name}"
            assert room.doomed.keys() <= room.copies.keys(), f"doomed and gone at {name}"
